use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{BreakerOpen, Permit};
use crate::context::{self, PermitScope};
use crate::error::BoxError;
use crate::policy::Policy;

pin_project! {
    /// The future of a [`CircuitBreakerService`](super::CircuitBreakerService).
    ///
    /// Dropping it drops the inner future and counts nothing; a probe gives its place back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::circuit_breaker::CircuitBreakerFuture;
    /// use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};
    ///
    /// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
    /// let mut service = CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read).layer(inner);
    /// let future: CircuitBreakerFuture<_, _, _> = service.ready().await?.call(7);
    /// assert_eq!(future.await?, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct CircuitBreakerFuture<F, P, Req> {
        #[pin]
        state: State<F, P>,
        request: PhantomData<fn(Req)>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, P> {
        // Polling the inner future, with the permit lent to the retry below.
        Admitted {
            #[pin]
            inner: F,
            permit: Permit,
            policy: P,
        },
        // The call was refused; the inner service has not seen it.
        Refused { error: BreakerOpen },
        // The outcome has been returned.
        Done,
    }
}

impl<F, P, Req> CircuitBreakerFuture<F, P, Req> {
    pub(super) const fn admitted(inner: F, permit: Permit, policy: P) -> Self {
        Self {
            state: State::Admitted {
                inner,
                permit,
                policy,
            },
            request: PhantomData,
        }
    }

    pub(super) const fn refused(error: BreakerOpen) -> Self {
        Self {
            state: State::Refused { error },
            request: PhantomData,
        }
    }
}

impl<F, P, Req, Res, E> Future for CircuitBreakerFuture<F, P, Req>
where
    F: Future<Output = Result<Res, E>>,
    P: Policy<Req, Res, E>,
    E: Into<BoxError>,
{
    type Output = Result<Res, BoxError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateProj::Admitted {
            inner,
            permit,
            policy,
        } = this.state.as_mut().project()
        {
            context::clear_signals();
            let polled = {
                let _scope = PermitScope::enter(permit);
                inner.poll(cx)
            };
            if !permit.is_stopped() {
                let outcome = ready!(polled);
                settle(permit, policy, outcome.as_ref());
                // The inner future has returned its outcome; it is dropped with this one.
                return Poll::Ready(outcome.map_err(Into::into));
            }
        }
        this.state.refuse().map(Err)
    }
}

impl<F, P> State<F, P> {
    /// The call was refused, or is now, while it waited for a retry.
    #[cold]
    fn refuse(mut self: Pin<&mut Self>) -> Poll<BoxError> {
        let error = match self.as_mut().project() {
            // The retry below has no outcome left to return, and marked that in this very poll.
            StateProj::Admitted { permit, .. } => BreakerOpen::new(permit.remaining()),
            StateProj::Refused { error } => *error,
            StateProj::Done => return Poll::Pending,
        };
        self.set(Self::Done);
        Poll::Ready(error.into())
    }
}

/// Counts the outcome, by what the policy says of it.
#[inline(always)]
pub(crate) fn settle<P, Req, Res, E>(permit: &mut Permit, policy: &P, outcome: Result<&Res, &E>)
where
    P: Policy<Req, Res, E>,
{
    if !permit.counts() {
        return;
    }
    // The retry below stands under the key layer, so it knows more of its last attempt than this layer does.
    let attempt = context::published_attempt().unwrap_or(permit.notes.attempt());
    let verdict = policy.classify(&attempt, outcome);
    permit.finish(verdict, outcome.is_ok(), attempt.number());
}

impl<F, P, Req> fmt::Debug for CircuitBreakerFuture<F, P, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerFuture")
            .finish_non_exhaustive()
    }
}
