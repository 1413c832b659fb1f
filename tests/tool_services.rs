//! Tools as services, and the shapes in which frameworks tell of failures.
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
use support::{Readiness, Script, Step};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_composure::tool::shape::{self, Failure, Reading};
use tower_composure::tool::{ToolCall, ToolMarks, ToolResponse, ToolSet, tool_fn};
use tower_composure::{
    Attempt, BoxError, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, DeadlineExceeded,
    DeadlineLayer, Effect, Hint, IdempotencyKey, Policy, RetryLayer, ToolPolicy, Verdict,
};

type Tool = Script<ToolCall, ToolResponse, &'static str>;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn ok() -> Step<ToolResponse, &'static str> {
    Step::Ok(map(json!({"status": "ok"})))
}

fn verdict<F>(policy: &ToolPolicy<F>, value: Value) -> Verdict
where
    ToolPolicy<F>: Policy<(), ToolResponse, Infallible>,
{
    policy.classify(&Attempt::first(Effect::Read), Ok(&map(value)))
}

#[tokio::test]
async fn a_function_answers_with_a_map_or_any_value() {
    let call = || ToolCall::new("t");
    let object = tool_fn(|_| async { Ok::<_, Infallible>(json!({"a": 1})) });
    assert_eq!(object.oneshot(call()).await.unwrap(), map(json!({"a": 1})));
    let whole = tool_fn(|_| async { Ok::<_, Infallible>(map(json!({"b": 2}))) });
    assert_eq!(whole.oneshot(call()).await.unwrap(), map(json!({"b": 2})));
    for value in [json!(null), json!(7), json!([1]), json!("text")] {
        let expected = map(json!({"status": "ok", "result": value.clone()}));
        let bare = tool_fn(move |_| {
            let value = value.clone();
            async { Ok::<_, Infallible>(value) }
        });
        assert_eq!(bare.oneshot(call()).await.unwrap(), expected);
    }
    let fails = tool_fn(|_| async { Err::<Value, _>("broken") });
    assert_eq!(fails.oneshot(call()).await, Err("broken"));
}

#[tokio::test]
async fn a_set_routes_by_name_and_rejects_what_it_does_not_know() {
    let (a, b) = (Tool::new([ok()]), Tool::new([Step::Err("broken")]));
    let set = ToolSet::builder()
        .tool("a", a.clone())
        .tool("b", b.clone())
        .build()
        .unwrap();
    let mut names: Vec<_> = set.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    let answer = set.clone().oneshot(ToolCall::new("a").arg("n", 1)).await;
    assert_eq!(answer, Ok(map(json!({"status": "ok"}))));
    assert_eq!(a.seen()[0].request.args["n"], 1);
    let answer = set.clone().oneshot(ToolCall::new("b")).await;
    assert_eq!(answer, Err("broken"));
    for name in ["", "A", "c", "SECRET"] {
        let answer = set.clone().oneshot(ToolCall::new(name)).await.unwrap();
        let rejected = json!({"status": "error", "error": {"code": "UNKNOWN_TOOL"}});
        assert_eq!(Value::Object(answer), rejected, "and nothing of the name");
        assert_eq!(verdict(&ToolPolicy::new(), rejected), Verdict::Rejected);
    }
    assert_eq!((a.calls(), b.calls()), (1, 1));
}

#[test]
fn a_set_with_two_tools_of_one_name_cannot_be_built() {
    let error = ToolSet::builder()
        .tool("a", 1)
        .tool("a", 2)
        .build()
        .unwrap_err();
    assert_eq!(error.to_string(), "tool: two tools are called \"a\"");
    let error = ToolSet::builder().tool("", 1).build().unwrap_err();
    assert_eq!(error.to_string(), "tool: a name is \"\"");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_ready_is_waited_for_inside_of_the_call() {
    let stuck = Tool::new([ok()]).readiness([Readiness::Never]);
    let failing = Tool::new([ok()]).readiness([Readiness::Fail("gone")]);
    let set = ToolSet::builder()
        .tool("stuck", stuck.clone())
        .tool("failing", failing.clone())
        .tool("fine", Tool::new([ok()]))
        .build()
        .unwrap();
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::call(Duration::from_secs(1)))
        .map_err(BoxError::from)
        .service(set);
    let error = service.clone().oneshot(ToolCall::new("stuck")).await;
    assert!(DeadlineExceeded::find(&*error.unwrap_err()).is_some());
    let error = service.clone().oneshot(ToolCall::new("failing")).await;
    assert_eq!(error.unwrap_err().to_string(), "gone");
    // One tool that is stuck holds up no other.
    service.oneshot(ToolCall::new("fine")).await.unwrap();
    assert_eq!((stuck.calls(), failing.calls()), (0, 0));
}

