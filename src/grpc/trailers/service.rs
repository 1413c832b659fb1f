use std::task::{Context, Poll};

use ::http::Response;
use http_body::Body;
use tower_service::Service;

use super::body::Peeked;
use super::future::PeekStatusFuture;

/// Finds the status of an answer whose trailers came with its headers. See the [module](crate::grpc).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::grpc::{PeekStatusLayer, PeekStatusService};
///
/// type Body = Empty<&'static [u8]>;
/// let channel = service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(Response::new(Body::new())) });
/// let service: PeekStatusService<_> = PeekStatusLayer::new().layer(channel);
/// assert_eq!(service.oneshot(Request::new(())).await?.status(), 200);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PeekStatusService<S> {
    inner: S,
}

impl<S> PeekStatusService<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, Req, B> Service<Req> for PeekStatusService<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body + Unpin,
{
    type Response = Response<Peeked<B>>;
    type Error = S::Error;
    type Future = PeekStatusFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        PeekStatusFuture::new(self.inner.call(request))
    }
}
