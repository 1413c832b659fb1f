use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;

use super::config::Config;
use super::{CloneRequest, DropResponse, RetryLayerBuilder, RetryService, RetrySwitch};

/// Retries calls by what a policy says of their outcomes. See the [module](crate::retry).
///
/// Its configuration is shared by all services made from it and all their clones.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::{Attempt, Effect, RetryLayer};
///
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::new(Effect::Read))
///     .service_fn(|()| async {
///         if Attempt::current().unwrap().number() < 3 { Err(std::io::Error::other("not yet")) } else { Ok("calm") }
///     });
/// assert_eq!(service.oneshot(()).await?, "calm");
/// # Ok(()) }
/// ```
pub struct RetryLayer<P, R = CloneRequest, D = DropResponse> {
    config: Arc<Config<P, R, D>>,
}

impl<P> RetryLayer<P> {
    /// The defaults: 4 attempts, full jitter from a base of 200 ms up to 2 s, hints up to 60 s.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let layer = RetryLayer::new(Effect::Read);
    /// ```
    pub fn new(policy: P) -> Self {
        Self::builder(policy).build_unchecked()
    }

    /// Starts with the defaults.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(Effect::Read).max_attempts(3).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn builder(policy: P) -> RetryLayerBuilder<P> {
        RetryLayerBuilder::new(policy)
    }
}

impl<P, R, D> RetryLayer<P, R, D> {
    pub(super) const fn of(config: Arc<Config<P, R, D>>) -> Self {
        Self { config }
    }

    /// The switch that turns the retries of this layer off while it runs.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer, RetryMode};
    ///
    /// let layer = RetryLayer::new(Effect::Read);
    /// layer.switch().set(RetryMode::ObserveOnly);
    /// ```
    pub fn switch(&self) -> RetrySwitch {
        self.config.settings.switch.clone()
    }
}

impl<P, R, D, S> Layer<S> for RetryLayer<P, R, D> {
    type Service = RetryService<S, P, R, D>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryService::new(inner, Arc::clone(&self.config))
    }
}

impl<P, R, D> Clone for RetryLayer<P, R, D> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.config))
    }
}

impl<P, R, D> fmt::Debug for RetryLayer<P, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.settings.debug(f, "RetryLayer")
    }
}
