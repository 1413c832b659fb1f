use std::task::{Context, Poll};

use ::http::Request;
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::ReplayBody;

/// Gives each request a [`ReplayBody`]. Belongs above a retry whose replay strategy is
/// [`ReplayRequest`](super::ReplayRequest). See the [module](crate::http::replay_body).
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_composure::http::{ReplayBodyLayer, ReplayRequest};
/// use tower_composure::{HttpPolicy, Stack};
///
/// let stack = Stack::builder(HttpPolicy::new()).replay(ReplayRequest).build()?;
/// let layers = ServiceBuilder::new().layer(ReplayBodyLayer::new()).layer(stack);
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ReplayBodyLayer {
    max_bytes: usize,
}

impl ReplayBodyLayer {
    /// Keeps up to 64 KiB of each body.
    ///
    /// ```
    /// use tower_composure::http::ReplayBodyLayer;
    ///
    /// let layer = ReplayBodyLayer::new();
    /// ```
    pub const fn new() -> Self {
        Self {
            max_bytes: 64 * 1024,
        }
    }

    /// The most bytes of data and trailers that are kept of a body. Default 64 KiB; with 0, only an empty body can be
    /// sent again.
    ///
    /// ```
    /// use tower_composure::http::ReplayBodyLayer;
    ///
    /// let layer = ReplayBodyLayer::new().max_bytes(1024 * 1024);
    /// ```
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

impl Default for ReplayBodyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ReplayBodyLayer {
    type Service = ReplayBodyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ReplayBodyService {
            inner,
            max_bytes: self.max_bytes,
        }
    }
}

/// Gives each request a [`ReplayBody`]. See the [module](crate::http::replay_body).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::http::replay_body::ReplayBodyService;
/// use tower_composure::http::{ReplayBody, ReplayBodyLayer};
///
/// type Body = Full<bytes::Bytes>;
/// let client = service_fn(|_: Request<ReplayBody<Body>>| async { Ok::<_, std::io::Error>(Response::new(())) });
/// let service: ReplayBodyService<_> = ReplayBodyLayer::new().layer(client);
/// assert_eq!(service.oneshot(Request::new(Body::from("an upload"))).await?.status(), 200);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct ReplayBodyService<S> {
    inner: S,
    max_bytes: usize,
}

impl<S, B> Service<Request<B>> for ReplayBodyService<S>
where
    S: Service<Request<ReplayBody<B>>>,
    B: Body,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let max_bytes = self.max_bytes;
        self.inner
            .call(request.map(|body| ReplayBody::new(body, max_bytes)))
    }
}
