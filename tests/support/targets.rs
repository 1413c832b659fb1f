//! What must hold of each input that a peer or a model can choose. The fuzzers in `fuzz/` and the replay of their corpora
//! run these same functions.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "shared by a test and the fuzzers"
)]

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue, Request, Response};
use serde_json::{Map, Value, json};
use tower::{BoxError, Layer, Service};
use tower_composure::http::Dialect;
use tower_composure::tool::{ToolCall, ToolKeyLayer, tool_fn};
use tower_composure::wire::TimeoutFormat;
use tower_composure::{
    Attempt, Effect, GrpcPolicy, Hint, HttpPolicy, IdempotencyKey, IdempotencyKeyLayer, KeyFormat,
    Policy, ToolPolicy, Verdict,
};

pub type Target = (&'static str, fn(&[u8]));

/// Each with the folder of its corpus.
pub const ALL: [Target; 8] = [
    ("retry_after", retry_after),
    ("rate_limit", rate_limit),
    ("reset_time", reset_time),
    ("grpc_timeout", grpc_timeout),
    ("grpc_pushback", grpc_pushback),
    ("structured_key", structured_key),
    ("tool_map", tool_map),
    ("canonical_json", canonical_json),
];

/// 2026-01-01T00:00:00Z.
fn wall() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// The hint of a 429 with this value in a field.
fn hint(policy: HttpPolicy, name: &'static str, value: &[u8]) -> Option<Duration> {
    hint_of(policy, [(name, HeaderValue::from_bytes(value).ok()?)])
}

/// The hint of a 429 with these fields.
fn hint_of<const N: usize>(
    policy: HttpPolicy,
    fields: [(&'static str, HeaderValue); N],
) -> Option<Duration> {
    let mut response = Response::builder().status(429).body(()).unwrap();
    for (name, value) in fields {
        response
            .headers_mut()
            .append(HeaderName::from_static(name), value);
    }
    let policy = policy.wall_clock(wall);
    let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = &policy;
    let verdict = policy.classify(&Attempt::first(Effect::Read), Ok(&response));
    assert!(matches!(verdict, Verdict::Throttled { .. }), "{verdict:?}");
    verdict.hint().map(Hint::wait)
}

/// A number that is asked for, where the value is plainly one.
fn digits(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Never a shorter wait than digits say, and spaces around a value change nothing.
pub fn retry_after(data: &[u8]) {
    let found = hint(HttpPolicy::new(), "retry-after", data);
    let is_value = HeaderValue::from_bytes(data).is_ok();
    if let (Some(seconds), true) = (digits(data), is_value) {
        let very_long = Duration::from_secs(seconds.min(1 << 53));
        assert!(found.unwrap() >= very_long, "{found:?} of {seconds}");
    }
    let padded = [b" \t", data, b" "].concat();
    assert_eq!(hint(HttpPolicy::new(), "retry-after", &padded), found);
    let _ = hint(HttpPolicy::new(), "retry-after-ms", data);
}

/// Malformed as a whole or not at all: a member more never shortens the wait of a quota that is used up.
pub fn rate_limit(data: &[u8]) {
    let policy = || HttpPolicy::new().dialect(Dialect::RateLimit);
    let found = hint(policy(), "ratelimit", data);
    if let Some(found) = found {
        let more = [data, b", \"more\";r=0;t=9"].concat();
        let with_more = hint(policy(), "ratelimit", &more);
        assert_eq!(with_more, Some(found.max(Duration::from_secs(9))));
    }
}

/// A wait or a time in a field that is named, beside a `Date`, if the data has a second line. Never a shorter wait than
/// digits say, and a time is the same wait as so much more since 1970.
pub fn reset_time(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let value = lines.next().unwrap_or_default();
    let Ok(field) = HeaderValue::from_bytes(value) else {
        return;
    };
    let made = lines.next().map(HeaderValue::from_bytes);
    let hint = |dialect: fn(HeaderName) -> Dialect| {
        let policy = HttpPolicy::new().dialect(dialect(HeaderName::from_static("x-reset")));
        match &made {
            Some(Ok(made)) => hint_of(policy, [("x-reset", field.clone()), ("date", made.clone())]),
            _ => hint_of(policy, [("x-reset", field.clone())]),
        }
    };
    let (seconds, millis) = (hint(Dialect::DeltaSeconds), hint(Dialect::DeltaMillis));
    if let Some(number) = digits(value) {
        let number = number.min(1 << 53);
        assert!(
            seconds.unwrap() >= Duration::from_secs(number),
            "{seconds:?}"
        );
        assert!(
            millis.unwrap() >= Duration::from_millis(number),
            "{millis:?}"
        );
    }
    for (wait, time) in [
        (seconds, hint(Dialect::EpochSeconds)),
        (millis, hint(Dialect::EpochMillis)),
    ] {
        assert_eq!(wait.is_some(), time.is_some());
        assert!(time <= wait, "{time:?} of {wait:?}: all is since 1970");
        if !matches!(made, Some(Ok(_))) {
            let now = Duration::from_secs(1_767_225_600);
            assert_eq!(time, wait.map(|wait| wait.saturating_sub(now)));
        }
    }
}

/// What is read can be written again, legally, and never as more time than there is.
pub fn grpc_timeout(data: &[u8]) {
    for format in [TimeoutFormat::Grpc, TimeoutFormat::Millis] {
        let Some(read) = format.read(data) else {
            continue;
        };
        let Some(written) = format.write(read) else {
            assert!(read < Duration::from_millis(1), "{read:?} is not written");
            continue;
        };
        let again = format.read(written.as_bytes()).unwrap();
        assert!(again <= read, "{again:?} of {read:?}");
        if format == TimeoutFormat::Grpc {
            assert!((2..=9).contains(&written.len()), "{written:?}");
        }
    }
}

/// Taken as it is, or as "do not retry"; never as a shorter wait.
pub fn grpc_pushback(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else {
        return;
    };
    let mut response = Response::new(());
    response
        .headers_mut()
        .insert("grpc-status", HeaderValue::from_static("14"));
    response
        .headers_mut()
        .insert("grpc-retry-pushback-ms", value);
    let policy = GrpcPolicy::new();
    let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = &policy;
    let verdict = policy.classify(&Attempt::first(Effect::Read), Ok(&response));
    let wait = verdict.hint().unwrap().wait();
    match std::str::from_utf8(data)
        .ok()
        .and_then(|text| text.parse::<i32>().ok())
    {
        Some(millis) if millis >= 0 => {
            assert!(wait >= Duration::from_millis(u64::from(millis.unsigned_abs())));
        }
        _ => assert!(
            wait > Duration::from_secs(1 << 53) || digits(data).is_some(),
            "{wait:?}"
        ),
    }
}

/// Runs a future that has nothing to wait for.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// A key goes as a string of the structured form, and reads as the same.
pub fn structured_key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let key = IdempotencyKey::new(text);
    let valid = !text.is_empty() && text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    assert_eq!(key.is_ok(), valid, "{text:?}");
    let Ok(key) = key else { return };
    let made = key.clone();
    let layer = IdempotencyKeyLayer::new()
        .format(KeyFormat::Structured)
        .key_fn(move |_: &Request<()>| made.clone());
    let mut service = layer.layer(tower::service_fn(async |request: Request<()>| {
        Ok::<_, Infallible>(request.headers()["idempotency-key"].clone())
    }));
    let Ok(written) = at_once(service.call(Request::post("/").body(()).unwrap()));
    let written = written.to_str().unwrap();
    let inside = written
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let quoted = inside.unwrap().replace("\\\\", "\0").replace("\\\"", "\"");
    assert_eq!(quoted.replace('\0', "\\"), key.as_str());
    // It parses as a member of a list of strings, and nothing of it runs out of the string.
    let field = [written.as_bytes(), b";r=0;t=7"].concat();
    let policy = HttpPolicy::new().dialect(Dialect::RateLimit);
    assert_eq!(
        hint(policy, "ratelimit", &field),
        Some(Duration::from_secs(7))
    );
}

fn map(data: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(data).ok()
}

/// No map is a panic; one that says it is an error is no success; and none makes a write safe to repeat by a flag.
pub fn tool_map(data: &[u8]) {
    let Some(answer) = map(data) else { return };
    let policy = ToolPolicy::new();
    let policy: &dyn Policy<ToolCall, Map<String, Value>, Infallible> = &policy;
    let say = |answer: &_| policy.classify(&Attempt::first(Effect::Write), Ok(answer));
    let verdict = say(&answer);
    if answer.get("status") == Some(&json!("error")) {
        assert!(!verdict.is_success());
    }
    let mut flagged = answer.clone();
    if let Some(Value::Object(error)) = flagged.get_mut("error") {
        error.insert("retryable".to_owned(), json!(true));
        let harmless =
            |verdict| matches!(verdict, Verdict::Throttled { .. } | Verdict::Refused { .. });
        assert!(!harmless(say(&flagged)) || harmless(verdict) || !verdict.is_retryable());
    }
}

/// One key for the same arguments however they are written, and another one for others.
pub fn canonical_json(data: &[u8]) {
    let Some(args) = map(data) else { return };
    let pretty = serde_json::to_vec_pretty(&args).unwrap();
    let key = key_of(args.clone());
    assert_eq!(key.len(), 36, "{key}");
    assert_eq!(key_of(map(&pretty).unwrap()), key);
    let mut other = args;
    let fresh = "k".repeat(other.keys().map(String::len).max().unwrap_or(0) + 1);
    other.insert(fresh, json!(1));
    assert_ne!(key_of(other), key);
}

fn key_of(args: Map<String, Value>) -> String {
    let tool = tool_fn(|call: ToolCall| async move {
        let key = call.key.map(|key| key.as_str().to_owned());
        Ok::<_, Infallible>(json!({ "key": key }))
    });
    let call = ToolCall::new("charge").args(args).invocation_id("turn-1");
    let Ok(answer) = at_once(ToolKeyLayer::from_arguments().layer(tool).call(call));
    answer["key"].as_str().unwrap().to_owned()
}
