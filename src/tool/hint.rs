//! How long a failed tool asks to wait. Pure.

use std::time::Duration;

use serde_json::{Map, Value};

/// The longest wait that an error map asks for.
pub(super) fn wait(error: &Map<String, Value>) -> Option<Duration> {
    let after = error.get("retry_after").and_then(seconds);
    let mut longest = delay(error).max(after);
    if let Some(Value::Array(details)) = error.get("details") {
        for detail in details {
            longest = longest.max(detail.as_object().and_then(delay));
        }
    }
    longest
}

fn delay(map: &Map<String, Value>) -> Option<Duration> {
    let value = map.get("retryDelay").or_else(|| map.get("retry_delay"))?;
    parse(value.as_str()?.strip_suffix('s')?)
}

/// Seconds as a number or as its text.
fn seconds(value: &Value) -> Option<Duration> {
    match value {
        Value::Number(number) => parse(&number.to_string()),
        Value::String(text) => parse(text),
        _ => None,
    }
}

/// Digits with up to nine of a fraction. Whole seconds out of range mean very long, not malformed.
fn parse(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    let whole = Duration::from_secs(whole.parse().unwrap_or(u64::MAX));
    Some(whole.saturating_add(Duration::from_nanos(nanos)))
}
