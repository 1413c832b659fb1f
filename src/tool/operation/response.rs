//! The map of a response. Pure.

use std::time::{Duration, SystemTime};

use ::http::header::CONTENT_TYPE;
use ::http::{Response, StatusCode};
use serde_json::{Map, Value};

use crate::http::retry_after_of;
use crate::tool::shape::{self, Reading};
use crate::tool::{ToolResponse, codes};
use crate::verdict::Verdict;

pub(super) fn map<B: AsRef<[u8]>>(
    response: &Response<B>,
    wall: impl Fn() -> SystemTime,
) -> ToolResponse {
    let status = response.status();
    let body = response.body().as_ref();
    let json = serde_json::from_slice(body);
    if status.is_success() {
        return match json {
            Ok(Value::Object(map)) => map,
            Ok(value) => result(value),
            Err(_) if body.is_empty() => ok(),
            Err(_) if claims_json(response) => codes::failure("INTERNAL"),
            Err(_) => result(String::from_utf8_lossy(body).into()),
        };
    }
    let wait = retry_after_of(response.headers(), &wall);
    failed(status, json.ok(), wait)
}

fn ok() -> ToolResponse {
    let mut map = Map::new();
    map.insert("status".to_owned(), "ok".into());
    map
}

fn result(value: Value) -> ToolResponse {
    let mut map = ok();
    map.insert("result".to_owned(), value);
    map
}

fn claims_json<B>(response: &Response<B>) -> bool {
    let value = response.headers().get(CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or("");
    let media = value.split(';').next().unwrap_or("").trim();
    media.eq_ignore_ascii_case("application/json") || media.to_ascii_lowercase().ends_with("+json")
}

fn failed(status: StatusCode, body: Option<Value>, wait: Option<Duration>) -> ToolResponse {
    let read = body.as_ref().and_then(Value::as_object).map(shape::own);
    let told = match read {
        Some(Reading::Failed(failure)) => Some(failure),
        _ => None,
    };
    let by_status = code(status);
    let is_final = told.and_then(|told| codes::rejection(told.code?));
    // What a limit refused had no effect. Of the other statuses that may be temporary nobody knows it, whatever their
    // bodies say, and the code has to stay one that says so.
    let is_limit = matches!(codes::verdict(by_status), Verdict::Throttled { .. });
    let mut map = codes::failure(is_final.filter(|_| is_limit).unwrap_or(by_status));
    if let Some(error) = map.get_mut("error").and_then(Value::as_object_mut) {
        let wait = wait.max(told.and_then(|told| told.wait));
        if let Some(wait) = wait {
            error.insert("retry_after".to_owned(), whole_seconds(wait).into());
        }
        let says_so = told.and_then(|told| told.retryable) == Some(false);
        if says_so || is_final.is_some() {
            error.insert("retryable".to_owned(), false.into());
        }
    }
    map.insert("http_status".to_owned(), status.as_u16().into());
    if let Some(body) = body {
        map.insert("body".to_owned(), body);
    }
    map
}

/// The code of a status that is no success.
fn code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 | 413 | 422 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 | 410 => "NOT_FOUND",
        409 => "ALREADY_EXISTS",
        408 | 504 => "DEADLINE_EXCEEDED",
        421 | 425 | 429 => "RATE_LIMITED",
        502 | 503 => "UNAVAILABLE",
        100..=499 => "FAILED_PRECONDITION",
        _ => "INTERNAL",
    }
}

/// A fraction counts as a second: no retry comes early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs()
        .saturating_add(u64::from(wait.subsec_nanos() > 0))
}
