//! Failures that arrive as JSON maps inside `Ok`.
#![cfg(all(not(loom), feature = "tool"))]
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may, and json! gives a value"
)]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::any_json::any_json;
use support::{Script, Step};
use tower::{ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, Backoff, Budget, BudgetLayer, CallReport, CircuitBreaker, CircuitBreakerLayer, Effect,
    Hint, Jitter, Policy, RetryLayer, StopReason, ToolPolicy, Verdict,
};

type Tool = Script<&'static str, Map<String, Value>, Infallible>;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn error(error: Value) -> Step<Map<String, Value>, Infallible> {
    Step::Ok(map(json!({"status": "error", "error": error})))
}

fn ok() -> Step<Map<String, Value>, Infallible> {
    Step::Ok(map(json!({"status": "ok"})))
}

fn verdict(value: Value) -> Verdict {
    let policy = ToolPolicy::new();
    let policy: &dyn Policy<(), Map<String, Value>, Infallible> = &policy;
    policy.classify(&Attempt::first(Effect::Read), Ok(&map(value)))
}

/// 3 attempts, 100 ms and 200 ms, every tool an idempotent one.
fn retry() -> RetryLayer<impl Policy<&'static str, Map<String, Value>, Infallible>> {
    let policy = ToolPolicy::new().effect_fn(|_: &&str| Effect::IdempotentWrite);
    let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(10));
    RetryLayer::builder(policy)
        .max_attempts(3)
        .backoff(backoff.jitter(Jitter::None))
        .seed(1)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn case_144_failures_inside_ok_reach_retry_breaker_and_budget() {
    let budget = Budget::new(0.5, 10).unwrap();
    let breaker = CircuitBreaker::default();
    let call = async |steps: Vec<_>| {
        let tool = Tool::new(steps);
        let policy = ToolPolicy::new().effect_fn(|_: &&str| Effect::IdempotentWrite);
        let service = ServiceBuilder::new()
            .layer(CircuitBreakerLayer::new(breaker.clone(), policy))
            .layer(BudgetLayer::new(budget.clone()))
            .layer(retry())
            .service(tool.clone());
        let answer = service.oneshot("lookup").await.unwrap();
        (tool.calls(), answer["status"].clone())
    };
    let (calls, status) = call(vec![error(json!({"code": "UNAVAILABLE"})), ok()]).await;
    assert_eq!((calls, status), (2, json!("ok")));
    assert!(
        (budget.balance() - 9.5).abs() < 1e-9,
        "one token out, half a token in"
    );
    assert_eq!(breaker.metrics().failures(), 0, "the call succeeded");

    let (calls, status) = call(vec![error(json!({"code": "INVALID_ARGUMENT"}))]).await;
    assert_eq!((calls, status), (1, json!("error")));
    assert_eq!(
        breaker.metrics().recorded(),
        1,
        "it says nothing of the tool"
    );
    assert!(
        (budget.balance() - 9.5).abs() < 1e-9,
        "an Ok that holds an error earns nothing"
    );

    let (calls, _) = call(vec![error(json!({"code": "UNAVAILABLE"}))]).await;
    assert_eq!(calls, 3);
    assert_eq!(breaker.metrics().failures(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_144_malformed_maps_make_one_call() {
    for malformed in [
        json!({"status": "error", "error": {"code": 503}}),
        json!({"status": "error", "error": {"code": "unavailable"}}),
        json!({"status": "error", "error": {"code": null}}),
        json!({"status": "error", "error": {}}),
        json!({"status": "error", "error": "it broke"}),
        json!({"status": "error"}),
        json!({"error": "it broke"}),
        json!({"error": {"code": "NOBODY_KNOWS"}}),
    ] {
        let tool = Tool::new([Step::Ok(map(malformed.clone()))]);
        let budget = Budget::new(1.0, 5).unwrap();
        budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
        let service = ServiceBuilder::new()
            .layer(BudgetLayer::new(budget.clone()))
            .layer(retry())
            .service(tool.clone());
        let answer = service.oneshot("lookup").await.unwrap();
        assert_eq!(Value::Object(answer), malformed, "it comes back unchanged");
        assert_eq!(tool.calls(), 1, "{malformed}");
        assert!(
            (budget.balance() - 4.0).abs() < 1e-9,
            "{malformed} earned something"
        );
        assert_eq!(verdict(malformed), Verdict::Fault);
    }
    assert_eq!(
        verdict(json!({"status": null, "error": "x"})),
        Verdict::Success
    );
    assert_eq!(verdict(json!({})), Verdict::Success);
}

#[tokio::test(start_paused = true)]
async fn case_146_a_wait_in_the_body_is_a_floor() {
    let details = json!({"code": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.837906927s"},
    ]});
    let tool = Tool::new([error(details), ok()]);
    let service = ServiceBuilder::new().layer(retry()).service(tool.clone());
    service.oneshot("lookup").await.unwrap();
    let second = tool.seen()[1].at;
    assert!(second >= Duration::new(45, 837_906_927), "{second:?}");
    assert!(
        second <= Duration::from_secs(58),
        "a quarter of it on top at most"
    );
}

#[test]
fn case_146_what_is_no_wait_is_no_hint() {
    let hint = |delay: &str| {
        verdict(json!({"error": {"code": "UNAVAILABLE", "retryDelay": delay}})).hint()
    };
    assert_eq!(hint("26s"), Some(Hint::after(Duration::from_secs(26))));
    assert_eq!(hint("0s"), Some(Hint::after(Duration::ZERO)));
    assert_eq!(
        hint("18446744073709551616s").unwrap().wait(),
        Duration::from_secs(u64::MAX)
    );
    for malformed in [
        "soon",
        "-3s",
        "1m",
        "s",
        "1.2.3s",
        "1.s",
        "1.0000000001s",
        "26",
        "+1s",
    ] {
        assert_eq!(hint(malformed), None, "{malformed}");
    }
    let both = json!({"error": {"code": "UNAVAILABLE", "retryDelay": "5s", "retry_after": 7.5}});
    assert_eq!(
        verdict(both).hint().unwrap().wait(),
        Duration::from_millis(7500)
    );
    let text = json!({"error": {"code": "UNAVAILABLE", "retry_after": "12"}});
    assert_eq!(
        verdict(text).hint().unwrap().wait(),
        Duration::from_secs(12)
    );
    let negative = json!({"error": {"code": "UNAVAILABLE", "retry_after": -1}});
    assert_eq!(verdict(negative).hint(), None);
}

#[tokio::test(start_paused = true)]
async fn case_147_a_quota_that_is_used_up_is_final() {
    for code in ["QUOTA_EXCEEDED", "insufficient_quota", "BILLING_HARD_LIMIT"] {
        let tool = Tool::new([error(json!({"code": code})), ok()]);
        let service = ServiceBuilder::new().layer(retry()).service(tool.clone());
        service.oneshot("lookup").await.unwrap();
        assert_eq!(tool.calls(), 1, "{code}");
    }
    let told = error(json!({"code": "RESOURCE_EXHAUSTED", "retryable": false}));
    let tool = Tool::new([told, ok()]);
    let service = ServiceBuilder::new().layer(retry()).service(tool.clone());
    let (_, report) = CallReport::of(service.oneshot("lookup")).await;
    assert_eq!(tool.calls(), 1);
    assert_eq!(
        report.unwrap().stop_reason(),
        Some(StopReason::HintExceedsLimit)
    );
}

#[tokio::test(start_paused = true)]
async fn retryable_beats_the_code_but_not_the_safety_of_a_write() {
    let told = || error(json!({"code": "NOBODY_KNOWS", "retryable": true}));
    let tool = Tool::new([told(), ok()]);
    let service = ServiceBuilder::new().layer(retry()).service(tool.clone());
    service.oneshot("lookup").await.unwrap();
    assert_eq!(tool.calls(), 2);

    let tool = Tool::new([told(), ok()]);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(ToolPolicy::new()))
        .service(tool.clone());
    let (_, report) = CallReport::of(service.oneshot("charge")).await;
    assert_eq!(tool.calls(), 1, "an unmarked tool is a write");
    assert_eq!(
        report.unwrap().stop_reason(),
        Some(StopReason::OutcomeUnknown)
    );
}

#[test]
fn a_code_can_be_given_another_meaning() {
    let policy = ToolPolicy::new().code("UNAVAILABLE", Verdict::REFUSED);
    let policy: &dyn Policy<(), Map<String, Value>, Infallible> = &policy;
    let map = map(json!({"error": {"code": "UNAVAILABLE", "retry_after": 3}}));
    let verdict = policy.classify(&Attempt::first(Effect::Write), Ok(&map));
    let hint = Hint::after(Duration::from_secs(3));
    assert_eq!(verdict, Verdict::Refused { hint: Some(hint) });
}

const TEXTS: &str = "(error|ok|UNAVAILABLE|[0-9.]{1,30}s|\\PC{0,8})";
const KEYS: &str = "(status|error|code|retryable|retryDelay|retry_after|details|\\PC{0,4})";

proptest! {
    #[test]
    fn no_map_is_a_panic_and_only_failures_are_no_success(value in any_json(TEXTS, KEYS)) {
        if let Value::Object(map) = &value {
            let failed = match map.get("status") {
                Some(status) => status == "error",
                None => map.contains_key("error"),
            };
            prop_assert_eq!(verdict(value.clone()).is_success(), !failed);
        }
    }
}
