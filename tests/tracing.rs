//! The events of a call whose course is known, with their levels and fields, and the fields on the caller's span.
#![cfg(all(not(loom), feature = "tracing", feature = "http"))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod support;

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use support::records::Records;
use support::watched::{self, Client, answer};
use support::{Step, paused};
use tower::{BoxError, Layer, ServiceExt};
use tower_composure::{Attempt, HttpPolicy, IdempotencyKeyLayer, Observer, Stack, TracingObserver};
use tracing::field::Empty;
use tracing::{Instrument, info_span};

fn stack() -> Stack<HttpPolicy, IdempotencyKeyLayer> {
    watched::stack(&(Arc::new(TracingObserver::new()) as Arc<dyn Observer>))
}

/// A call in a span that has OpenTelemetry's fields.
async fn call(script: &Client, stack: &Stack<HttpPolicy, IdempotencyKeyLayer>) -> bool {
    let request = Request::builder().method(Method::POST).body(()).unwrap();
    let service = stack.layer(script.clone());
    let span = info_span!("charge", http.request.resend_count = Empty, error.type = Empty);
    let answer: Result<_, BoxError> = service.oneshot(request).instrument(span).await;
    answer.is_ok_and(|response| response.status().is_success())
}

#[test]
fn a_call_that_is_retried() {
    let records = Records::default();
    records.capture(|| {
        paused(async || {
            let script = Client::new([answer(StatusCode::BAD_GATEWAY), answer(StatusCode::OK)]);
            assert!(call(&script, &stack()).await);
        });
    });
    let all = r#"dependency="payments""#;
    assert_eq!(
        records.take(),
        [
            format!("TRACE idempotency key minted {all}"),
            format!(
                r#"TRACE attempt started {all} attempt=1 effect="idempotent_write" keyed=true"#
            ),
            format!(
                r#"DEBUG attempt finished {all} attempt=1 verdict="unknown" elapsed_seconds=0.0"#
            ),
            format!("DEBUG budget withdrawal {all} balance=1.0"),
            format!(
                r#"DEBUG retry scheduled {all} attempt=1 delay_seconds=0.1 delayed_by="backoff""#
            ),
            "charge http.request.resend_count=1".to_owned(),
            format!(
                r#"TRACE attempt started {all} attempt=2 effect="idempotent_write" keyed=true"#
            ),
            format!(
                r#"DEBUG attempt finished {all} attempt=2 verdict="success" elapsed_seconds=0.0"#
            ),
            format!("TRACE budget deposit {all} balance=1.5"),
            format!(
                r#"DEBUG call finished {all} outcome="success" attempts=2 backoff_seconds=0.1 elapsed_seconds=0.1 outcome_unknown=false"#
            ),
        ]
    );
}

#[test]
fn an_outage_warns_of_what_nobody_knows_and_of_the_breaker() {
    let records = Records::default();
    records.capture(|| {
        paused(async || {
            let stack = stack();
            let script = Client::new([Step::Err("down")]);
            for _ in 0..3 {
                assert!(!call(&script, &stack).await);
            }
        });
    });
    let all = r#"dependency="payments""#;
    let mut seen = records.take();
    seen.retain(|record| !record.starts_with("TRACE") && !record.contains("DEBUG attempt"));
    assert_eq!(
        seen[6..],
        [
            format!(r#"DEBUG retry refused {all} attempt=3 reason="attempts""#),
            r#"charge error.type="unknown""#.to_owned(),
            format!(
                r#"WARN call finished {all} outcome="unknown" attempts=3 backoff_seconds=0.2 elapsed_seconds=0.2 outcome_unknown=true reason="attempts""#
            ),
            format!("DEBUG budget exhausted {all} balance=0.0"),
            format!(r#"DEBUG retry refused {all} attempt=1 reason="budget_exhausted""#),
            r#"charge error.type="unknown""#.to_owned(),
            format!(
                r#"WARN call finished {all} outcome="unknown" attempts=1 backoff_seconds=0.0 elapsed_seconds=0.0 outcome_unknown=true reason="budget_exhausted""#
            ),
            format!(r#"WARN breaker transition {all} from="closed" to="open" generation=2"#),
            format!("DEBUG breaker rejected a call {all} remaining_seconds=1.0"),
        ]
    );
}

/// What the documentation shows: a span of each attempt, made below the stack, knows its number.
#[test]
fn a_span_below_the_stack_knows_its_attempt() {
    let records = Records::default();
    records.capture(|| {
        paused(async || {
            let script = Client::new([answer(StatusCode::BAD_GATEWAY), answer(StatusCode::OK)]);
            let below = tower::service_fn(move |request| {
                let resends = Attempt::current().map_or(0, |attempt| attempt.number() - 1);
                let span = info_span!("attempt", http.request.resend_count = Empty);
                if resends > 0 {
                    span.record("http.request.resend_count", resends);
                }
                script.clone().oneshot(request).instrument(span)
            });
            let service = stack().layer(below);
            let request = Request::builder().method(Method::POST).body(()).unwrap();
            service.oneshot(request).await.unwrap();
        });
    });
    let spans: Vec<_> = records.take();
    let spans = spans
        .iter()
        .filter(|record| record.contains("resend_count"));
    assert_eq!(
        spans.collect::<Vec<_>>(),
        ["attempt http.request.resend_count=1"]
    );
}
