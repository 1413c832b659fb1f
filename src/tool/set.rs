use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::codes;
use super::{ToolCall, ToolResponse};
use crate::error::ConfigError;

/// Tools behind one service, routed by name.
///
/// It holds services of one type; tools of different types are boxed first, for instance with
/// `tower::util::BoxCloneSyncService`. A call with a name that is not in the set is answered with
/// `{"status": "error", "error": {"code": "UNKNOWN_TOOL"}}`, which is `Rejected`, and reaches no tool.
///
/// It is always ready: which tool has to be is known only when it is called, so a tool is cloned and its readiness
/// awaited by the call's future, inside of the deadline of a layer above.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_composure::BoxError> {
/// use std::convert::Infallible;
/// use serde_json::json;
/// use tower::{ServiceExt, util::BoxCloneSyncService};
/// use tower_composure::tool::{ToolCall, ToolSet, tool_fn};
///
/// let tools = ToolSet::builder()
///     .tool("ping", BoxCloneSyncService::new(tool_fn(|_| async { Ok::<_, Infallible>(json!({"pong": 1})) })))
///     .tool("time", BoxCloneSyncService::new(tool_fn(|_| async { Ok::<_, Infallible>(json!({"hour": 7})) })))
///     .build()?;
/// assert_eq!(tools.clone().oneshot(ToolCall::new("time")).await?["hour"], 7);
/// assert_eq!(tools.oneshot(ToolCall::new("tide")).await?["error"]["code"], "UNKNOWN_TOOL");
/// # Ok(()) }
/// ```
pub struct ToolSet<S> {
    tools: Arc<HashMap<String, S>>,
}

/// Builds a [`ToolSet`]. From [`ToolSet::builder`].
///
/// ```
/// use serde_json::json;
/// use tower_composure::BoxError;
/// use tower_composure::tool::{ToolCall, ToolSet, ToolSetBuilder, tool_fn};
///
/// let echo = tool_fn(|call: ToolCall| async move { Ok::<_, BoxError>(json!({"args": call.args})) });
/// let builder: ToolSetBuilder<_> = ToolSet::builder().tool("echo", echo.clone()).tool("repeat", echo);
/// assert_eq!(builder.build()?.names().count(), 2);
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct ToolSetBuilder<S> {
    tools: HashMap<String, S>,
    twice: Option<String>,
}

impl<S> ToolSet<S> {
    /// Starts with no tool.
    ///
    /// ```
    /// use tower_composure::tool::{ToolFn, ToolSet};
    ///
    /// let none = ToolSet::<ToolFn<()>>::builder().build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn builder() -> ToolSetBuilder<S> {
        ToolSetBuilder {
            tools: HashMap::new(),
            twice: None,
        }
    }

    /// The names of the tools, in no order.
    ///
    /// ```
    /// use serde_json::json;
    /// use tower_composure::BoxError;
    /// use tower_composure::tool::{ToolCall, ToolSet, tool_fn};
    ///
    /// let echo = tool_fn(|call: ToolCall| async move { Ok::<_, BoxError>(json!({"args": call.args})) });
    /// let set = ToolSet::builder().tool("echo", echo).build()?;
    /// assert_eq!(set.names().collect::<Vec<_>>(), ["echo"]);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }
}

impl<S> ToolSetBuilder<S> {
    /// Adds a tool under this name.
    ///
    /// ```
    /// use serde_json::json;
    /// use tower_composure::BoxError;
    /// use tower_composure::tool::{ToolCall, ToolSet, tool_fn};
    ///
    /// let echo = tool_fn(|call: ToolCall| async move { Ok::<_, BoxError>(json!({"args": call.args})) });
    /// let set = ToolSet::builder().tool("echo", echo).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn tool(mut self, name: impl Into<String>, tool: S) -> Self {
        let name = name.into();
        if self.tools.insert(name.clone(), tool).is_some() {
            self.twice = Some(name);
        }
        self
    }

    /// Builds the set.
    ///
    /// # Errors
    ///
    /// Where two tools have one name, or one has an empty name.
    ///
    /// ```
    /// use tower_composure::tool::ToolSet;
    ///
    /// assert!(ToolSet::builder().tool("echo", 1).tool("echo", 2).build().is_err());
    /// ```
    pub fn build(self) -> Result<ToolSet<S>, ConfigError> {
        if let Some(name) = self.twice {
            let reason = format!("two tools are called {name:?}");
            return Err(ConfigError::new("tool", reason));
        }
        if self.tools.contains_key("") {
            return Err(ConfigError::new("tool", "a name is \"\""));
        }
        Ok(ToolSet {
            tools: Arc::new(self.tools),
        })
    }
}

impl<S> Service<ToolCall> for ToolSet<S>
where
    S: Service<ToolCall, Response = ToolResponse> + Clone,
{
    type Response = ToolResponse;
    type Error = S::Error;
    type Future = ToolSetFuture<S>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        let state = match self.tools.get(&call.name) {
            Some(tool) => State::Getting {
                tool: tool.clone(),
                call: Some(call),
            },
            None => State::Unknown,
        };
        ToolSetFuture { state }
    }
}

pin_project! {
    /// The future of a [`ToolSet`].
    ///
    /// Dropping it drops the tool's future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use serde_json::json;
    /// use tower::{Service, ServiceExt};
    /// use tower_composure::BoxError;
    /// use tower_composure::tool::{ToolCall, ToolSet, ToolSetFuture, tool_fn};
    ///
    /// let echo = tool_fn(|_: ToolCall| async { Ok::<_, BoxError>(json!({"status": "ok"})) });
    /// let mut set = ToolSet::builder().tool("echo", echo).build()?;
    /// let future: ToolSetFuture<_> = set.ready().await?.call(ToolCall::new("echo"));
    /// assert_eq!(future.await?["status"], "ok");
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct ToolSetFuture<S>
    where
        S: Service<ToolCall>,
    {
        #[pin]
        state: State<S, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F> {
        // Waiting for the tool to be ready.
        Getting { tool: S, call: Option<ToolCall> },
        // Polling the tool's future.
        Called {
            #[pin]
            inner: F,
        },
        // There is no such tool.
        Unknown,
        // The outcome has been returned.
        Done,
    }
}

impl<S> Future for ToolSetFuture<S>
where
    S: Service<ToolCall, Response = ToolResponse>,
{
    type Output = Result<ToolResponse, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Getting { tool, call } => {
                    if let Err(error) = ready!(tool.poll_ready(cx)) {
                        this.state.set(State::Done);
                        return Poll::Ready(Err(error));
                    }
                    match call.take() {
                        Some(call) => {
                            let inner = tool.call(call);
                            this.state.set(State::Called { inner });
                        }
                        None => this.state.set(State::Done),
                    }
                }
                StateProj::Called { inner } => return inner.poll(cx),
                StateProj::Unknown => {
                    this.state.set(State::Done);
                    return Poll::Ready(Ok(codes::failure(codes::UNKNOWN_TOOL)));
                }
                StateProj::Done => return Poll::Pending,
            }
        }
    }
}

impl<S> Clone for ToolSet<S> {
    fn clone(&self) -> Self {
        Self {
            tools: Arc::clone(&self.tools),
        }
    }
}

impl<S> fmt::Debug for ToolSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSet")
            .field("tools", &self.tools.keys())
            .finish()
    }
}

impl<S> fmt::Debug for ToolSetBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSetBuilder")
            .field("tools", &self.tools.keys())
            .finish_non_exhaustive()
    }
}

impl<S: Service<ToolCall>> fmt::Debug for ToolSetFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSetFuture").finish_non_exhaustive()
    }
}
