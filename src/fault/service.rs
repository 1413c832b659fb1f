use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::future::{FaultFuture, Then};
use super::layer::Shared;
use super::schedule::Kind;
use crate::ready::Ready;

/// A service that meets faults on a schedule. See the [module](crate::fault).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::fault::{FaultLayer, FaultService};
///
/// let inner = service_fn(|id: u64| async move { Ok::<u64, std::io::Error>(id) });
/// let service: FaultService<_, _, _, _> = FaultLayer::builder().build()?.layer(inner);
/// assert_eq!(service.oneshot(7).await?, 7);
/// # Ok(()) }
/// ```
pub struct FaultService<S, Req, Res, E> {
    inner: Ready<S>,
    shared: Arc<Shared<Req, Res, E>>,
}

impl<S, Req, Res, E> FaultService<S, Req, Res, E> {
    pub(super) const fn new(inner: S, shared: Arc<Shared<Req, Res, E>>) -> Self {
        Self {
            inner: Ready::new(inner),
            shared,
        }
    }
}

impl<S, Req, Res, E> Service<Req> for FaultService<S, Req, Res, E>
where
    S: Service<Req, Response = Res, Error = E> + Clone,
{
    type Response = Res;
    type Error = E;
    type Future = FaultFuture<S, Req, Res, E>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let Some(window) = self.shared.meets() else {
            return FaultFuture::calling(self.inner.use_up().call(request), false);
        };
        let latency = window.latency_of();
        let loses = match window.kind() {
            Kind::Pass => false,
            Kind::LoseAnswer => true,
            Kind::Hang => {
                self.inner.release();
                return FaultFuture::silent();
            }
            Kind::Answer(answer) => {
                self.inner.release();
                return FaultFuture::held(latency, Then::Answer(answer(&request)));
            }
        };
        if latency.is_zero() {
            return FaultFuture::calling(self.inner.use_up().call(request), loses);
        }
        // The instance that is ready waits with its request; its clone takes its place.
        let clone = self.inner.clone();
        let service = mem::replace(&mut self.inner, clone);
        FaultFuture::held(
            latency,
            Then::Call {
                service,
                request,
                loses,
            },
        )
    }
}

/// Readiness counts for one instance and one call; a clone starts without it.
impl<S: Clone, Req, Res, E> Clone for FaultService<S, Req, Res, E> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S: fmt::Debug, Req, Res, E> fmt::Debug for FaultService<S, Req, Res, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
