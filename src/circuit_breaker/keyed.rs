use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::service::{admitted, refused};
use super::{CircuitBreakerFuture, CircuitBreakerLayer};
use crate::error::BoxError;
use crate::keyed::CircuitBreakers;
use crate::policy::Policy;
use crate::ready::Ready;

impl<P> CircuitBreakerLayer<P> {
    /// Puts each request behind the breaker of what it calls. `key` names that; requests without a name share the one
    /// for `""`. See [`keyed`](crate::keyed).
    ///
    /// ```
    /// use tower_composure::keyed::CircuitBreakers;
    /// use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};
    ///
    /// struct Call { api: &'static str }
    ///
    /// let breakers = CircuitBreakers::new("apis", 100, CircuitBreaker::builder())?;
    /// let layer = CircuitBreakerLayer::keyed(breakers, Effect::Read, |call: &Call| Some(call.api));
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn keyed<Req, F>(
        breakers: CircuitBreakers,
        policy: P,
        key: F,
    ) -> KeyedCircuitBreakerLayer<P, F>
    where
        F: Fn(&Req) -> Option<&str>,
    {
        KeyedCircuitBreakerLayer {
            breakers,
            policy,
            key: Arc::new(key),
        }
    }
}

/// Puts each request behind the breaker of what it calls. From [`CircuitBreakerLayer::keyed`].
///
/// ```
/// use tower_composure::circuit_breaker::KeyedCircuitBreakerLayer;
/// use tower_composure::keyed::CircuitBreakers;
/// use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};
///
/// let breakers = CircuitBreakers::new("hosts", 100, CircuitBreaker::builder())?;
/// let layer: KeyedCircuitBreakerLayer<_, _> =
///     CircuitBreakerLayer::keyed(breakers, Effect::Read, |host: &String| Some(host));
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub struct KeyedCircuitBreakerLayer<P, F> {
    breakers: CircuitBreakers,
    policy: P,
    key: Arc<F>,
}

/// A service whose requests are each behind the breaker of what they call. From [`CircuitBreakerLayer::keyed`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::circuit_breaker::KeyedCircuitBreakerService;
/// use tower_composure::keyed::CircuitBreakers;
/// use tower_composure::{BoxError, BreakerOpen, CircuitBreaker, CircuitBreakerLayer, Effect};
///
/// let breakers = CircuitBreakers::new("hosts", 100, CircuitBreaker::builder())?;
/// breakers.get("shop.test").force_open();
/// let inner = service_fn(|host: &'static str| async move { Ok::<_, BoxError>(host) });
/// let service: KeyedCircuitBreakerService<_, _, _> =
///     CircuitBreakerLayer::keyed(breakers, Effect::Read, |host: &&str| Some(*host)).layer(inner);
/// let error = service.clone().oneshot("shop.test").await.unwrap_err();
/// assert!(BreakerOpen::find(&*error).is_some());
/// assert_eq!(service.oneshot("bank.test").await?, "bank.test"); // has one of its own
/// # Ok(()) }
/// ```
pub struct KeyedCircuitBreakerService<S, P, F> {
    inner: Ready<S>,
    breakers: CircuitBreakers,
    policy: P,
    key: Arc<F>,
}

impl<S, P: Clone, F> Layer<S> for KeyedCircuitBreakerLayer<P, F> {
    type Service = KeyedCircuitBreakerService<S, P, F>;

    fn layer(&self, inner: S) -> Self::Service {
        KeyedCircuitBreakerService {
            inner: Ready::new(inner),
            breakers: self.breakers.clone(),
            policy: self.policy.clone(),
            key: Arc::clone(&self.key),
        }
    }
}

impl<S, P, F, Req> Service<Req> for KeyedCircuitBreakerService<S, P, F>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    P: Policy<Req, S::Response, S::Error> + Clone,
    F: Fn(&Req) -> Option<&str>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = CircuitBreakerFuture<S::Future, P, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let breaker = self.breakers.get((self.key)(&request).unwrap_or_default());
        match breaker.try_admit() {
            Ok(admission) => {
                let permit = breaker.permit(admission);
                admitted(&mut self.inner, permit, &self.policy, request)
            }
            Err(remaining) => refused(&mut self.inner, remaining),
        }
    }
}

impl<P: Clone, F> Clone for KeyedCircuitBreakerLayer<P, F> {
    fn clone(&self) -> Self {
        Self {
            breakers: self.breakers.clone(),
            policy: self.policy.clone(),
            key: Arc::clone(&self.key),
        }
    }
}

impl<S: Clone, P: Clone, F> Clone for KeyedCircuitBreakerService<S, P, F> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            breakers: self.breakers.clone(),
            policy: self.policy.clone(),
            key: Arc::clone(&self.key),
        }
    }
}

impl<P, F> fmt::Debug for KeyedCircuitBreakerLayer<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCircuitBreakerLayer")
            .field("breakers", &self.breakers)
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, P, F> fmt::Debug for KeyedCircuitBreakerService<S, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCircuitBreakerService")
            .field("inner", &self.inner)
            .field("breakers", &self.breakers)
            .finish_non_exhaustive()
    }
}
