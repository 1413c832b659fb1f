use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tower_service::Service;

use super::EnvelopeFuture;
use super::layer::Config;
use crate::policy::{Policy, first_attempt};
use crate::tool::{ToolCall, ToolPolicy, ToolResponse};

/// Tells the model how a call ended. See the [module](super).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use serde_json::json;
/// use tower::{Layer, ServiceExt};
/// use tower_composure::tool::envelope::EnvelopeService;
/// use tower_composure::tool::{EnvelopeLayer, ToolCall, tool_fn};
/// use tower_composure::{BoxError, ToolPolicy};
///
/// let tool = tool_fn(|_: ToolCall| async { Ok::<_, BoxError>(json!({"status": "ok"})) });
/// let service: EnvelopeService<_, _> = EnvelopeLayer::new(ToolPolicy::new()).layer(tool);
/// assert_eq!(service.oneshot(ToolCall::new("charge")).await?["status"], "ok");
/// # Ok(()) }
/// ```
pub struct EnvelopeService<S: Service<ToolCall>, F> {
    inner: S,
    /// The inner service has failed to become ready, which the next call is told.
    unready: Option<S::Error>,
    config: Arc<Config<F>>,
}

impl<S: Service<ToolCall>, F> EnvelopeService<S, F> {
    pub(super) const fn new(inner: S, config: Arc<Config<F>>) -> Self {
        Self {
            inner,
            unready: None,
            config,
        }
    }
}

impl<S, F> Service<ToolCall> for EnvelopeService<S, F>
where
    S: Service<ToolCall, Response = ToolResponse>,
    S::Error: 'static,
    ToolPolicy<F>: Policy<ToolCall, ToolResponse, S::Error>,
{
    type Response = ToolResponse;
    type Error = Infallible;
    type Future = EnvelopeFuture<S::Future, S::Error, F>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.unready = ready!(self.inner.poll_ready(cx)).err();
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        let config = Arc::clone(&self.config);
        let policy: &dyn Policy<ToolCall, ToolResponse, S::Error> = &config.policy;
        let attempt = first_attempt(policy, &call);
        let check_with = config.check_with.get(&call.name).cloned();
        match self.unready.take() {
            Some(error) => EnvelopeFuture::unready(error, config, attempt, check_with),
            None => EnvelopeFuture::called(self.inner.call(call), config, attempt, check_with),
        }
    }
}

/// Readiness counts for one instance and one call; a clone starts without it.
impl<S: Service<ToolCall> + Clone, F> Clone for EnvelopeService<S, F> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.config))
    }
}

impl<S: Service<ToolCall> + fmt::Debug, F> fmt::Debug for EnvelopeService<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvelopeService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
