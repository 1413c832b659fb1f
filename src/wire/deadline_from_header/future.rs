use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::context::{self, DeadlineScope};
use crate::deadline::Deadline;

pin_project! {
    /// The future of a [`DeadlineFromHeaderService`](super::DeadlineFromHeaderService).
    ///
    /// Dropping it drops the inner future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use http::{Request, Response};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::DeadlineFromHeaderLayer;
    /// use tower_composure::wire::DeadlineFromHeaderFuture;
    ///
    /// let handler = service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(Response::new(())) });
    /// let mut service = DeadlineFromHeaderLayer::grpc().layer(handler);
    /// let future: DeadlineFromHeaderFuture<_> = service.ready().await?.call(Request::new(()));
    /// assert_eq!(future.await?.status(), 200);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct DeadlineFromHeaderFuture<F> {
        #[pin]
        inner: F,
        deadline: Deadline,
    }
}

impl<F> DeadlineFromHeaderFuture<F> {
    pub(super) const fn new(inner: F, deadline: Deadline) -> Self {
        Self { inner, deadline }
    }
}

/// Puts a deadline in scope at which nobody ends the call, so that a deadline layer below does. Where the one around is
/// no later, that stays in scope, and with it whoever watches it.
pub(super) fn open(own: Deadline) -> Option<DeadlineScope> {
    let outer = context::deadline();
    let narrowed = Deadline::narrowed_by(outer, own);
    (outer != narrowed).then(|| DeadlineScope::captured(narrowed))
}

impl<F: Future> Future for DeadlineFromHeaderFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _scope = open(*this.deadline);
        this.inner.poll(cx)
    }
}

impl<F> fmt::Debug for DeadlineFromHeaderFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFromHeaderFuture")
            .finish_non_exhaustive()
    }
}
