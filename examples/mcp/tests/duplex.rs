//! Client and server in one process.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::future::pending;
use std::path::Path;
use std::time::Duration;

use mcp_tools::{Fault, McpTools, Reconnecting, Shop, annotated};
use rmcp::ServiceExt as _;
use rmcp::model::CancelledNotificationParam;
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceBuilder, ServiceExt as _};
use tower_composure::tool::{EnvelopeLayer, ToolKeyLayer, ToolMarks, ToolResponse, shape};
use tower_composure::{
    Attempt, Backoff, BoxError, DeadlineExceeded, DeadlineLayer, Effect, IdempotencyKey, Policy,
    RetryLayer, ToolCall, ToolPolicy, Verdict,
};

/// An upper bound against hangs.
const LONG: Duration = Duration::from_secs(30);

async fn connected(shop: Shop) -> RunningService<RoleClient, ()> {
    let (server, client) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let running = shop.serve(server).await.unwrap();
        running.waiting().await.unwrap();
    });
    ().serve(client).await.unwrap()
}

fn marks() -> ToolMarks {
    ToolMarks::new()
        .read("find_charge")
        .read("hang")
        .idempotent_write("charge")
}

fn policy() -> ToolPolicy<ToolMarks> {
    ToolPolicy::marked(marks()).shape(shape::mcp)
}

/// Two attempts and hardly a wait: the clock is real.
fn retry() -> RetryLayer<ToolPolicy<ToolMarks>> {
    RetryLayer::builder(policy())
        .max_attempts(2)
        .backoff(Backoff::exponential(
            Duration::from_millis(1),
            Duration::from_millis(1),
        ))
        .build()
        .unwrap()
}

fn calls(directory: &Path) -> usize {
    Shop::done(directory, "calls").len()
}

/// What the model is told, and how often the server was called for it.
async fn told(shop: Shop, directory: &TempDir, call: ToolCall) -> (Value, usize) {
    let client = connected(shop).await;
    let before = calls(directory.path());
    let tools = ServiceBuilder::new()
        .layer(EnvelopeLayer::new(policy()).check_with("charge", "find_charge"))
        .layer(ToolKeyLayer::from_arguments().marks(marks()))
        .layer(retry())
        .service(McpTools::new(client.peer().clone()));
    let Ok(answer) = tools.oneshot(call.invocation_id("turn-1")).await;
    (Value::Object(answer), calls(directory.path()) - before)
}

#[tokio::test]
async fn a_peer_is_a_service_and_its_results_are_classified() {
    let directory = tempfile::tempdir().unwrap();
    let shop = Shop::new(directory.path());
    for (call, expected, times) in [
        (
            ToolCall::new("charge").arg("order", 7),
            json!([null, null]),
            1,
        ),
        // `isError` with a code, and without.
        (
            ToolCall::new("find_charge").arg("order", "x"),
            json!(["INVALID_ARGUMENT", "fix_arguments"]),
            1,
        ),
        (
            ToolCall::new("find_charge"),
            json!(["INTERNAL", "do_not_retry"]),
            1,
        ),
        // An error of the protocol.
        (
            ToolCall::new("nothing").arg("order", 7),
            json!(["INVALID_ARGUMENT", "fix_arguments"]),
            1,
        ),
    ] {
        let (told, seen) = told(shop.clone(), &directory, call).await;
        assert_eq!(json!([told["error"]["code"], told["action"]]), expected);
        assert_eq!(seen, times);
    }
    assert_eq!(Shop::done(directory.path(), "charge").len(), 1);
}

#[tokio::test]
async fn an_error_result_that_may_be_temporary_is_retried_where_that_is_safe() {
    for (tool, times, action) in [
        ("find_charge", 2, Value::Null),
        ("charge", 2, Value::Null),
        ("send_receipt", 1, json!("check_state")),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let shop = Shop::new(directory.path()).fault(tool, Fault::Unavailable);
        let (told, seen) = told(shop, &directory, ToolCall::new(tool).arg("order", 7)).await;
        assert_eq!((seen, &told["action"]), (times, &action), "{tool}");
        if tool == "charge" {
            assert_eq!(told["structuredContent"]["replayed"], true);
        }
        assert!(Shop::done(directory.path(), tool).len() <= 1, "{tool}");
    }
}

