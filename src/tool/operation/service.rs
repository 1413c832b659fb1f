use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::layer::Plan;
use super::{request, response};
use crate::clock;
use crate::idempotency_key::IdempotencyKey;
use crate::ready::Ready;
use crate::tool::{ToolCall, ToolResponse, codes};

/// An HTTP client as a tool. See the [module](super).
///
/// The client takes requests whose body is bytes (`tower`'s `map_request` makes another body of them), and answers with
/// a body that has been read to its end.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use http::{Method, Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::tool::operation::HttpTool;
/// use tower_composure::tool::{HttpOperation, ToolCall};
///
/// let client = service_fn(|_: Request<Vec<u8>>| async { Ok::<_, std::io::Error>(Response::new(Vec::<u8>::new())) });
/// let tool: HttpTool<_> = HttpOperation::new(Method::POST, "https://shop.test/charges")?.layer(client);
/// assert_eq!(tool.oneshot(ToolCall::new("charge").arg("order", 7)).await?["status"], "ok");
/// # Ok(()) }
/// ```
pub struct HttpTool<S> {
    inner: Ready<S>,
    plan: Arc<Plan>,
}

impl<S> HttpTool<S> {
    pub(super) const fn new(inner: S, plan: Arc<Plan>) -> Self {
        Self {
            inner: Ready::new(inner),
            plan,
        }
    }
}

impl<S, A> Service<ToolCall> for HttpTool<S>
where
    S: Service<Request<Vec<u8>>, Response = Response<A>> + Clone,
    A: AsRef<[u8]>,
{
    type Response = ToolResponse;
    type Error = S::Error;
    type Future = HttpToolFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        let key = call.key.or_else(IdempotencyKey::current);
        let state = if let Some(request) = request::of(&self.plan, call.args, key.as_ref()) {
            State::Called {
                inner: self.inner.use_up().call(request),
            }
        } else {
            self.inner.release();
            State::Refused
        };
        HttpToolFuture { state }
    }
}

pin_project! {
    /// The future of an [`HttpTool`].
    ///
    /// Dropping it drops the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use http::{Method, Request, Response};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::tool::operation::HttpToolFuture;
    /// use tower_composure::tool::{HttpOperation, ToolCall};
    ///
    /// let client = service_fn(|_: Request<Vec<u8>>| async { Ok::<_, std::io::Error>(Response::new(Vec::<u8>::new())) });
    /// let mut tool = HttpOperation::new(Method::GET, "https://shop.test/orders")?.layer(client);
    /// let future: HttpToolFuture<_> = tool.ready().await?.call(ToolCall::new("orders"));
    /// assert_eq!(future.await?["status"], "ok");
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct HttpToolFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        // Polling the client's future.
        Called {
            #[pin]
            inner: F,
        },
        // The arguments make no request; the client has not been called.
        Refused,
    }
}

impl<F, A, E> Future for HttpToolFuture<F>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: AsRef<[u8]>,
{
    type Output = Result<ToolResponse, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Called { inner } => {
                let outcome = ready!(inner.poll(cx));
                Poll::Ready(outcome.map(|response| response::map(&response, clock::wall)))
            }
            StateProj::Refused => Poll::Ready(Ok(codes::failure("INVALID_ARGUMENT"))),
        }
    }
}

/// Readiness counts for one instance and one call; a clone starts without it.
impl<S: Clone> Clone for HttpTool<S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            plan: Arc::clone(&self.plan),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for HttpTool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTool")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for HttpToolFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpToolFuture").finish_non_exhaustive()
    }
}
