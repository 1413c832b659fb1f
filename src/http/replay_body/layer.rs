use std::task::{Context, Poll};

use ::http::Request;
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::ReplayBody;

/// Gives each request a [`ReplayBody`]. Belongs above a retry whose replay strategy is
/// [`ReplayRequest`](super::ReplayRequest). See the [module](crate::http::replay_body).
#[derive(Debug, Clone, Copy)]
pub struct ReplayBodyLayer {
    max_bytes: usize,
}

impl ReplayBodyLayer {
    /// Keeps up to 64 KiB of each body.
    pub const fn new() -> Self {
        Self {
            max_bytes: 64 * 1024,
        }
    }

    /// The most bytes of data and trailers that are kept of a body. Default 64 KiB; with 0, only an empty body can be
    /// sent again.
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
