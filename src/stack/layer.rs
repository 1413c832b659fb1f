use std::fmt;

use tower_layer::Layer;

use super::{GuardedService, NoKey, StackBuilder};
use crate::circuit_breaker::CircuitBreakerLayer;
use crate::deadline::{DeadlineLayer, DeadlineService};
use crate::retry::{CloneRequest, DropResponse, RetryLayer, RetryService, RetrySwitch};

/// Every layer, in order. See the [module](crate::stack).
///
/// State lives in the layer: all services made from it and all their clones share one budget and one breaker.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::{Effect, Stack};
///
/// let client = ServiceBuilder::new()
///     .layer(Stack::builder(Effect::Read).dependency("prices").build()?)
///     .service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
/// assert_eq!(client.oneshot(7).await?, 7);
/// # Ok(()) }
/// ```
pub struct Stack<P, K = NoKey, R = CloneRequest, D = DropResponse> {
    pub(super) breaker: CircuitBreakerLayer<P>,
    pub(super) call: DeadlineLayer,
    // Whether whatever is between breaker and retry hands each poll and each outcome on as it is: then the deadline of the
    // call may lean on the timer of an attempt, and the breaker entrust its calls to the retry.
    pub(super) is_transparent: bool,
    pub(super) key: K,
    pub(super) retry: RetryLayer<P, R, D>,
    pub(super) attempt: DeadlineLayer,
}

/// What a key layer in a stack wraps.
type Retrying<S, P, R, D> = RetryService<DeadlineService<S>, P, R, D>;

/// The service that a [`Stack`] makes of `S`.
///
/// So that it can be a field:
///
/// ```
/// use tower_composure::stack::StackService;
/// use tower_composure::Effect;
///
/// struct Prices<S> {
///     client: StackService<S, Effect>,
/// }
/// ```
pub type StackService<S, P, K = NoKey, R = CloneRequest, D = DropResponse> =
    GuardedService<<K as Layer<Retrying<S, P, R, D>>>::Service, P>;

impl<P: Clone> Stack<P> {
    /// Starts with the defaults of the [module](crate::stack). Retry and breaker read one policy, so it is cloned.
    ///
    /// ```
    /// use tower_composure::{Effect, Stack};
    ///
    /// let stack = Stack::builder(Effect::Read).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn builder(policy: P) -> StackBuilder<P> {
        StackBuilder::new(policy)
    }
}

impl<P, K, R, D> Stack<P, K, R, D> {
    /// The switch that turns the retries of this stack off while it runs.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryMode, Stack};
    ///
    /// let stack = Stack::builder(Effect::Read).build()?;
    /// stack.switch().set(RetryMode::Off);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn switch(&self) -> RetrySwitch {
        self.retry.switch()
    }
}

impl<S, P, K, R, D> Layer<S> for Stack<P, K, R, D>
where
    P: Clone,
    K: Layer<Retrying<S, P, R, D>>,
{
    type Service = StackService<S, P, K, R, D>;

    fn layer(&self, inner: S) -> Self::Service {
        let attempt = self.attempt.layer(inner);
        let retrying = self.retry.layer(attempt);
        let keyed = self.key.layer(retrying);
        let mut rule = self.call.rule();
        if self.is_transparent {
            rule = rule.leaning_on_below();
        }
        GuardedService::new(keyed, self.breaker.parts(), rule, self.is_transparent)
    }
}

impl<P: Clone, K: Clone, R, D> Clone for Stack<P, K, R, D> {
    fn clone(&self) -> Self {
        Self {
            breaker: self.breaker.clone(),
            call: self.call.clone(),
            is_transparent: self.is_transparent,
            key: self.key.clone(),
            retry: self.retry.clone(),
            attempt: self.attempt.clone(),
        }
    }
}

impl<P, K, R, D> fmt::Debug for Stack<P, K, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("breaker", &self.breaker)
            .field("call", &self.call)
            .field("retry", &self.retry)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
