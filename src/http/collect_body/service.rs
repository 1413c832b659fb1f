use std::fmt;
use std::task::{Context, Poll};

use ::http::Response;
use http_body::Body;
use tower_service::Service;

use super::layer::When;
use super::{CollectBodyFuture, CollectedBody};

/// Collects the bodies of responses, so that a policy can look at them. See the [module](crate::http::collect_body).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::http::CollectBodyLayer;
/// use tower_composure::http::collect_body::CollectBodyService;
///
/// type Body = Full<bytes::Bytes>;
/// let client = service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(Response::new(Body::from("calm"))) });
/// let service: CollectBodyService<_> = CollectBodyLayer::new().all().layer(client);
/// assert_eq!(service.oneshot(Request::new(())).await?.body().collected().unwrap(), "calm");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CollectBodyService<S> {
    inner: S,
    max_bytes: usize,
    when: When,
}

impl<S> CollectBodyService<S> {
    pub(super) const fn new(inner: S, max_bytes: usize, when: When) -> Self {
        Self {
            inner,
            max_bytes,
            when,
        }
    }
}

impl<S, Req, B> Service<Req> for CollectBodyService<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body,
{
    type Response = Response<CollectedBody<B>>;
    type Error = S::Error;
    type Future = CollectBodyFuture<S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let inner = self.inner.call(request);
        CollectBodyFuture::called(inner, self.max_bytes, self.when.clone())
    }
}

impl<S: fmt::Debug> fmt::Debug for CollectBodyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectBodyService")
            .field("inner", &self.inner)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}