#[tokio::test]
async fn tools_of_different_types_share_a_set_and_any_layer_stacks_over_it() {
    let marks = ToolMarks::new().read("a");
    let policy = ToolPolicy::marked(marks);
    let set = ToolSet::builder()
        .tool("a", BoxCloneSyncService::new(Tool::new([ok()])))
        .tool(
            "b",
            BoxCloneSyncService::new(tool_fn(|_| async { Ok::<_, &str>(json!({})) })),
        )
        .build()
        .unwrap();
    let mut service = ServiceBuilder::new()
        .concurrency_limit(1)
        .layer(CircuitBreakerLayer::new(
            CircuitBreaker::default(),
            policy.clone(),
        ))
        .layer(BudgetLayer::new(Budget::default()))
        .layer(RetryLayer::new(policy))
        .map_err(BoxError::from)
        .service(set);
    for name in ["a", "b", "c"] {
        let answer = service
            .ready()
            .await
            .unwrap()
            .call(ToolCall::new(name))
            .await;
        assert!(answer.is_ok());
    }
}

#[test]
fn the_policy_reads_marks_and_the_key_of_a_call() {
    let marks = ToolMarks::new()
        .read("balance")
        .write("charge")
        .idempotent_write("charge");
    let policy = ToolPolicy::marked(marks);
    let policy: &dyn Policy<ToolCall, ToolResponse, Infallible> = &policy;
    for (tool, effect) in [
        ("balance", Effect::Read),
        ("charge", Effect::IdempotentWrite),
        ("unmarked", Effect::Write),
    ] {
        assert_eq!(policy.effect(&ToolCall::new(tool)), effect);
    }
    assert!(!policy.keyed(&ToolCall::new("charge")));
    let key = IdempotencyKey::new("k").unwrap();
    assert!(policy.keyed(&ToolCall::new("charge").key(key.clone())));
    let unmarked: &dyn Policy<ToolCall, ToolResponse, Infallible> = &ToolPolicy::new();
    assert!(unmarked.keyed(&ToolCall::new("charge").key(key)));
}

#[test]
fn shapes_of_frameworks() {
    let policy = ToolPolicy::new()
        .shape(shape::adk)
        .shape(shape::mcp)
        .shape(shape::google_rpc);
    let after = |seconds| Some(Hint::after(Duration::from_secs(seconds)));
    for (value, expected) in [
        // ADK: errors of Go, of Java's FunctionTool, of the skill tool set, of the plugin docs, and the plugin's answer.
        (json!({"error": "some text"}), Verdict::Fault),
        (
            json!({"error": "This tool call requires confirmation"}),
            Verdict::Fault,
        ),
        (
            json!({"status": "error", "message": "An internal error occurred."}),
            Verdict::Fault,
        ),
        (
            json!({"error": "x", "error_code": "UNAVAILABLE"}),
            Verdict::UNKNOWN,
        ),
        (json!({"error": "x", "error_code": 7}), Verdict::Fault),
        (
            json!({"status": "error", "error_message": "x"}),
            Verdict::Fault,
        ),
        (
            json!({"response_type": "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN", "error_type": "x"}),
            Verdict::Rejected,
        ),
        // MCP.
        (
            json!({"isError": true, "content": [{"type": "text", "text": "x"}]}),
            Verdict::Fault,
        ),
        (json!({"isError": false, "content": []}), Verdict::Success),
        (
            json!({"isError": true, "structuredContent": {"error": {"code": "RATE_LIMITED", "retry_after": 3}}}),
            Verdict::Throttled { hint: after(3) },
        ),
        (
            json!({"isError": false, "structuredContent": {"status": "error", "error": {"code": "NOT_FOUND"}}}),
            Verdict::Rejected,
        ),
        (json!({"isError": "true"}), Verdict::Success),
        // google.rpc.Status.
        (
            json!({"error": {"code": 503, "status": "UNAVAILABLE"}}),
            Verdict::UNKNOWN,
        ),
        (
            json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "7s"}]}}),
            Verdict::Throttled { hint: after(7) },
        ),
        (json!({"error": {"code": 503}}), Verdict::Fault),
        (json!({"status": "ok"}), Verdict::Success),
    ] {
        assert_eq!(verdict(&policy, value.clone()), expected, "{value}");
    }
    // Without them only the own form is read.
    assert_eq!(
        verdict(&ToolPolicy::new(), json!({"isError": true})),
        Verdict::Success
    );
}

