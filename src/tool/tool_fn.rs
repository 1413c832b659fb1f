use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use serde_json::{Map, Value};
use tower_service::Service;

use super::{ToolCall, ToolResponse};

/// A tool from an async function.
///
/// It may answer with a map or with any JSON value; a value that is no map becomes `{"status": "ok", "result": value}`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::convert::Infallible;
/// use serde_json::json;
/// use tower::ServiceExt;
/// use tower_composure::tool::{ToolCall, tool_fn};
///
/// let double = tool_fn(|call: ToolCall| async move {
///     Ok::<_, Infallible>(json!({"status": "ok", "double": call.args["n"].as_i64().map(|n| 2 * n)}))
/// });
/// assert_eq!(double.oneshot(ToolCall::new("double").arg("n", 21)).await.unwrap()["double"], 42);
/// # }
/// ```
pub const fn tool_fn<F, Fut>(function: F) -> ToolFn<F>
where
    F: FnMut(ToolCall) -> Fut,
{
    ToolFn { function }
}

/// A tool from an async function. Made by [`tool_fn`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use serde_json::json;
/// use tower::ServiceExt;
/// use tower_composure::BoxError;
/// use tower_composure::tool::{ToolCall, ToolFn, tool_fn};
///
/// let tool: ToolFn<_> = tool_fn(|call: ToolCall| async move { Ok::<_, BoxError>(json!({"asked": call.name})) });
/// assert_eq!(tool.oneshot(ToolCall::new("balance")).await?["asked"], "balance");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct ToolFn<F> {
    function: F,
}

/// What the function of a [`tool_fn`] may answer with.
///
/// ```
/// use serde_json::json;
/// use tower_composure::tool::IntoToolResponse;
///
/// let map = json!(7).into_tool_response();
/// assert_eq!(serde_json::Value::Object(map), json!({"status": "ok", "result": 7}));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no answer of a tool",
    label = "not a JSON map",
    note = "a tool answers with a `ToolResponse` or a `serde_json::Value`; `serde_json::to_value` makes one of what is `Serialize`"
)]
pub trait IntoToolResponse {
    /// The map for the model.
    ///
    /// ```
    /// use serde_json::json;
    /// use tower_composure::tool::IntoToolResponse;
    ///
    /// assert_eq!(json!(7).into_tool_response()["result"], 7);
    /// ```
    fn into_tool_response(self) -> ToolResponse;
}

impl IntoToolResponse for ToolResponse {
    fn into_tool_response(self) -> ToolResponse {
        self
    }
}

impl IntoToolResponse for Value {
    fn into_tool_response(self) -> ToolResponse {
        match self {
            Self::Object(map) => map,
            result => {
                let mut map = Map::new();
                map.insert("status".to_owned(), "ok".into());
                map.insert("result".to_owned(), result);
                map
            }
        }
    }
}

impl<F, Fut, T, E> Service<ToolCall> for ToolFn<F>
where
    F: FnMut(ToolCall) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    T: IntoToolResponse,
{
    type Response = ToolResponse;
    type Error = E;
    type Future = ToolFnFuture<Fut>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        ToolFnFuture {
            inner: (self.function)(call),
        }
    }
}

pin_project! {
    /// The future of a [`ToolFn`].
    ///
    /// Dropping it drops the function's own future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use serde_json::json;
    /// use tower::{Service, ServiceExt};
    /// use tower_composure::BoxError;
    /// use tower_composure::tool::{ToolCall, ToolFnFuture, tool_fn};
    ///
    /// let mut tool = tool_fn(|_: ToolCall| async { Ok::<_, BoxError>(json!({"status": "ok"})) });
    /// let future: ToolFnFuture<_> = tool.ready().await?.call(ToolCall::new("balance"));
    /// assert_eq!(future.await?["status"], "ok");
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct ToolFnFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F, T, E> Future for ToolFnFuture<F>
where
    F: Future<Output = Result<T, E>>,
    T: IntoToolResponse,
{
    type Output = Result<ToolResponse, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.project().inner.poll(cx));
        Poll::Ready(answer.map(IntoToolResponse::into_tool_response))
    }
}

impl<F> fmt::Debug for ToolFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFn").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for ToolFnFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFnFuture").finish_non_exhaustive()
    }
}
