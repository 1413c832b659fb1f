//! What the model is told of every way in which a call can end.
#![cfg(all(not(loom), feature = "tool"))]
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may, and json! gives a value"
)]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use serde_json::{Map, Value, json};
use support::envelope::{SECRET, short, shown};
use support::{Readiness, Script, Step};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::tool::{EnvelopeLayer, ToolCall, ToolMarks, ToolResponse, ToolSet, tool_fn};
use tower_composure::{
    Backoff, BoxError, Budget, CircuitBreaker, DeadlineLayer, Jitter, RetryLayer, RetryMode, Stack,
    ToolPolicy, Verdict,
};

type Steps = Vec<Step<ToolResponse, &'static str>>;
type Tool = Script<ToolCall, ToolResponse, &'static str>;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn failed(code: &str) -> Step<ToolResponse, &'static str> {
    let message = format!("it broke at {SECRET}");
    let error = json!({"code": code, "message": message});
    Step::Ok(map(
        json!({"status": "error", "error": error, "where": SECRET}),
    ))
}

fn ok() -> Step<ToolResponse, &'static str> {
    Step::Ok(map(json!({"status": "ok", "where": SECRET})))
}

fn marks() -> ToolMarks {
    ToolMarks::new().read("read").idempotent_write("keyed")
}

fn policy() -> ToolPolicy<ToolMarks> {
    ToolPolicy::marked(marks())
        .code("BUSY", Verdict::REFUSED)
        .code("CARD_DECLINED", Verdict::Rejected)
}

/// 3 attempts, 100 ms and 200 ms, a call within 2 s and an attempt within 1 s.
fn stack(budget: Budget, breaker: CircuitBreaker) -> Stack<ToolPolicy<ToolMarks>> {
    let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(10));
    Stack::builder(policy())
        .max_attempts(3)
        .backoff(backoff.jitter(Jitter::None))
        .call_deadline(Duration::from_secs(2))
        .attempt_deadline(Duration::from_secs(1))
        .budget(budget)
        .breaker(breaker)
        .seed(1)
        .build()
        .unwrap()
}

fn breaker() -> CircuitBreaker {
    CircuitBreaker::builder()
        .minimum_calls(1)
        .failure_rate(1.0)
        .probe_lease(Duration::from_secs(2))
        .seed(1)
        .build()
        .unwrap()
}

fn envelope() -> EnvelopeLayer<ToolMarks> {
    EnvelopeLayer::new(policy())
        .check_with("write", "find")
        .check_with("keyed", "find")
}

/// What the model is told of a call of `tool` that meets these steps.
async fn told(tool: &str, steps: Steps) -> Value {
    let scripted = Tool::new(steps);
    let service = ServiceBuilder::new()
        .layer(envelope())
        .layer(stack(Budget::default(), CircuitBreaker::default()))
        .map_err(BoxError::from)
        .service(scripted);
    shown(service.oneshot(call(tool)).await)
}

fn call(tool: &str) -> ToolCall {
    ToolCall::new(tool).arg("card", SECRET)
}

#[tokio::test(start_paused = true)]
async fn a_success_comes_up_as_it_is() {
    let told = told("write", vec![ok()]).await;
    assert_eq!(told, json!({"status": "ok", "where": SECRET}));
}

