//! The request of a call. Pure.

use std::fmt::Write;

use ::http::header::{ACCEPT, CONTENT_TYPE};
use ::http::{HeaderMap, HeaderValue, Method, Request};
use serde_json::{Map, Value};

use super::layer::{Part, Plan};
use crate::idempotency_key::IdempotencyKey;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The request, or nothing where the arguments make none.
pub(super) fn of(
    plan: &Plan,
    args: Map<String, Value>,
    key: Option<&IdempotencyKey>,
) -> Option<Request<Vec<u8>>> {
    let mut args = args;
    let mut target = path(plan, &args)?;
    let has_body = matches!(plan.method, Method::POST | Method::PUT | Method::PATCH);
    let mut pairs: Vec<(String, Value)> = Vec::new();
    for name in plan.query.iter().filter(|name| !plan.is_in_path(name)) {
        // It leaves null behind, which makes no pair: a name that is told twice counts once.
        if let Some(value) = args.get_mut(name) {
            pairs.push((name.clone(), value.take()));
        }
    }
    let mut left = Map::new();
    for (name, value) in args {
        if plan.is_in_path(&name) || plan.query.contains(&name) {
            continue;
        }
        if has_body {
            left.insert(name, value);
        } else {
            pairs.push((name, value));
        }
    }
    add_query(&mut target, pairs)?;

    let mut headers = HeaderMap::new();
    headers.append(ACCEPT, JSON);
    let body = if has_body {
        headers.append(CONTENT_TYPE, JSON);
        // `Display`, since a serializer would be compiled anew here.
        Value::Object(left).to_string().into_bytes()
    } else {
        Vec::new()
    };
    if matches!(plan.method, Method::POST | Method::PATCH) {
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(key.as_str()).ok()?;
            value.set_sensitive(true);
            headers.append(plan.key_header.clone(), value);
        }
    }
    let mut request = Request::new(body);
    *request.method_mut() = plan.method.clone();
    *request.uri_mut() = target.try_into().ok()?;
    *request.headers_mut() = headers;
    Some(request)
}

fn path(plan: &Plan, args: &Map<String, Value>) -> Option<String> {
    let mut target = String::new();
    for part in &plan.path {
        match part {
            Part::Text(text) => target.push_str(text),
            Part::Argument(name) => {
                let value = text(args.get(name)?)?;
                // A dot segment would be another path (RFC 3986 §5.2.4), and an empty one mostly is too.
                if matches!(value.as_str(), "" | "." | "..") {
                    return None;
                }
                encode(&mut target, &value);
            }
        }
    }
    Some(target)
}

/// A list is its items, one pair each, as `OpenAPI` has it by default.
fn add_query(target: &mut String, pairs: Vec<(String, Value)>) -> Option<()> {
    let mut separator = '?';
    for (name, value) in pairs {
        let items = match value {
            Value::Null => continue,
            Value::Array(items) => items,
            one => vec![one],
        };
        for item in items {
            let item = text(&item)?;
            target.push(separator);
            encode(target, &name);
            target.push('=');
            encode(target, &item);
            separator = '&';
        }
    }
    Some(())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Percent-encoding of everything but the unreserved characters (RFC 3986 §2.3).
fn encode(target: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            target.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(target, "%{byte:02X}");
        }
    }
}
