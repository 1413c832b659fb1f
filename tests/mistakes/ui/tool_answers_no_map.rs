//! A tool that answers with a type of its own, which no model can read.

use tower::Service;
use tower_composure::BoxError;
use tower_composure::tool::{ToolCall, ToolResponse, tool_fn};

struct Balance(i64);

fn tool() -> impl Service<ToolCall, Response = ToolResponse, Error = BoxError> {
    tool_fn(|_: ToolCall| async { Ok::<_, BoxError>(Balance(7)) })
}

fn main() {
    tool();
}