#[tokio::test(start_paused = true)]
async fn exhausted_attempts() {
    let steps = || vec![failed("BUSY")];
    for tool in ["read", "write"] {
        let told = told(tool, steps()).await;
        assert_eq!(short(&told), ("UNAVAILABLE", "retry_later", "attempts", 3));
        assert_eq!(told["retry_after"], 5);
    }
    let told = told("read", vec![failed("UNAVAILABLE")]).await;
    assert_eq!(short(&told), ("UNAVAILABLE", "retry_later", "attempts", 3));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_tool_asks_for_is_told_in_whole_seconds() {
    let error = json!({"code": "RATE_LIMITED", "retryDelay": "90.2s"});
    let step = Step::Ok(map(json!({"status": "error", "error": error})));
    let told = told("write", vec![step]).await;
    assert_eq!(
        short(&told),
        ("RATE_LIMITED", "retry_later", "hint_exceeds_limit", 1)
    );
    assert_eq!(told["retry_after"], 91);
}

#[tokio::test(start_paused = true)]
async fn an_empty_budget() {
    let budget = Budget::new(0.1, 1).unwrap();
    let service = ServiceBuilder::new()
        .layer(envelope())
        .layer(stack(budget, CircuitBreaker::default()))
        .map_err(BoxError::from)
        .service(Tool::new([failed("BUSY")]));
    let told = shown(service.oneshot(call("write")).await);
    assert_eq!(
        short(&told),
        ("UNAVAILABLE", "retry_later", "budget_exhausted", 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_deadline() {
    let told_read = told("read", vec![Step::Hang]).await;
    assert_eq!(
        short(&told_read),
        ("DEADLINE_EXCEEDED", "retry_later", "deadline", 2)
    );
    let told_write = told("write", vec![Step::Hang]).await;
    assert_eq!(
        short(&told_write),
        ("OUTCOME_UNKNOWN", "check_state", "deadline", 1)
    );
    // The call's own deadline, in the middle of the first attempt: no retry has left a report.
    for (tool, code) in [("read", "DEADLINE_EXCEEDED"), ("write", "OUTCOME_UNKNOWN")] {
        let service = ServiceBuilder::new()
            .layer(envelope())
            .layer(DeadlineLayer::call(Duration::from_secs(1)))
            .layer(RetryLayer::new(policy()))
            .map_err(BoxError::from)
            .service(Tool::new([Step::Hang]));
        let told = shown(service.oneshot(call(tool)).await);
        assert_eq!((short(&told).0, short(&told).3), (code, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_had_passed_before_the_call() {
    let tool = Tool::new([ok()]);
    let service = ServiceBuilder::new()
        .layer(envelope())
        .layer(DeadlineLayer::until(tower_composure::Deadline::after(
            Duration::ZERO,
        )))
        .layer(RetryLayer::new(policy()))
        .map_err(BoxError::from)
        .service(tool.clone());
    let told = shown(service.oneshot(call("write")).await);
    assert_eq!(
        short(&told),
        ("DEADLINE_EXCEEDED", "retry_later", "deadline", 0)
    );
    assert_eq!(tool.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker() {
    let breaker = breaker();
    let service = ServiceBuilder::new()
        .layer(envelope())
        .layer(stack(Budget::default(), breaker.clone()))
        .map_err(BoxError::from)
        .service(Tool::new([failed("INTERNAL")]));
    let first = shown(service.clone().oneshot(call("write")).await);
    assert_eq!(short(&first), ("INTERNAL", "do_not_retry", "fault", 1));
    let second = shown(service.clone().oneshot(call("write")).await);
    assert_eq!(
        short(&second),
        ("UNAVAILABLE", "retry_later", "breaker_open", 0)
    );
    let after = second["retry_after"].as_u64().unwrap();
    assert!((1..=5).contains(&after), "until it is no longer open");

    breaker.force_open();
    let told = shown(service.oneshot(call("write")).await);
    assert_eq!(
        short(&told),
        ("UNAVAILABLE", "do_not_retry", "breaker_open", 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_while_a_retry_waits() {
    for (tool, first, code) in [
        ("read", "UNAVAILABLE", "UNAVAILABLE"),
        ("keyed", "UNAVAILABLE", "OUTCOME_UNKNOWN"),
        ("write", "BUSY", "UNAVAILABLE"),
    ] {
        let breaker = breaker();
        let service = ServiceBuilder::new()
            .layer(envelope())
            .layer(stack(Budget::default(), breaker.clone()))
            .map_err(BoxError::from)
            .service(Tool::new([failed(first)]));
        let trip = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            breaker.force_open();
        };
        let (answer, ()) = tokio::join!(service.oneshot(call(tool)), trip);
        let told = shown(answer);
        assert_eq!((short(&told).0, short(&told).2), (code, "breaker_open"));
        assert_eq!(told["attempts"], 1, "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_stays_unknown_whatever_comes_after_it() {
    let told_write = told("write", vec![Step::Err("reset")]).await;
    assert_eq!(
        short(&told_write),
        ("OUTCOME_UNKNOWN", "check_state", "outcome_unknown", 1)
    );
    assert_eq!(told_write["check_with"], "find");

    for (last, reason) in [
        ("CARD_DECLINED", "rejected"),
        ("INVALID_ARGUMENT", "rejected"),
        ("INTERNAL", "fault"),
    ] {
        let told = told("keyed", vec![failed("UNAVAILABLE"), failed(last)]).await;
        assert_eq!(
            short(&told),
            ("OUTCOME_UNKNOWN", "check_state", reason, 2),
            "after {last}"
        );
    }
    let told_busy = told("keyed", vec![failed("UNAVAILABLE"), failed("BUSY")]).await;
    assert_eq!(short(&told_busy).0, "OUTCOME_UNKNOWN");
    let told_ok = told("keyed", vec![failed("UNAVAILABLE"), ok()]).await;
    assert_eq!(told_ok["status"], "ok");
}

#[tokio::test(start_paused = true)]
async fn rejections_say_what_to_do() {
    for (code, action) in [
        ("INVALID_ARGUMENT", "fix_arguments"),
        ("OUT_OF_RANGE", "fix_arguments"),
        ("NOT_FOUND", "fix_arguments"),
        ("PERMISSION_DENIED", "do_not_retry"),
        ("QUOTA_EXCEEDED", "do_not_retry"),
        ("CARD_DECLINED", "do_not_retry"),
    ] {
        let told = told("write", vec![failed(code)]).await;
        assert_eq!(short(&told), (code, action, "rejected", 1));
    }
    let told_money = told("write", vec![failed("billing_SECRET")]).await;
    assert_eq!(short(&told_money).0, "BILLING_ERROR");
}

#[tokio::test(start_paused = true)]
async fn faults_hide_their_cause_and_so_does_the_envelope() {
    for step in [
        failed("SECRET"),
        failed("INTERNAL"),
        Step::Ok(map(json!({"error": SECRET}))),
        Step::Ok(map(
            json!({"status": "error", "message": "An internal error occurred."}),
        )),
        Step::Ok(map(json!({"status": "error", "error": null}))),
    ] {
        let told = told("keyed", vec![step]).await;
        assert_eq!(short(&told), ("INTERNAL", "do_not_retry", "fault", 1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_tool_calls_final_is_not_retried_later() {
    let error = json!({"code": "UNAVAILABLE", "retryable": false});
    let step = || Step::Ok(map(json!({"status": "error", "error": error.clone()})));
    let told_read = told("read", vec![step()]).await;
    assert_eq!(
        short(&told_read),
        ("UNAVAILABLE", "do_not_retry", "hint_exceeds_limit", 1)
    );
    let told_write = told("write", vec![step()]).await;
    assert_eq!(
        short(&told_write),
        ("OUTCOME_UNKNOWN", "check_state", "outcome_unknown", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_retry_the_last_outcome_is_all_there_is() {
    let told = async |tool, step| {
        let service = envelope().layer(Tool::new([step]));
        shown(service.oneshot(call(tool)).await)
    };
    let read = told("read", Step::Err("reset")).await;
    assert_eq!(
        short(&read),
        ("UNAVAILABLE", "retry_later", "not_retried", 1)
    );
    let write = told("write", Step::Err("reset")).await;
    assert_eq!(
        short(&write),
        ("OUTCOME_UNKNOWN", "check_state", "not_retried", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_become_ready_was_not_called() {
    let tool = Tool::new([ok()]).readiness([Readiness::Fail("gone")]);
    let mut service = envelope().layer(tool.clone());
    let answer = service.ready().await.unwrap().call(call("write")).await;
    let told = shown(answer);
    assert_eq!(short(&told), ("UNAVAILABLE", "retry_later", "not_ready", 0));
    assert_eq!(tool.calls(), 0);
    let answer = service.ready().await.unwrap().call(call("write")).await;
    assert_eq!(shown(answer)["status"], "ok", "the next call asks anew");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_is_rejected() {
    let tools = ToolSet::builder()
        .tool(
            "read",
            tool_fn(|_| async { Ok::<_, Infallible>(json!({})) }),
        )
        .build()
        .unwrap();
    let told = shown(envelope().layer(tools).oneshot(call("SECRET")).await);
    assert_eq!(
        short(&told),
        ("UNKNOWN_TOOL", "do_not_retry", "rejected", 0)
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_layer_the_last_outcome_comes_up_unchanged() {
    let stack = || stack(Budget::default(), CircuitBreaker::default());
    let tool = Tool::new([failed("BUSY")]);
    let service = stack().layer(tool.map_err(BoxError::from));
    let answer = service.oneshot(call("read")).await.unwrap();
    assert_eq!(answer["where"], SECRET);
    let tool = Tool::new([Step::Err("reset")]);
    let service = stack().layer(tool.map_err(BoxError::from));
    let error = service.oneshot(call("write")).await.unwrap_err();
    assert_eq!(error.to_string(), "reset");
}

#[tokio::test(start_paused = true)]
async fn retries_that_are_switched_off() {
    let retry = RetryLayer::new(policy());
    retry.switch().set(RetryMode::Off);
    let service = ServiceBuilder::new()
        .layer(envelope())
        .layer(retry)
        .service(Tool::new([failed("BUSY")]));
    let told = shown(service.oneshot(call("write")).await);
    assert_eq!(
        short(&told),
        ("UNAVAILABLE", "retry_later", "switched_off", 1)
    );
}