#[test]
fn a_status_is_an_error_by_its_own_word_and_not_by_a_message_beside_it() {
    let policy = ToolPolicy::new().shape(shape::adk);
    let said =
        |status| json!({"status": status, "error_message": "x", "error_code": "UNAVAILABLE"});
    assert_eq!(verdict(&policy, said("error")), Verdict::UNKNOWN);
    assert_eq!(verdict(&policy, said("ok")), Verdict::Success);
}

#[test]
fn a_shape_of_ones_own_is_asked_first_and_its_code_is_looked_up() {
    let policy = ToolPolicy::new()
        .shape(|map| {
            let code = map.get("errno")?.as_str()?;
            Some(Reading::Failed(
                Failure::new().code(code).wait(Duration::from_secs(2)),
            ))
        })
        .code("EAGAIN", Verdict::REFUSED);
    let hint = Some(Hint::after(Duration::from_secs(2)));
    assert_eq!(
        verdict(&policy, json!({"errno": "EAGAIN", "status": "ok"})),
        Verdict::Refused { hint }
    );
    assert_eq!(verdict(&policy, json!({"errno": "EWHAT"})), Verdict::Fault);
    assert_eq!(verdict(&policy, json!({"errno": 11})), Verdict::Success);

    let policy = ToolPolicy::new().shape(|map| {
        let again = map.get("again")?.as_bool()?;
        Some(Reading::Failed(Failure::new().retryable(again)))
    });
    let never = Some(Hint::never());
    for (again, expected) in [(true, Verdict::UNKNOWN), (false, Verdict::Fault)] {
        assert_eq!(verdict(&policy, json!({"again": again})), expected);
    }
    let coded = |again| Failure::new().code("UNAVAILABLE").retryable(again);
    let policy = ToolPolicy::new().shape(move |map| {
        let again = map.get("again")?.as_bool()?;
        Some(Reading::Failed(coded(again)))
    });
    assert_eq!(
        verdict(&policy, json!({"again": false})),
        Verdict::Unknown { hint: never }
    );
}

#[test]
fn a_flag_or_a_wait_beside_the_error_counts() {
    let policy = ToolPolicy::new();
    let beside = json!({"status": "error", "error": {"code": "UNAVAILABLE"}, "retryable": false});
    assert_eq!(
        verdict(&policy, beside),
        Verdict::Unknown {
            hint: Some(Hint::never())
        }
    );
    let both = json!({"error": {"code": "UNAVAILABLE", "retry_after": 2, "retryable": true}, "retry_after": 9});
    let hint = Some(Hint::after(Duration::from_secs(9)));
    assert_eq!(verdict(&policy, both), Verdict::Unknown { hint });
    // A flag lifts what hides its cause, and nothing else.
    let flagged = |code| json!({"error": {"code": code, "retryable": true}});
    for (code, expected) in [
        ("INTERNAL", Verdict::UNKNOWN),
        ("NOT_FOUND", Verdict::Rejected),
        ("RATE_LIMITED", Verdict::THROTTLED),
    ] {
        assert_eq!(verdict(&policy, flagged(code)), expected, "{code}");
    }
    let at_odds = json!({"error": {"code": "UNAVAILABLE", "retryable": true}, "retryable": false});
    let never = Some(Hint::never());
    assert_eq!(verdict(&policy, at_odds), Verdict::Unknown { hint: never });
}

#[test]
fn an_error_is_what_its_type_says() {
    let policy = ToolPolicy::new();
    let policy: &dyn Policy<(), ToolResponse, BoxError> = &policy;
    let classify = |error: BoxError| policy.classify(&Attempt::first(Effect::Write), Err(&error));
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(classify(refused.into()), Verdict::REFUSED);
    assert_eq!(classify("connection refused".into()), Verdict::UNKNOWN);
}

#[test]
fn debug_shows_no_text_of_a_tool() {
    let failure = Failure::new().code("SECRET").retryable(true);
    let shown = format!("{:?} {:?}", failure, Reading::Failed(failure));
    assert!(!shown.contains("SECRET"), "{shown}");
    assert!(
        shown.starts_with("Failure { code: true, retryable: Some(true), wait: None }"),
        "{shown}"
    );
}

const TEXTS: &str = "(error|UNAVAILABLE|[0-9.]{1,30}s|\\PC{0,8})";
const KEYS: &str =
    "(status|error|error_code|code|isError|structuredContent|details|retryable|retry_after)";

proptest! {
    #[test]
    fn no_map_is_a_panic_for_any_shape(value in any_json(TEXTS, KEYS)) {
        if let Value::Object(map) = value {
            for read in [shape::adk, shape::mcp, shape::google_rpc] {
                let _ = read(&map);
            }
        }
    }
}
