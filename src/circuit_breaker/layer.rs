use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;

use super::{CircuitBreaker, CircuitBreakerService};

/// Puts a circuit breaker around a service. See the [module](crate::circuit_breaker).
///
/// The breaker lives in the layer: all services made from it and all their clones share it.
pub struct CircuitBreakerLayer<P> {
    breaker: Option<CircuitBreaker>,
    policy: Arc<P>,
}

impl<P> CircuitBreakerLayer<P> {
    /// A breaker, and the policy that says what an outcome means. Give it the policy of the retry below.
    pub fn new(breaker: CircuitBreaker, policy: P) -> Self {
        Self::shared(Some(breaker), Arc::new(policy))
    }

    pub(crate) const fn shared(breaker: Option<CircuitBreaker>, policy: Arc<P>) -> Self {
        Self { breaker, policy }
    }
}

impl<P, S> Layer<S> for CircuitBreakerLayer<P> {
    type Service = CircuitBreakerService<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        CircuitBreakerService::new(inner, self.breaker.clone(), Arc::clone(&self.policy))
    }
}

impl<P> Clone for CircuitBreakerLayer<P> {
    fn clone(&self) -> Self {
        Self::shared(self.breaker.clone(), Arc::clone(&self.policy))
    }
}

impl<P> fmt::Debug for CircuitBreakerLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerLayer")
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}
