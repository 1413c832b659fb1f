use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_service::Service;

use super::machine::Admission;
use super::{BreakerOpen, CircuitBreaker, CircuitBreakerFuture, Permit};
use crate::attempt::Attempt;
use crate::context::PermitScope;
use crate::error::BoxError;
use crate::policy::Policy;
use crate::ready::Ready;

/// A service behind a circuit breaker. See the [module](crate::circuit_breaker).
pub struct CircuitBreakerService<S, P> {
    inner: Ready<S>,
    breaker: Option<CircuitBreaker>,
    policy: P,
}

impl<S, P> CircuitBreakerService<S, P> {
    pub(super) const fn new(inner: S, breaker: Option<CircuitBreaker>, policy: P) -> Self {
        Self {
            inner: Ready::new(inner),
            breaker,
            policy,
        }
    }

    /// Whether a call of this instance is let through, and how; otherwise for how long it is refused.
    #[inline]
    fn admit(&self, breaker: &CircuitBreaker) -> Result<Admission, Duration> {
        match breaker.try_admit() {
            Ok(admission) if !self.inner.is_ready() => {
                // It was open when the caller asked for readiness, so the inner service was not asked; now it could be.
                breaker.take_back(admission);
                Err(Duration::ZERO)
            }
            admitted => admitted,
        }
    }
}

impl<S, P, Req> Service<Req> for CircuitBreakerService<S, P>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    P: Policy<Req, S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = CircuitBreakerFuture<S::Future, P, Req>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.breaker.as_ref().is_some_and(CircuitBreaker::refuses) {
            // The call will be refused, and a refusal has nothing to wait for.
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        let permit = match &self.breaker {
            None => Permit::NONE,
            Some(breaker) => match self.admit(breaker) {
                Ok(admission) => breaker.permit(admission),
                Err(remaining) => return refused(&mut self.inner, remaining),
            },
        };
        admitted(&mut self.inner, permit, &self.policy, request)
    }
}

/// Makes the call, with its permit lent to the retry below. The permit exists first, so a panic gives it back.
#[inline]
pub(super) fn admitted<S, P, Req>(
    inner: &mut Ready<S>,
    mut permit: Permit,
    policy: &P,
    request: Req,
) -> CircuitBreakerFuture<S::Future, P, Req>
where
    S: Service<Req>,
    P: Policy<Req, S::Response, S::Error> + Clone,
{
    let attempt = Attempt::first(policy.effect(&request)).with_key(policy.keyed(&request));
    let called = {
        let _scope = PermitScope::enter(&mut permit);
        inner.call(request)
    };
    CircuitBreakerFuture::admitted(called, permit, policy.clone(), attempt)
}

/// Refuses the call, and gives back whatever readiness was taken for it.
#[cold]
pub(super) fn refused<S: Clone, F, P, Req>(
    inner: &mut Ready<S>,
    remaining: Duration,
) -> CircuitBreakerFuture<F, P, Req> {
    inner.release();
    CircuitBreakerFuture::refused(BreakerOpen::new(remaining))
}

/// Readiness counts for one instance and one call; a clone starts without it.
impl<S: Clone, P: Clone> Clone for CircuitBreakerService<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            breaker: self.breaker.clone(),
            policy: self.policy.clone(),
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
