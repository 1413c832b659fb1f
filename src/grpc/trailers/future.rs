use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::body::Peeked;
use crate::grpc::status::STATUS;

pin_project! {
    /// The future of a [`PeekStatusService`](super::PeekStatusService).
    ///
    /// Dropping it drops the inner future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use http::{Request, Response};
    /// use http_body_util::Empty;
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::grpc::{PeekStatusFuture, PeekStatusLayer};
    ///
    /// type Body = Empty<&'static [u8]>;
    /// let channel = service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(Response::new(Body::new())) });
    /// let mut service = PeekStatusLayer::new().layer(channel);
    /// let future: PeekStatusFuture<_> = service.ready().await?.call(Request::new(()));
    /// assert!(future.await.is_ok());
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct PeekStatusFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F> PeekStatusFuture<F> {
    pub(super) const fn new(inner: F) -> Self {
        Self { inner }
    }
}

impl<F, B, E> Future for PeekStatusFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body + Unpin,
{
    type Output = Result<Response<Peeked<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(self.project().inner.poll(cx))?;
        if response.headers().contains_key(STATUS) {
            return Poll::Ready(Ok(response.map(Peeked::untouched)));
        }
        let (mut parts, body) = response.into_parts();
        let (body, status) = Peeked::at(body, cx);
        if let Some(status) = status {
            parts.extensions.insert(status);
        }
        Poll::Ready(Ok(Response::from_parts(parts, body)))
    }
}

impl<F> fmt::Debug for PeekStatusFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeekStatusFuture").finish_non_exhaustive()
    }
}
