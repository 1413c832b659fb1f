//! The server in a child process, which crashes after it has done its work and before it answers.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::Path;
use std::time::Duration;

use mcp_tools::{Reconnecting, Shop, annotated};
use rmcp::ServiceExt as _;
use rmcp::transport::TokioChildProcess;
use serde_json::Value;
use tokio::process::Command;
use tower::{ServiceBuilder, ServiceExt as _};
use tower_composure::tool::{EnvelopeLayer, ToolKeyLayer, shape};
use tower_composure::{Backoff, RetryLayer, ToolCall, ToolPolicy};

/// What the model is told of a call during which the server crashes, and of one thereafter.
async fn told(tool: &'static str, directory: &Path) -> (Value, Value) {
    let target = directory.to_owned();
    let tools = Reconnecting::new(move || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-tools"));
        child.arg("serve").arg(&target).arg(tool);
        async move { Ok(().serve(TokioChildProcess::new(child)?).await?) }
    });
    let peer = tools.peer().await.unwrap();
    let marks = annotated(&peer.list_all_tools().await.unwrap());
    let policy = ToolPolicy::marked(marks.clone()).shape(shape::mcp);
    let wait = Duration::from_millis(1);
    let retry = RetryLayer::builder(policy.clone())
        .backoff(Backoff::exponential(wait, wait))
        .build()
        .unwrap();
    let tools = ServiceBuilder::new()
        .layer(EnvelopeLayer::new(policy).check_with("charge", "find_charge"))
        .layer(ToolKeyLayer::from_arguments().marks(marks))
        .layer(retry)
        .service(tools);
    let call = |tool| ToolCall::new(tool).arg("order", 7).invocation_id("turn-1");
    let Ok(first) = tools.clone().oneshot(call(tool)).await;
    let Ok(next) = tools.oneshot(call("find_charge")).await;
    (Value::Object(first), Value::Object(next))
}

fn calls(directory: &Path, tool: &str) -> usize {
    let calls = Shop::done(directory, "calls");
    calls.iter().filter(|call| *call == tool).count()
}

#[tokio::test]
async fn a_read_is_made_again_over_a_new_connection() {
    let directory = tempfile::tempdir().unwrap();
    let (first, next) = told("find_charge", directory.path()).await;
    assert_eq!(first["structuredContent"]["charged"], false);
    assert_eq!(next["structuredContent"]["charged"], false);
    assert_eq!(calls(directory.path(), "find_charge"), 3);
}

#[tokio::test]
async fn a_write_with_a_key_is_made_again_and_found() {
    let directory = tempfile::tempdir().unwrap();
    let (first, next) = told("charge", directory.path()).await;
    assert_eq!(first["structuredContent"]["replayed"], true);
    assert_eq!(next["structuredContent"]["charged"], true);
    assert_eq!(calls(directory.path(), "charge"), 2);
    assert_eq!(Shop::done(directory.path(), "charge").len(), 1);
}

#[tokio::test]
async fn a_write_without_a_key_is_not_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let (first, next) = told("send_receipt", directory.path()).await;
    assert_eq!(first["error"]["code"], "OUTCOME_UNKNOWN");
    assert_eq!(first["action"], "check_state");
    assert_eq!(first["attempts"], 1);
    assert_eq!(calls(directory.path(), "send_receipt"), 1);
    assert_eq!(Shop::done(directory.path(), "send_receipt"), ["7"]);
    assert!(
        next["isError"] != true,
        "the next call finds a new connection"
    );
}
