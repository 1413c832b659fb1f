//! What only the body of a response says, read by a closure.
#![cfg(all(not(loom), feature = "http"))]

mod support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use support::http_policy::{SECOND, answer, policy, request};
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_composure::http::{CollectBodyLayer, CollectedBody};
use tower_composure::{Attempt, Effect, Hint, Policy, RetryLayer, Verdict};

#[test]
fn case_147_a_quota_that_is_used_up_is_no_throttling() {
    let policy = policy().refine(
        |response: &Response<&str>, verdict| match *response.body() {
            "insufficient_quota" | "QUOTA_EXCEEDED" => Verdict::Rejected,
            "later" => verdict.with_hint(Some(Hint::after(9 * SECOND))),
            _ => verdict,
        },
    );
    let classify = |status: u16, body: &'static str| {
        let response = answer(status, &[]).map(|()| body);
        let policy: &dyn Policy<Request<()>, Response<&str>, BoxError> = &policy;
        policy.classify(&Attempt::first(Effect::Read), Ok(&response))
    };
    assert_eq!(classify(429, "insufficient_quota"), Verdict::Rejected);
    assert_eq!(classify(429, "QUOTA_EXCEEDED"), Verdict::Rejected);
    assert_eq!(classify(429, "rate_limited"), Verdict::THROTTLED);
    let later = classify(503, "later");
    assert_eq!(
        (later.is_unknown(), later.hint().map(Hint::wait)),
        (true, Some(9 * SECOND))
    );
    assert_eq!(format!("{policy:?}").matches("Refined").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_collected_is_there_to_be_read() {
    for (code, expected) in [("insufficient_quota", 1), ("rate_limited", 4)] {
        let policy = policy().refine(|response: &Response<CollectedBody<Full<Bytes>>>, verdict| {
            match response.body().collected() {
                Some(body) if body == "insufficient_quota" => Verdict::Rejected,
                _ => verdict,
            }
        });
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .layer(CollectBodyLayer::new())
            .service_fn(move |_: Request<String>| {
                count.fetch_add(1, Ordering::Relaxed);
                let answer =
                    answer(429, &[]).map(|()| Full::new(Bytes::from_static(code.as_bytes())));
                async { Ok::<_, BoxError>(answer) }
            });
        service.oneshot(request(Method::POST)).await.unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), expected, "{code}");
    }
}

#[test]
fn a_refined_policy_says_the_rest_as_before() {
    let mut keyed = request(Method::POST);
    let key = HeaderValue::from_static("k");
    keyed.headers_mut().insert("idempotency-key", key);
    let refined = policy()
        .server_honours_keys(true)
        .refine(|_: &Response<()>, _| Verdict::Fault);
    let refined: &dyn Policy<Request<String>, Response<()>, BoxError> = &refined;
    assert_eq!(refined.effect(&keyed), Effect::IdempotentWrite);
    assert!(refined.keyed(&keyed) && !refined.keyed(&request(Method::POST)));
    let error: BoxError = io::Error::from(io::ErrorKind::ConnectionRefused).into();
    let attempt = Attempt::first(Effect::Read);
    assert_eq!(refined.classify(&attempt, Err(&error)), Verdict::REFUSED);
}
