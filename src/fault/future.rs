use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::ready::Ready;

pin_project! {
    /// The future of a [`FaultService`](super::FaultService).
    ///
    /// Dropping it drops the inner future, where there is one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::fault::{FaultFuture, FaultLayer};
    ///
    /// let inner = service_fn(|id: u64| async move { Ok::<u64, std::io::Error>(id) });
    /// let mut service = FaultLayer::builder().build()?.layer(inner);
    /// let future: FaultFuture<_, _, _, _> = service.ready().await?.call(7);
    /// assert_eq!(future.await?, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct FaultFuture<S, Req, Res, E>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S, Req, Res, E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, Req, Res, E>
    where
        S: Service<Req>,
    {
        // Waiting out the added latency; no timer where there is none.
        Held {
            timer: Option<Pin<Box<Sleep>>>,
            then: Option<Then<S, Req, Res, E>>,
        },
        // Polling the inner future, whose answer may get lost.
        Calling {
            #[pin]
            inner: S::Future,
            loses: bool,
        },
        // There is never an answer.
        Silent,
    }
}

/// What follows the latency.
pub(super) enum Then<S, Req, Res, E> {
    Call {
        service: Ready<S>,
        request: Req,
        loses: bool,
    },
    Answer(Result<Res, E>),
}

impl<S, Req, Res, E> FaultFuture<S, Req, Res, E>
where
    S: Service<Req>,
{
    pub(super) const fn calling(inner: S::Future, loses: bool) -> Self {
        Self {
            state: State::Calling { inner, loses },
        }
    }

    pub(super) fn held(latency: Duration, then: Then<S, Req, Res, E>) -> Self {
        Self {
            state: State::Held {
                timer: (!latency.is_zero()).then(|| Box::pin(sleep(latency))),
                then: Some(then),
            },
        }
    }

    pub(super) const fn silent() -> Self {
        Self {
            state: State::Silent,
        }
    }
}

impl<S, Req, Res, E> Future for FaultFuture<S, Req, Res, E>
where
    S: Service<Req, Response = Res, Error = E>,
{
    type Output = Result<Res, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Held { timer, then } => {
                    if let Some(timer) = timer {
                        ready!(timer.as_mut().poll(cx));
                    }
                    match then.take() {
                        Some(Then::Answer(outcome)) => {
                            this.state.set(State::Silent);
                            return Poll::Ready(outcome);
                        }
                        Some(Then::Call {
                            mut service,
                            request,
                            loses,
                        }) => {
                            let inner = service.use_up().call(request);
                            this.state.set(State::Calling { inner, loses });
                        }
                        None => this.state.set(State::Silent),
                    }
                }
                StateProj::Calling { inner, loses } => {
                    let outcome = ready!(inner.poll(cx));
                    if !*loses {
                        return Poll::Ready(outcome);
                    }
                    drop(outcome);
                    this.state.set(State::Silent);
                }
                StateProj::Silent => return Poll::Pending,
            }
        }
    }
}

impl<S, Req, Res, E> fmt::Debug for FaultFuture<S, Req, Res, E>
where
    S: Service<Req>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultFuture").finish_non_exhaustive()
    }
}
