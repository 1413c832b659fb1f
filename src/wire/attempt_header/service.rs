use std::task::{Context, Poll};

use ::http::{HeaderName, Request};
use tower_service::Service;

use super::Numbering;
use crate::attempt::Attempt;

/// Tells the server which attempt a request is. See the [module](crate::wire).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::wire::AttemptHeaderService;
/// use tower_composure::{AttemptHeaderLayer, HttpPolicy, RetryLayer};
///
/// let client = service_fn(|request: Request<()>| async move {
///     Ok::<_, std::io::Error>(Response::new(request.headers()["x-envoy-attempt-count"].clone()))
/// });
/// let service: AttemptHeaderService<_> = AttemptHeaderLayer::envoy().layer(client);
/// let service = RetryLayer::new(HttpPolicy::new()).layer(service);
/// assert_eq!(service.oneshot(Request::new(())).await?.into_body(), "1");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct AttemptHeaderService<S> {
    inner: S,
    header: HeaderName,
    numbering: Numbering,
}

impl<S> AttemptHeaderService<S> {
    pub(super) const fn new(inner: S, header: HeaderName, numbering: Numbering) -> Self {
        Self {
            inner,
            header,
            numbering,
        }
    }
}

impl<S, B> Service<Request<B>> for AttemptHeaderService<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(attempt) = Attempt::current() {
            // Whatever is there is about another attempt, or about the one that a caller of ours makes.
            let headers = request.headers_mut();
            match self.numbering.value(attempt.number()) {
                // A request without room for it goes without one.
                Some(value) => drop(headers.try_insert(&self.header, value)),
                None => drop(headers.remove(&self.header)),
            }
        }
        self.inner.call(request)
    }
}
