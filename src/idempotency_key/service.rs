use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request};
use tower_service::Service;

use super::MakeKey;
use super::layer::Config;
use crate::context;
use crate::http::{Head, is_given};

/// Gives each write one idempotency key. See the [module](crate::idempotency_key).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::IdempotencyKeyLayer;
/// use tower_composure::idempotency_key::{IdempotencyKeyService, RandomKey};
///
/// let client = service_fn(|request: Request<()>| async move {
///     Ok::<_, std::io::Error>(Response::new(request.headers().contains_key("idempotency-key")))
/// });
/// let service: IdempotencyKeyService<_, RandomKey> = IdempotencyKeyLayer::new().layer(client);
/// assert!(service.oneshot(Request::post("/charges").body(())?).await?.into_body());
/// # Ok(()) }
/// ```
pub struct IdempotencyKeyService<S, M> {
    inner: S,
    config: Arc<Config<M>>,
}

impl<S, M> IdempotencyKeyService<S, M> {
    pub(super) const fn new(inner: S, config: Arc<Config<M>>) -> Self {
        Self { inner, config }
    }
}

impl<S, M, B> Service<Request<B>> for IdempotencyKeyService<S, M>
where
    S: Service<Request<B>>,
    M: MakeKey<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        self.config.apply(&mut request);
        self.inner.call(request)
    }
}

#[cfg(feature = "reqwest")]
impl<S, M> Service<reqwest::Request> for IdempotencyKeyService<S, M>
where
    S: Service<reqwest::Request>,
    M: MakeKey<reqwest::Request>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: reqwest::Request) -> S::Future {
        self.config.apply(&mut request);
        self.inner.call(request)
    }
}

impl<M> Config<M> {
    /// Gives a request the key it is to have.
    fn apply<R: Head>(&self, request: &mut R)
    where
        M: MakeKey<R>,
    {
        let wants_key = self.methods.contains(request.method());
        if !wants_key && self.watch.is_none() {
            return;
        }
        // A header without a value is no key; anything else in it is the caller's.
        if is_given(request.headers(), &self.header) {
            self.tell(false);
        } else if wants_key {
            self.give(request);
        }
    }

    fn give<R: Head>(&self, request: &mut R)
    where
        M: MakeKey<R>,
    {
        let mut minted = false;
        let key = context::claim_key(|| {
            minted = true;
            self.make.make_key(request)
        });
        self.tell(minted);
        if let Some(mut value) = self.format.value(&key) {
            HeaderValue::set_sensitive(&mut value, true);
            // A request without room for it goes without one.
            let _ = request.headers_mut().try_insert(self.header.clone(), value);
        }
    }

    fn tell(&self, minted: bool) {
        if let Some(watch) = &self.watch {
            watch.tell_key(minted);
        }
    }
}

impl<S: Clone, M> Clone for IdempotencyKeyService<S, M> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.config))
    }
}

impl<S: fmt::Debug, M> fmt::Debug for IdempotencyKeyService<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyKeyService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
