//! The form of the envelope: its schema, and what others make of it.
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
use support::envelope::{SECRET, check, short, shown};
use support::reasons::REASONS;
use support::{Script, Step, paused};
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::tool::envelope::SCHEMA;
use tower_composure::tool::{EnvelopeLayer, ToolCall, ToolMarks, ToolResponse, shape};
use tower_composure::{Attempt, BoxError, Effect, Policy, RetryLayer, ToolPolicy, Verdict};

type Tool = Script<ToolCall, ToolResponse, &'static str>;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn policy() -> ToolPolicy<ToolMarks> {
    ToolPolicy::marked(ToolMarks::new().read("read").idempotent_write("keyed"))
        .code("BUSY", Verdict::REFUSED)
        .shape(shape::adk)
        .shape(shape::mcp)
}

fn error(code: &str) -> Step<ToolResponse, &'static str> {
    Step::Ok(map(json!({"status": "error", "error": {"code": code}})))
}

async fn answer(tool: &str, steps: Vec<Step<ToolResponse, &'static str>>) -> ToolResponse {
    let service = ServiceBuilder::new()
        .layer(EnvelopeLayer::new(policy()))
        .layer(
            RetryLayer::builder(policy())
                .max_attempts(2)
                .build()
                .unwrap(),
        )
        .service(Tool::new(steps));
    let Ok(answer) = service
        .oneshot(ToolCall::new(tool).arg("card", SECRET))
        .await;
    answer
}

async fn told(tool: &str, steps: Vec<Step<ToolResponse, &'static str>>) -> Value {
    shown(Ok(answer(tool, steps).await))
}

#[test]
fn the_schema_knows_every_reason() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let reasons = schema["properties"]["reason"]["enum"].as_array().unwrap();
    for reason in REASONS {
        assert!(reasons.contains(&json!(reason.as_str())), "{reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_reads_an_envelope_as_the_failure_that_it_tells() {
    let verdict = |told: &Value| {
        let policy: &dyn Policy<ToolCall, ToolResponse, Infallible> = &policy();
        policy.classify(&Attempt::first(Effect::Write), Ok(&map(told.clone())))
    };
    let unknown = told("write", vec![Step::Err("reset")]).await;
    assert!(verdict(&unknown).is_unknown(), "unknown stays unknown");
    let busy = told("write", vec![error("BUSY")]).await;
    let wait = verdict(&busy).hint().unwrap().wait();
    assert_eq!(wait, Duration::from_secs(5));
    let fault = told("write", vec![error("INTERNAL")]).await;
    assert_eq!(verdict(&fault), Verdict::Fault);
    let rejected = told("write", vec![error("NOT_FOUND")]).await;
    assert_eq!(verdict(&rejected), Verdict::Rejected);
}

#[tokio::test(start_paused = true)]
async fn guidance_that_somebody_else_wrote_comes_up_unless_it_hides_an_unknown_outcome() {
    let guidance = json!({
        "response_type": "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN",
        "reflection_guidance": "Check the order number.",
    });
    let step = || Step::Ok(map(guidance.clone()));
    let told_write = told("write", vec![step()]).await;
    assert_eq!(told_write, guidance);
    let told_keyed = told("keyed", vec![error("UNAVAILABLE"), step()]).await;
    assert_eq!(short(&told_keyed).0, "OUTCOME_UNKNOWN");
}

const TEXTS: &str = "(error|ok|UNAVAILABLE|NOT_FOUND|BUSY|billing_x|SECRET|[0-9.]{1,9}s|\\PC{0,8})";
const KEYS: &str =
    "(status|error|code|retryable|retryDelay|retry_after|details|isError|error_code|action)";

#[tokio::test(start_paused = true)]
async fn what_is_said_fits_what_is_to_be_done() {
    for (tool, step, action, words) in [
        ("read", Step::Err("reset"), "retry_later", "Try again after"),
        ("write", Step::Err("reset"), "check_state", "find out first"),
        ("write", error("NOT_FOUND"), "fix_arguments", "Correct them"),
        ("write", error("INTERNAL"), "do_not_retry", "will not help"),
    ] {
        let told = told(tool, vec![step]).await;
        assert_eq!(told["action"], action);
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_code_that_the_author_of_a_policy_calls_a_fault_is_told_as_one() {
    let policy = ToolPolicy::new()
        .code("NOT_FOUND", Verdict::Fault)
        .code("CARD_DECLINED", Verdict::Fault);
    for code in ["NOT_FOUND", "CARD_DECLINED"] {
        let service = EnvelopeLayer::new(policy.clone()).layer(Tool::new([error(code)]));
        let told = shown(service.oneshot(ToolCall::new("write")).await);
        assert_eq!(short(&told), (code, "do_not_retry", "fault", 1));
    }
}

#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn an_error_that_a_repeat_will_not_mend_is_rejected_and_hides_its_cause() {
    let tool = tower::service_fn(|_: ToolCall| async {
        let invalid = "http://[/".parse::<http::Uri>().unwrap_err();
        Err::<ToolResponse, BoxError>(invalid.into())
    });
    let service = EnvelopeLayer::new(policy()).layer(tool);
    let told = shown(service.oneshot(ToolCall::new("write")).await);
    assert_eq!(short(&told), ("REJECTED", "do_not_retry", "rejected", 1));
}

proptest! {
    #[test]
    fn every_failure_is_told_in_the_form_of_the_schema(
        value in any_json(TEXTS, KEYS),
        tool in "(read|keyed|write)",
    ) {
        if let Value::Object(map) = value {
            let by_policy: &dyn Policy<ToolCall, ToolResponse, Infallible> = &policy();
            let verdict = by_policy.classify(&Attempt::first(Effect::Write), Ok(&map));
            let told = paused(async || answer(&tool, vec![Step::Ok(map.clone())]).await);
            if verdict.is_success() {
                prop_assert_eq!(told, map);
            } else {
                check(&Value::Object(told));
            }
        }
    }
}
