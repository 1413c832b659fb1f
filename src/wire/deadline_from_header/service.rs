use std::task::{Context, Poll};

use ::http::Request;
use tower_service::Service;

use super::future::{DeadlineFromHeaderFuture, open};
use super::layer::Config;
use crate::deadline::Deadline;

/// Puts the deadline that a caller sent into scope. See the [module](crate::wire).
#[derive(Debug, Clone)]
pub struct DeadlineFromHeaderService<S> {
    inner: S,
    config: Config,
}

impl<S> DeadlineFromHeaderService<S> {
    pub(super) const fn new(inner: S, config: Config) -> Self {
        Self { inner, config }
    }
}

impl<S, B> Service<Request<B>> for DeadlineFromHeaderService<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = DeadlineFromHeaderFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let deadline = Deadline::after(self.config.limit(request.headers()));
        let _scope = open(deadline);
        DeadlineFromHeaderFuture::new(self.inner.call(request), deadline)
    }
}
