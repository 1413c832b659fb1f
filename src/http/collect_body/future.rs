use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::CollectedBody;
use super::gathered::Gathering;
use super::layer::When;

pin_project! {
    /// The future of a [`CollectBodyService`](super::CollectBodyService). Dropping it drops the call, or the body that
    /// is being collected.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use http::{Request, Response};
    /// use http_body_util::Full;
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::http::CollectBodyLayer;
    /// use tower_composure::http::collect_body::CollectBodyFuture;
    ///
    /// type Body = Full<bytes::Bytes>;
    /// let client = service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(Response::new(Body::from("calm"))) });
    /// let mut service = CollectBodyLayer::new().all().layer(client);
    /// let future: CollectBodyFuture<_, _> = service.ready().await?.call(Request::new(()));
    /// assert_eq!(future.await?.body().collected().unwrap(), "calm");
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct CollectBodyFuture<F, B>
    where
        B: Body,
    {
        #[pin]
        state: State<F, B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, B>
    where
        B: Body,
    {
        // Polling the inner future for the head.
        Called {
            #[pin]
            inner: F,
            max_bytes: usize,
            when: When,
        },
        // Polling the body.
        Gathering { gathering: Gathering<B> },
    }
}

impl<F, B: Body> CollectBodyFuture<F, B> {
    pub(super) const fn called(inner: F, max_bytes: usize, when: When) -> Self {
        let state = State::Called {
            inner,
            max_bytes,
            when,
        };
        Self { state }
    }
}

impl<F, B, E> Future for CollectBodyFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<CollectedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Called {
                    inner,
                    max_bytes,
                    when,
                } => {
                    let (head, body) = ready!(inner.poll(cx))?.into_parts();
                    let collects = when.says(&head);
                    let announced = usize::try_from(body.size_hint().lower());
                    if !collects || announced.map_or(true, |least| least > *max_bytes) {
                        let body = CollectedBody::as_it_came(body);
                        return Poll::Ready(Ok(Response::from_parts(head, body)));
                    }
                    if body.is_end_stream() {
                        let body = CollectedBody::empty();
                        return Poll::Ready(Ok(Response::from_parts(head, body)));
                    }
                    let gathering = Gathering::new(head, body, *max_bytes);
                    this.state.set(State::Gathering { gathering });
                }
                StateProj::Gathering { gathering } => return gathering.poll(cx).map(Ok),
            }
        }
    }
}

impl<F, B: Body> fmt::Debug for CollectBodyFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectBodyFuture").finish_non_exhaustive()
    }
}
