use std::task::{Context, Poll};
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, Request};
use tower_service::Service;

use super::future::DeadlineHeaderFuture;
use crate::clock;
use crate::deadline::Deadline;
use crate::error::BoxError;
use crate::ready::Ready;
use crate::wire::{TimeoutFormat, shortest};

/// Tells the server how much time is left before the deadline in scope. See the [module](crate::wire).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Request, Response};
/// use std::time::Duration;
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::wire::DeadlineHeaderService;
/// use tower_composure::{DeadlineHeaderLayer, DeadlineLayer};
///
/// let client = service_fn(|request: Request<()>| async move {
///     Ok::<_, std::io::Error>(Response::new(request.headers()["grpc-timeout"].clone()))
/// });
/// let service: DeadlineHeaderService<_> = DeadlineHeaderLayer::grpc().layer(client);
/// let service = DeadlineLayer::call(Duration::from_secs(8)).layer(service);
/// assert_eq!(service.oneshot(Request::new(())).await?.into_body(), "8000000u");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DeadlineHeaderService<S> {
    inner: Ready<S>,
    header: HeaderName,
    format: TimeoutFormat,
}

impl<S> DeadlineHeaderService<S> {
    pub(super) fn new(inner: S, header: HeaderName, format: TimeoutFormat) -> Self {
        Self {
            inner: Ready::new(inner),
            header,
            format,
        }
    }

    /// Writes what is left, or what the caller has put there where that is less. False where there is nothing left.
    fn write(&self, headers: &mut HeaderMap, remaining: Duration) -> bool {
        let given = shortest(headers, &self.header, self.format);
        let least = given.map_or(remaining, |given| given.min(remaining));
        let Some(value) = self.format.write(least) else {
            return false;
        };
        // A request without room for it goes without one.
        let _ = headers.try_insert(&self.header, value);
        true
    }
}

impl<S, B> Service<Request<B>> for DeadlineHeaderService<S>
where
    S: Service<Request<B>> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = DeadlineHeaderFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let deadline = Deadline::current();
        if let Some(deadline) = deadline {
            let remaining = deadline.remaining_at(clock::now());
            if !self.write(request.headers_mut(), remaining) {
                self.inner.release();
                return DeadlineHeaderFuture::passed(deadline);
            }
        }
        DeadlineHeaderFuture::called(self.inner.use_up().call(request), deadline)
    }
}
