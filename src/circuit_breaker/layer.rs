use std::fmt;

use tower_layer::Layer;

use super::{CircuitBreaker, CircuitBreakerService};

/// Puts a circuit breaker around a service. See the [module](crate::circuit_breaker).
///
/// The breaker lives in the layer: all services made from it and all their clones share it. The policy is cloned with
/// each of them and into each call, as tower's policies are: it should be cheap to clone.
///
/// ```
/// use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};
///
/// let breaker = CircuitBreaker::default();
/// let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
/// assert_eq!(breaker.metrics().rejected(), 0); // the handle stays at hand
/// ```
#[derive(Clone)]
pub struct CircuitBreakerLayer<P> {
    breaker: Option<CircuitBreaker>,
    policy: P,
}

impl<P> CircuitBreakerLayer<P> {
    /// A breaker, and the policy that says what an outcome means. Give it the policy of the retry below.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};
    ///
    /// let layer = CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read);
    /// ```
    pub const fn new(breaker: CircuitBreaker, policy: P) -> Self {
        Self::maybe(Some(breaker), policy)
    }

    pub(crate) const fn maybe(breaker: Option<CircuitBreaker>, policy: P) -> Self {
        Self { breaker, policy }
    }
}

impl<P: Clone> CircuitBreakerLayer<P> {
    /// What a service of this layer is made of.
    pub(crate) fn parts(&self) -> (Option<CircuitBreaker>, P) {
        (self.breaker.clone(), self.policy.clone())
    }
}

impl<P: Clone, S> Layer<S> for CircuitBreakerLayer<P> {
    type Service = CircuitBreakerService<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        let (breaker, policy) = self.parts();
        CircuitBreakerService::new(inner, breaker, policy)
    }
}

impl<P> fmt::Debug for CircuitBreakerLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerLayer")
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}
