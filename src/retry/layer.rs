use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;

use super::config::Config;
use super::{CloneRequest, RetryLayerBuilder, RetryService, RetrySwitch};

/// Retries calls by what a policy says of their outcomes. See the [module](crate::retry).
///
/// Its configuration is shared by all services made from it and all their clones.
pub struct RetryLayer<P, R = CloneRequest> {
    config: Arc<Config<P, R>>,
}

impl<P> RetryLayer<P> {
    /// The defaults: 4 attempts, full jitter from a base of 200 ms up to 2 s, hints up to 60 s.
    pub fn new(policy: P) -> Self {
        Self::builder(policy).build_unchecked()
    }

    /// Starts with the defaults.
    pub fn builder(policy: P) -> RetryLayerBuilder<P> {
        RetryLayerBuilder::new(policy)
    }
}

impl<P, R> RetryLayer<P, R> {
    pub(super) const fn of(config: Arc<Config<P, R>>) -> Self {
        Self { config }
    }

    /// The switch that turns the retries of this layer off while it runs.
    pub fn switch(&self) -> RetrySwitch {
        self.config.settings.switch.clone()
    }
}

impl<P, R, S> Layer<S> for RetryLayer<P, R> {
    type Service = RetryService<S, P, R>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryService::new(inner, Arc::clone(&self.config))
    }
}

impl<P, R> Clone for RetryLayer<P, R> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.config))
    }
}

impl<P, R> fmt::Debug for RetryLayer<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.settings.debug(f, "RetryLayer")
    }
}
