use std::task::{Context, Poll};

use ::http::Request;
use tower_service::Service;

use super::future::{DeadlineFromHeaderFuture, open};
use super::layer::Config;
use crate::deadline::Deadline;

/// Puts the deadline that a caller sent into scope. See the [module](crate::wire).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Request, Response};
/// use std::time::Duration;
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::wire::DeadlineFromHeaderService;
/// use tower_composure::{Deadline, DeadlineFromHeaderLayer};
///
/// let handler = service_fn(|_: Request<()>| async {
///     Ok::<_, std::io::Error>(Response::new(Deadline::current().unwrap().remaining()))
/// });
/// let service: DeadlineFromHeaderService<_> = DeadlineFromHeaderLayer::grpc().layer(handler);
/// let request = Request::builder().header("grpc-timeout", "2S").body(())?;
/// assert_eq!(service.oneshot(request).await?.into_body(), Duration::from_secs(2));
/// # Ok(()) }
/// ```
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
