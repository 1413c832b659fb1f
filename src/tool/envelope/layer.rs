use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use super::EnvelopeService;
use crate::tool::{ToolCall, ToolPolicy, Unmarked};

/// Tells the model how a call ended, and what it can do. See the [module](super).
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
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        Arc::make_mut(&mut self.config).retry_after = wait;
        self
    }

    /// The tool that tells whether a call of `tool` was carried out, for `check_with`. Default: none is named.
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