#[tokio::test]
async fn annotations_say_what_a_tool_does_where_they_are_believed() {
    let directory = tempfile::tempdir().unwrap();
    let client = connected(Shop::new(directory.path())).await;
    let tools = client.peer().list_all_tools().await.unwrap();
    let marks = annotated(&tools);
    for (tool, effect) in [
        ("find_charge", Effect::Read),
        ("charge", Effect::IdempotentWrite),
        ("send_receipt", Effect::Write),
        ("never listed", Effect::Write),
    ] {
        assert_eq!(marks.effect(tool), effect);
        let unbelieved: &dyn Policy<ToolCall, ToolResponse, BoxError> = &ToolPolicy::new();
        assert_eq!(unbelieved.effect(&ToolCall::new(tool)), Effect::Write);
    }
}

#[tokio::test]
async fn the_key_in_scope_reaches_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let client = connected(Shop::new(directory.path())).await;
    let tools = McpTools::new(client.peer().clone());
    let key = IdempotencyKey::new("from-above").unwrap();
    key.scope(async { tools.oneshot(ToolCall::new("charge").arg("order", 7)).await })
        .await
        .unwrap();
    assert_eq!(Shop::done(directory.path(), "charge"), ["7 from-above"]);
}

async fn hanging(
    directory: &TempDir,
) -> (
    RunningService<RoleClient, ()>,
    UnboundedReceiver<CancelledNotificationParam>,
) {
    let (to, cancelled) = unbounded_channel();
    let client = connected(Shop::new(directory.path()).cancelled(to)).await;
    (client, cancelled)
}

#[tokio::test]
async fn a_dropped_call_tells_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let (client, mut cancelled) = hanging(&directory).await;
    let tools = retry().layer(McpTools::new(client.peer().clone()));
    let call = tokio::spawn(tools.oneshot(ToolCall::new("hang")));
    while calls(directory.path()) == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    let told = tokio::time::timeout(LONG, cancelled.recv()).await.unwrap();
    assert!(told.is_some());
    assert_eq!(calls(directory.path()), 1, "and is not made again");
}

#[tokio::test]
async fn a_call_that_a_deadline_cuts_tells_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let (client, mut cancelled) = hanging(&directory).await;
    let tools = ServiceBuilder::new()
        .layer(DeadlineLayer::call(Duration::from_millis(100)))
        .service(McpTools::new(client.peer().clone()));
    let error = tools.oneshot(ToolCall::new("hang")).await.unwrap_err();
    assert!(DeadlineExceeded::find(&*error).is_some());
    let told = tokio::time::timeout(LONG, cancelled.recv()).await.unwrap();
    assert!(told.is_some());
}

#[tokio::test]
async fn a_server_that_goes_away_leaves_the_outcome_unknown() {
    let (server, client) = tokio::io::duplex(4096);
    let directory = tempfile::tempdir().unwrap();
    let shop = Shop::new(directory.path());
    let serving = tokio::spawn(async move {
        let _running = shop.serve(server).await.unwrap();
        pending::<()>().await;
    });
    let client = ().serve(client).await.unwrap();
    let tools = McpTools::new(client.peer().clone());
    let call = tokio::spawn(tools.oneshot(ToolCall::new("hang")));
    while calls(directory.path()) == 0 {
        tokio::task::yield_now().await;
    }
    serving.abort();
    let outcome = tokio::time::timeout(LONG, call).await.unwrap().unwrap();
    let by_type: &dyn Policy<ToolCall, ToolResponse, BoxError> = &policy();
    let verdict = by_type.classify(&Attempt::first(Effect::Write), outcome.as_ref());
    assert_eq!(verdict, Verdict::UNKNOWN);
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_has_sent_nothing() {
    let tools = Reconnecting::new(|| async { Err("no such program".into()) });
    let tools = BoxCloneSyncService::new(tools);
    let outcome: Result<ToolResponse, BoxError> = tools.oneshot(ToolCall::new("charge")).await;
    let by_type: &dyn Policy<ToolCall, ToolResponse, BoxError> = &policy();
    let verdict = by_type.classify(&Attempt::first(Effect::Write), outcome.as_ref());
    assert_eq!(verdict, Verdict::REFUSED);
}
