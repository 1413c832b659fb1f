//! Keys from what a call says. Pure.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::ToolCall;
use crate::idempotency_key::IdempotencyKey;

/// The largest integer up to which every integer has a double of its own.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// The key of this call within its turn. Nothing where it has no id.
pub(super) fn of_call_id(call: &ToolCall) -> Option<IdempotencyKey> {
    let id = given(call.function_call_id.as_ref())?;
    let turn = given(call.invocation_id.as_ref());
    key("call", [turn.into(), call.name.as_str().into(), id.into()])
}

/// The key of what is asked for within its turn, whoever asks. Nothing where the turn has no id: equal arguments in two
/// turns are two orders.
pub(super) fn of_arguments(call: &ToolCall, fields: Option<&[String]>) -> Option<IdempotencyKey> {
    let turn = given(call.invocation_id.as_ref())?;
    let declared = fields.map(|fields| picked(&call.args, fields));
    // Where none of the declared fields is there, all calls would have one key.
    let mut args = Value::Object(match declared {
        Some(declared) if !declared.is_empty() => declared,
        _ => call.args.clone(),
    });
    make_exact(&mut args);
    key("arguments", [turn.into(), call.name.as_str().into(), args])
}

/// An empty id is none.
fn given(id: Option<&String>) -> Option<&str> {
    id.map(String::as_str).filter(|id| !id.is_empty())
}

fn picked(args: &Map<String, Value>, fields: &[String]) -> Map<String, Value> {
    let mut picked = Map::new();
    for field in fields {
        if let Some(value) = args.get(field) {
            picked.insert(field.clone(), value.clone());
        }
    }
    picked
}

/// RFC 8785 has doubles for numbers, so two large integers may become one: those go in as the text of their digits, as
/// its appendix D has it. Two orders must not share a key.
fn make_exact(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let is_safe = match (number.as_u64(), number.as_i64()) {
                (Some(whole), _) => whole <= MAX_SAFE,
                (None, Some(whole)) => whole.unsigned_abs() <= MAX_SAFE,
                (None, None) => number.as_f64().is_some_and(f64::is_finite),
            };
            if !is_safe {
                *value = Value::String(number.to_string());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_exact),
        Value::Object(map) => map.values_mut().for_each(make_exact),
        _ => {}
    }
}

/// SHA-256 over the canonical JSON (RFC 8785) of an array, in which no part can run into the next, as a UUID of
/// version 8 (RFC 9562 §5.8): 36 characters, which every API that takes keys has room for.
fn key<const N: usize>(kind: &str, parts: [Value; N]) -> Option<IdempotencyKey> {
    let mut all = vec![Value::from(kind)];
    all.extend(parts);
    let canonical = serde_json_canonicalizer::to_vec(&all).ok()?;
    let hash = Sha256::digest(canonical);
    let first: [u8; 16] = hash.get(..16)?.try_into().ok()?;
    let id = uuid::Builder::from_custom_bytes(first).into_uuid();
    let mut buffer = uuid::Uuid::encode_buffer();
    let text: &str = id.hyphenated().encode_lower(&mut buffer);
    IdempotencyKey::new(text).ok()
}
