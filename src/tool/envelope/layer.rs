use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use super::EnvelopeService;
use crate::tool::{ToolCall, ToolPolicy, Unmarked};

/// Tells the model how a call ended, and what it can do. See the [module](super).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use serde_json::Value;
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::tool::{EnvelopeLayer, ToolCall, tool_fn};
/// use tower_composure::{BoxError, ToolPolicy};
///
/// let tool = ServiceBuilder::new()
///     .layer(EnvelopeLayer::new(ToolPolicy::new()))
///     .service(tool_fn(|_: ToolCall| async { Err::<Value, BoxError>("reset".into()) }));
/// let told = tool.oneshot(ToolCall::new("charge")).await?;
/// assert_eq!(told["action"], "check_state"); // nobody knows whether it was made
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EnvelopeLayer<F = Unmarked> {
    pub(super) config: Arc<Config<F>>,
}

#[derive(Clone)]
pub(super) struct Config<F> {
    pub(super) policy: ToolPolicy<F>,
    pub(super) retry_after: Duration,
    pub(super) check_with: HashMap<String, Arc<str>>,
}

const RETRY_AFTER: Duration = Duration::from_secs(5);

impl<F> EnvelopeLayer<F> {
    /// Over tools that this policy classifies; give it the one that the retry reads.
    ///
    /// ```
    /// use tower_composure::{EnvelopeLayer, ToolPolicy};
    ///
    /// let layer = EnvelopeLayer::new(ToolPolicy::new());
    /// ```
    pub fn new(policy: ToolPolicy<F>) -> Self {
        Self {
            config: Arc::new(Config {
                policy,
                retry_after: RETRY_AFTER,
                check_with: HashMap::new(),
            }),
        }
    }
}

impl<F: Clone> EnvelopeLayer<F> {
    /// After how long to try again, where neither the tool nor a breaker has said. Default 5 s; told in whole seconds,
    /// rounded up, at least one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{EnvelopeLayer, ToolPolicy};
    ///
    /// let layer = EnvelopeLayer::new(ToolPolicy::new()).retry_after(Duration::from_secs(30));
    /// ```
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        Arc::make_mut(&mut self.config).retry_after = wait;
        self
    }

    /// The tool that tells whether a call of `tool` was carried out, for `check_with`. Default: none is named.
    ///
    /// ```
    /// use tower_composure::{EnvelopeLayer, ToolPolicy};
    ///
    /// let layer = EnvelopeLayer::new(ToolPolicy::new()).check_with("charge", "find_charge");
    /// ```
    #[must_use]
    pub fn check_with(mut self, tool: impl Into<String>, check: impl Into<Arc<str>>) -> Self {
        let checks = &mut Arc::make_mut(&mut self.config).check_with;
        checks.insert(tool.into(), check.into());
        self
    }
}

impl<F, S: Service<ToolCall>> Layer<S> for EnvelopeLayer<F> {
    type Service = EnvelopeService<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        EnvelopeService::new(inner, Arc::clone(&self.config))
    }
}

impl<F> fmt::Debug for EnvelopeLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvelopeLayer")
            .field("policy", &self.config.policy)
            .field("retry_after", &self.config.retry_after)
            .field("check_with", &self.config.check_with)
            .finish()
    }
}
