use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::circuit_breaker::{
    BreakerOpen, CircuitBreaker, Permit, admit, admit_plainly, poll_ready, settle,
};
use crate::context::{self, HiddenBreaker, PermitScope};
use crate::deadline::{Ending, Rule};
use crate::error::BoxError;
use crate::policy::{Policy, first_attempt};
use crate::ready::Ready;

/// A service behind a circuit breaker, whose calls each have a deadline: what a
/// [`CircuitBreakerService`](crate::circuit_breaker::CircuitBreakerService) over a
/// [`DeadlineService`](crate::deadline::DeadlineService) does, as one service, so that the future of a call is moved into
/// one other and not into two.
///
/// A [`Stack`](super::Stack) makes it; it is [`StackService`](super::StackService) by another name.
///
/// ```
/// use tower::Layer;
/// use tower_composure::stack::GuardedService;
/// use tower_composure::{BoxError, Effect, Stack};
///
/// let stack = Stack::builder(Effect::Read).build()?;
/// let client = tower::service_fn(|id: u32| async move { Ok::<_, BoxError>(id) });
/// fn is_guarded<S>(_: &GuardedService<S, Effect>) {}
/// is_guarded(&stack.layer(client));
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
pub struct GuardedService<S, P> {
    inner: Ready<S>,
    breaker: Option<CircuitBreaker>,
    policy: P,
    rule: Rule,
    // Whether the retry below has the breaker too, and settles a success that changes nothing.
    entrusts: bool,
}

impl<S, P> GuardedService<S, P> {
    pub(super) fn new(
        inner: S,
        (breaker, policy): (Option<CircuitBreaker>, P),
        rule: Rule,
        entrusts: bool,
    ) -> Self {
        Self {
            inner: Ready::new(inner),
            breaker,
            policy,
            rule,
            entrusts,
        }
    }

    /// Where the breaker is not closed, or looks closely, or there is none, or another one is around; or where the
    /// deadline is not simply so much later.
    #[cold]
    fn call_slowly<Req>(&mut self, request: Req) -> GuardedFuture<S::Future, P, Req>
    where
        S: Service<Req> + Clone,
        P: Policy<Req, S::Response, BoxError> + Clone,
    {
        let attempt = first_attempt(&self.policy, &request);
        let (mut permit, refused) = match admit(self.breaker.as_ref(), &self.inner) {
            Ok(permit) => (permit, None),
            Err(remaining) => (Permit::NONE, Some(BreakerOpen::new(remaining))),
        };
        permit.is_for(attempt);
        let end = self.rule.begin_slowly();
        let inner = if refused.is_none() && !end.has_passed() {
            let _hidden = HiddenBreaker::enter();
            let _scope = end.called();
            Some(self.inner.use_up().call(request))
        } else {
            self.inner.release();
            None
        };
        let end = match refused {
            Some(refused) => Ending::refused(refused),
            None => Ending::of(end, self.rule.watch()),
        };
        GuardedFuture {
            inner,
            permit,
            policy: self.policy.clone(),
            end,
            request: PhantomData,
        }
    }
}

impl<S, P, Req> Service<Req> for GuardedService<S, P>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    P: Policy<Req, S::Response, BoxError> + Clone,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = GuardedFuture<S::Future, P, Req>;

    #[inline(always)]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        poll_ready(self.breaker.as_ref(), &mut self.inner, cx)
    }

    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        let Some(mut permit) = admit_plainly(self.breaker.as_ref(), &self.inner, self.entrusts)
        else {
            return self.call_slowly(request);
        };
        let Some(end) = self.rule.begin() else {
            return self.call_slowly(request);
        };
        // As above: a function for both would move the request, and then the future, once more.
        permit.is_for(first_attempt(&self.policy, &request));
        let scope = end.called();
        let called = self.inner.use_up().call(request);
        drop(scope);
        GuardedFuture {
            inner: Some(called),
            permit,
            policy: self.policy.clone(),
            end: Ending::of(end, self.rule.watch()),
            request: PhantomData,
        }
    }
}

/// Readiness counts for one instance and one call; a clone starts without it.
impl<S: Clone, P: Clone> Clone for GuardedService<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            breaker: self.breaker.clone(),
            policy: self.policy.clone(),
            rule: self.rule.clone(),
            entrusts: self.entrusts,
        }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for GuardedService<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedService")
            .field("inner", &self.inner)
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of a [`GuardedService`]: what [`StackService`](super::StackService) answers with.
    ///
    /// Dropping it drops the inner future and counts nothing; a probe gives its place back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::stack::GuardedFuture;
    /// use tower_composure::{Effect, Stack};
    ///
    /// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
    /// let mut service = Stack::builder(Effect::Read).build()?.layer(inner);
    /// let future: GuardedFuture<_, _, _> = service.ready().await?.call(7);
    /// assert_eq!(future.await?, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct GuardedFuture<F, P, Req> {
        // None where the inner service was not called, and once the inner future was cut off.
        #[pin]
        inner: Option<F>,
        permit: Permit,
        policy: P,
        end: Ending,
        request: PhantomData<fn(Req)>,
    }
}

impl<F, P, Req, Res, E> Future for GuardedFuture<F, P, Req>
where
    F: Future<Output = Result<Res, E>>,
    P: Policy<Req, Res, BoxError>,
    E: Into<BoxError>,
{
    type Output = Result<Res, BoxError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        // Also where nothing was called: an attempt of an earlier call is none of this one's.
        context::clear_signals();
        if let Some(inner) = this.inner.as_pin_mut() {
            let polled = {
                let _permit = PermitScope::enter(this.permit);
                let _deadline = this.end.polled();
                inner.poll(cx)
            };
            if let Poll::Ready(outcome) = polled {
                let outcome = outcome.map_err(Into::into);
                settle(this.permit, this.policy, outcome.as_ref());
                // The inner future has returned its outcome; it is dropped with this one.
                return Poll::Ready(outcome);
            }
        }
        self.pending(cx)
    }
}

impl<F, P, Req> GuardedFuture<F, P, Req> {
    /// The inner future is pending, or there is none.
    #[cold]
    fn pending<Res>(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Res, BoxError>>
    where
        P: Policy<Req, Res, BoxError>,
    {
        let mut this = self.project();
        let refused = if this.permit.is_stopped() {
            // The retry below has no outcome left to return, and marked that in this very poll.
            let remaining = this.permit.remaining();
            this.inner.set(None);
            *this.permit = Permit::NONE;
            Some(Box::new(BreakerOpen::new(remaining)))
        } else {
            this.end.take_refused()
        };
        if let Some(refused) = refused {
            this.end.finish();
            return Poll::Ready(Err(refused));
        }
        if this.end.leans_on_below() {
            return Poll::Pending;
        }
        let error = {
            let _permit = PermitScope::enter(this.permit);
            // Where a future above ends the call at the same instant, it knows what has failed before.
            if this.inner.is_some() && context::is_watched(this.end.deadline()) {
                return Poll::Pending;
            }
            let error = ready!(this.end.cut_off(cx));
            // The inner future is dropped in the poll that reports the deadline.
            this.inner.set(None);
            error
        };
        settle(this.permit, this.policy, Err(&error));
        Poll::Ready(Err(error))
    }
}

impl<F, P, Req> fmt::Debug for GuardedFuture<F, P, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFuture").finish_non_exhaustive()
    }
}
