//! Headers of a flood: a mebibyte of one, or as many as there can be. Nothing panics, and what is no value is none.
#![cfg(all(not(loom), feature = "grpc"))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use support::http_policy::{hint_of, policy};
use tower::{BoxError, Layer, ServiceExt};
use tower_composure::http::Dialect;
use tower_composure::{
    Attempt, AttemptHeaderLayer, Deadline, DeadlineFromHeaderLayer, DeadlineHeaderLayer,
    DeadlineLayer, Effect, GrpcPolicy, IdempotencyKeyLayer, Policy, RetryLayer, Verdict,
};

const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn fill(text: &str) -> Vec<u8> {
    text.repeat(MIB / text.len()).into_bytes()
}

#[test]
fn headers_of_a_mebibyte_are_no_hint_and_no_panic() {
    let policy = policy().dialect(Dialect::RateLimit);
    for value in [
        fill("9"),
        fill(" "),
        fill("-"),
        fill("0x"),
        fill("a, "),
        fill("\"\\\""),
    ] {
        for name in [
            "retry-after",
            "retry-after-ms",
            "ratelimit",
            "x-reset",
            "date",
        ] {
            let hint = hint_of(&policy, &[(name, &value)]);
            // So many digits are a wait that nobody makes.
            let digits = value[0] == b'9' && name.starts_with("retry");
            assert_eq!(hint.is_some(), digits, "{name}");
            assert!(
                hint.is_none_or(|hint| hint >= Duration::from_secs(1 << 53)),
                "{name}"
            );
        }
    }
    let zeros = [fill("0"), b"5".to_vec()].concat();
    assert_eq!(
        hint_of(&policy, &[("retry-after", &zeros)]),
        Some(Duration::from_secs(5))
    );
}

/// How long a key may be is the server's to say.
#[tokio::test]
async fn a_header_of_a_mebibyte_is_the_caller_s() {
    let long = "k".repeat(MIB);
    let service =
        IdempotencyKeyLayer::new().layer(tower::service_fn(|request: Request<()>| async move {
            Ok::<_, BoxError>(request.headers()["idempotency-key"].len())
        }));
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    let value = HeaderValue::from_str(&long).unwrap();
    request.headers_mut().insert("idempotency-key", value);
    assert_eq!(service.oneshot(request).await.unwrap(), MIB);
}

fn grpc_verdict(fields: &[(&'static str, &[u8])]) -> Verdict {
    let mut response = Response::new(());
    for (name, value) in fields {
        let value = HeaderValue::from_bytes(value).unwrap();
        response.headers_mut().append(*name, value);
    }
    let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = &GrpcPolicy::new();
    policy.classify(&Attempt::first(Effect::Write), Ok(&response))
}

#[test]
fn trailers_of_a_mebibyte_are_no_status_and_no_early_retry() {
    for value in [fill("1"), fill(" "), fill("-"), fill("%F0")] {
        let verdict = grpc_verdict(&[("grpc-status", &value)]);
        assert!(
            !verdict.is_success() && !verdict.is_retryable(),
            "{verdict:?}"
        );
        let verdict = grpc_verdict(&[("grpc-status", b"14"), ("grpc-retry-pushback-ms", &value)]);
        let wait = verdict.hint().unwrap().wait();
        assert!(wait >= Duration::from_secs(1 << 53), "{wait:?}");
    }
    let message = fill("%F0%9F");
    let verdict = grpc_verdict(&[("grpc-status", b"0"), ("grpc-message", &message)]);
    assert!(verdict.is_success());
}

/// The time that a handler has, by such a field; without one it has 7 s, and with any 9 s at most.
async fn time_for(layer: DeadlineFromHeaderLayer, name: &'static str, value: &[u8]) -> Duration {
    let layer = layer.default_limit(7 * SECOND).max_limit(9 * SECOND);
    let service = layer.layer(tower::service_fn(async |_: Request<()>| {
        let left = Deadline::current().map(|deadline| deadline.remaining());
        Ok::<_, Infallible>(left.unwrap())
    }));
    let mut request = Request::new(());
    let value = HeaderValue::from_bytes(value).unwrap();
    request.headers_mut().insert(name, value);
    service.oneshot(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_mebibyte_is_none_or_as_long_as_may_be() {
    for (text, millis) in [("9", 9), ("0", 0), ("9S", 7), (" 1m", 7), ("-", 7)] {
        let value = fill(text);
        let grpc = DeadlineFromHeaderLayer::grpc();
        assert_eq!(time_for(grpc, "grpc-timeout", &value).await, 7 * SECOND);
        let layer = DeadlineFromHeaderLayer::millis(HeaderName::from_static("x-timeout-ms"));
        let time = time_for(layer, "x-timeout-ms", &value).await;
        assert_eq!(time, millis * SECOND, "{text}");
    }
}

/// As many fields as there can be, of names that nobody knows.
fn full() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut names = (0_u32..).map(|number| format!("x-{number}").parse::<HeaderName>().unwrap());
    while headers
        .try_append(names.next().unwrap(), HeaderValue::from_static("1"))
        .is_ok()
    {}
    headers
}

#[test]
fn of_ten_thousands_of_fields_the_longest_counts() {
    let mut fields: Vec<(&str, &[u8])> = vec![("retry-after", b"1"); 20_000];
    fields.insert(10_000, ("retry-after", b"9"));
    assert_eq!(hint_of(&policy(), &fields), Some(9 * SECOND));
}

/// A request on which nothing more can be said goes as it is.
#[tokio::test(start_paused = true)]
async fn a_request_with_no_room_for_a_header_is_passed_on_without_it() {
    let most = full().len();
    let request = |headers| {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        request
    };
    let seen = tower::service_fn(async |request: Request<()>| {
        Ok::<_, BoxError>(Response::new(request.headers().len()))
    });
    let wire = tower::ServiceBuilder::new()
        .layer(DeadlineLayer::call(SECOND))
        .layer(RetryLayer::new(Effect::Read))
        .layer(IdempotencyKeyLayer::new())
        .layer(AttemptHeaderLayer::envoy())
        .layer(DeadlineHeaderLayer::grpc())
        .service(seen);
    let sent = wire.clone().oneshot(request(full())).await.unwrap();
    assert_eq!(sent.into_body(), most);
    let sent = wire.oneshot(request(HeaderMap::new())).await.unwrap();
    assert_eq!(sent.into_body(), 3, "with room, all three");
}
