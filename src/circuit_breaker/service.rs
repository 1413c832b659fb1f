use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_service::Service;

use super::{BreakerOpen, CircuitBreaker, CircuitBreakerFuture, Permit};
use crate::context::{self, HiddenBreaker};
use crate::error::BoxError;
use crate::policy::{Policy, first_attempt};
use crate::ready::Ready;

/// A service behind a circuit breaker. See the [module](crate::circuit_breaker).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::circuit_breaker::CircuitBreakerService;
/// use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};
///
/// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
/// let service: CircuitBreakerService<_, _> =
///     CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read).layer(inner);
/// assert_eq!(service.oneshot(7).await?, 7);
/// # Ok(()) }
/// ```
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

    /// Where it is not closed, or looks closely, or there is none, or another one is around.
    #[cold]
    fn call_slowly<Req>(&mut self, request: Req) -> CircuitBreakerFuture<S::Future, P, Req>
    where
        S: Service<Req> + Clone,
        P: Policy<Req, S::Response, S::Error> + Clone,
    {
        match admit(self.breaker.as_ref(), &self.inner) {
            Ok(permit) => admitted(&mut self.inner, permit, &self.policy, request),
            Err(remaining) => refused(&mut self.inner, remaining),
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

    #[inline(always)]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        poll_ready(self.breaker.as_ref(), &mut self.inner, cx)
    }

    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        match admit_plainly(self.breaker.as_ref(), &self.inner, false) {
            Some(permit) => start(&mut self.inner, permit, &self.policy, request),
            None => self.call_slowly(request),
        }
    }
}

#[inline(always)]
pub(crate) fn poll_ready<S, Req>(
    breaker: Option<&CircuitBreaker>,
    inner: &mut Ready<S>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), BoxError>>
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
{
    if breaker.is_some_and(CircuitBreaker::refuses) {
        // The call will be refused, and a refusal has nothing to wait for.
        return Poll::Ready(Ok(()));
    }
    inner.poll_ready(cx).map_err(Into::into)
}

/// Lets a call through to a service that is ready, where that takes no more than a look.
#[inline(always)]
pub(crate) fn admit_plainly<S>(
    breaker: Option<&CircuitBreaker>,
    inner: &Ready<S>,
    entrusted: bool,
) -> Option<Permit> {
    if inner.is_ready() && !context::frame().has_breaker() {
        breaker?.try_admit_plainly(entrusted)
    } else {
        None
    }
}

/// Lets a call through, or says for how long it is refused.
pub(crate) fn admit<S>(
    breaker: Option<&CircuitBreaker>,
    inner: &Ready<S>,
) -> Result<Permit, Duration> {
    let Some(breaker) = breaker else {
        return Ok(Permit::NONE);
    };
    let admission = breaker.try_admit()?;
    if !inner.is_ready() {
        // It was open when the caller asked for readiness, so the inner service was not asked; now it could be.
        breaker.take_back(admission);
        return Err(Duration::ZERO);
    }
    Ok(breaker.permit(admission))
}

/// Makes the call below whatever breaker is around.
pub(super) fn admitted<S, P, Req>(
    inner: &mut Ready<S>,
    permit: Permit,
    policy: &P,
    request: Req,
) -> CircuitBreakerFuture<S::Future, P, Req>
where
    S: Service<Req>,
    P: Policy<Req, S::Response, S::Error> + Clone,
{
    let _hidden = HiddenBreaker::enter();
    start(inner, permit, policy, request)
}

/// Makes the call. The permit exists first, so a panic gives it back.
#[inline(always)]
fn start<S, P, Req>(
    inner: &mut Ready<S>,
    mut permit: Permit,
    policy: &P,
    request: Req,
) -> CircuitBreakerFuture<S::Future, P, Req>
where
    S: Service<Req>,
    P: Policy<Req, S::Response, S::Error> + Clone,
{
    permit.is_for(first_attempt(policy, &request));
    let called = inner.use_up().call(request);
    CircuitBreakerFuture::admitted(called, permit, policy.clone())
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
