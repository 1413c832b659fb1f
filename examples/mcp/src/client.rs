use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, MetaObject};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Value, json};
use tower::Service;
use tower_composure::tool::ToolResponse;
use tower_composure::{BoxError, IdempotencyKey, ToolCall};

/// The name under which the key goes into the `_meta` of a request.
pub const KEY_FIELD: &str = "tower-composure.example/idempotency-key";

pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<ToolResponse, BoxError>> + Send>>;

/// The tools of an MCP server, as a service.
#[derive(Clone)]
pub struct McpTools {
    peer: Peer<RoleClient>,
}

impl McpTools {
    pub fn new(peer: Peer<RoleClient>) -> Self {
        Self { peer }
    }
}

impl Service<ToolCall> for McpTools {
    type Response = ToolResponse;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Answer {
        let peer = self.peer.clone();
        let request = request(call);
        Box::pin(async move { send(&peer, request).await })
    }
}

/// The request of a call, with its key, or the one in scope. Made while the call is being made: that is when it is in
/// scope.
pub(crate) fn request(call: ToolCall) -> CallToolRequestParams {
    let key = call.key.or_else(IdempotencyKey::current);
    let mut request = CallToolRequestParams::new(call.name).with_arguments(call.args);
    if let Some(key) = key {
        let mut meta = MetaObject::new();
        meta.insert(KEY_FIELD.to_owned(), key.as_str().into());
        request.meta = Some(meta.into());
    }
    request
}

/// Sends a request; dropped before the answer, it tells the server so.
pub(crate) async fn send(
    peer: &Peer<RoleClient>,
    request: CallToolRequestParams,
) -> Result<ToolResponse, BoxError> {
    match peer.call_tool_once(request).await {
        Ok(response) => map(response),
        Err(ServiceError::McpError(error)) => Ok(failure(code(error.code))),
        // The connection, a timeout: whether it was done is unknown, which is what the policy makes of an error that it
        // does not know.
        Err(error) => Err(error.into()),
    }
}

/// A result as it is on the wire. A request for input and a task are no failures either; they come up as what they are.
fn map(response: CallToolResponse) -> Result<ToolResponse, BoxError> {
    let value = match response {
        CallToolResponse::Complete(result) => serde_json::to_value(result)?,
        CallToolResponse::InputRequired(wanted) => serde_json::to_value(wanted)?,
        CallToolResponse::Task(task) => serde_json::to_value(task)?,
        _ => Value::Null,
    };
    Ok(match value {
        Value::Object(map) => map,
        _ => failure("INTERNAL"),
    })
}

/// What an error of the protocol says, in the words of the policy.
fn code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::INVALID_PARAMS | ErrorCode::INVALID_REQUEST => "INVALID_ARGUMENT",
        ErrorCode::METHOD_NOT_FOUND => "UNIMPLEMENTED",
        _ => "INTERNAL",
    }
}

fn failure(code: &str) -> ToolResponse {
    let mut map = ToolResponse::new();
    map.insert("status".to_owned(), "error".into());
    map.insert("error".to_owned(), json!({ "code": code }));
    map
}
