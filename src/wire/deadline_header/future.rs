use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::context;
use crate::deadline::{Deadline, DeadlineExceeded, Expired};
use crate::error::BoxError;

pin_project! {
    /// The future of a [`DeadlineHeaderService`](super::DeadlineHeaderService).
    ///
    /// Dropping it drops the inner future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use http::{Request, Response};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::DeadlineHeaderLayer;
    /// use tower_composure::wire::DeadlineHeaderFuture;
    ///
    /// let client = service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(Response::new(())) });
    /// let mut service = DeadlineHeaderLayer::grpc().layer(client);
    /// let future: DeadlineHeaderFuture<_> = service.ready().await?.call(Request::new(()));
    /// assert_eq!(future.await?.status(), 200);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct DeadlineHeaderFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        // Polling the inner future.
        Called {
            #[pin]
            inner: F,
            deadline: Option<Deadline>,
        },
        // Nothing that could be written was left, so nothing was sent.
        Passed { deadline: Deadline },
        // The layer that set the deadline answers in our place.
        Late,
    }
}

/// The resolution of tokio's timers, and the coarsest that a header is rounded to.
const TICK: Duration = Duration::from_millis(1);

impl<F> DeadlineHeaderFuture<F> {
    pub(super) const fn called(inner: F, deadline: Option<Deadline>) -> Self {
        Self {
            state: State::Called { inner, deadline },
        }
    }

    pub(super) const fn passed(deadline: Deadline) -> Self {
        Self {
            state: State::Passed { deadline },
        }
    }
}

impl<F, T, E> Future for DeadlineHeaderFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        match this.state.as_mut().project() {
            StateProj::Called { inner, deadline } => {
                let outcome = ready!(inner.poll(cx));
                if outcome.is_err() && deadline.is_some_and(is_over) {
                    this.state.set(State::Late);
                    return Poll::Pending;
                }
                Poll::Ready(outcome.map_err(Into::into))
            }
            StateProj::Passed { deadline } => {
                let error = DeadlineExceeded::before_call(deadline.limit());
                context::mark_expired(Expired {
                    called: false,
                    absolute: context::is_absolute(),
                });
                Poll::Ready(Err(error.into()))
            }
            StateProj::Late => Poll::Pending,
        }
    }
}

/// Whether the layer that set this deadline is polling us and about to end the call. A client that reads the header too,
/// as tonic's channel does, has a timer that ends in the same tick, and which of the two is seen first is chance.
#[cold]
fn is_over(deadline: Deadline) -> bool {
    context::is_watched(deadline) && deadline.remaining() < TICK
}

impl<F> fmt::Debug for DeadlineHeaderFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineHeaderFuture")
            .finish_non_exhaustive()
    }
}
