use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_service::Service;

use super::{BreakerOpen, CircuitBreaker, CircuitBreakerFuture, Permit};
use crate::attempt::Attempt;
use crate::context::Lending;
use crate::error::BoxError;
use crate::policy::Policy;
use crate::ready::Ready;

/// A service behind a circuit breaker. See the [module](crate::circuit_breaker).
pub struct CircuitBreakerService<S, P> {
    inner: Ready<S>,
    breaker: Option<CircuitBreaker>,
    policy: Arc<P>,
}

impl<S, P> CircuitBreakerService<S, P> {
    pub(super) const fn new(inner: S, breaker: Option<CircuitBreaker>, policy: Arc<P>) -> Self {
        Self {
            inner: Ready::new(inner),
            breaker,
            policy,
        }
    }

    /// Lets the call through, or says for how long it is refused. Where there is no breaker there is no permit.
    fn admit(&self) -> Result<Option<Permit>, Duration> {
        let Some(breaker) = &self.breaker else {
            return Ok(None);
        };
        let permit = breaker.try_admit()?;
        if self.inner.is_ready() {
            Ok(Some(permit))
        } else {
            // It was open when the caller asked for readiness, so the inner service was not asked; now it could be.
            breaker.rejected();
            Err(Duration::ZERO)
        }
    }
}

impl<S, P, Req> Service<Req> for CircuitBreakerService<S, P>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    P: Policy<Req, S::Response, S::Error>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = CircuitBreakerFuture<S::Future, P, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.breaker.as_ref().is_some_and(CircuitBreaker::refuses) {
            // The call will be refused, and a refusal has nothing to wait for.
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let mut permit = match self.admit() {
            Ok(permit) => permit,
            Err(remaining) => {
                self.inner.release();
                return CircuitBreakerFuture::refused(BreakerOpen::new(remaining));
            }
        };
        let attempt =
            Attempt::first(self.policy.effect(&request)).with_key(self.policy.keyed(&request));
        let inner = {
            let _lending = Lending::enter(&mut permit);
            self.inner.call(request)
        };
        CircuitBreakerFuture::admitted(inner, permit, Arc::clone(&self.policy), attempt)
    }
}

/// Readiness counts for one instance and one call; a clone starts without it.
impl<S: Clone, P> Clone for CircuitBreakerService<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            breaker: self.breaker.clone(),
            policy: Arc::clone(&self.policy),
        }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for CircuitBreakerService<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerService")
            .field("inner", &self.inner)
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}
