use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::gathered::{Gathered, into_bytes};

pin_project! {
    /// A response body that may have been collected. See the [module](crate::http::collect_body).
    ///
    /// As a body it gives everything that the service's body gave, collected or not: data, trailers, and the error that
    /// ended it, in their order. What was collected whole is one frame. Its data is `Bytes`.
    ///
    /// ```
    /// use http::Response;
    /// use tower_composure::http::CollectedBody;
    ///
    /// fn says_so<B: http_body::Body>(response: &Response<CollectedBody<B>>) -> bool {
    ///     response.body().collected().is_some_and(|body| body.starts_with(b"overloaded"))
    /// }
    /// ```
    pub struct CollectedBody<B>
    where
        B: Body,
    {
        #[pin]
        state: State<B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<B>
    where
        B: Body,
    {
        // Not collected.
        AsItCame {
            #[pin]
            body: B,
        },
        // Read in part or whole.
        Gathered { gathered: Gathered<B> },
    }
}

impl<B: Body> CollectedBody<B> {
    pub(super) const fn as_it_came(body: B) -> Self {
        let state = State::AsItCame { body };
        Self { state }
    }

    pub(super) const fn gathered(gathered: Gathered<B>) -> Self {
        let state = State::Gathered { gathered };
        Self { state }
    }

    pub(super) const fn empty() -> Self {
        Self::gathered(Gathered::empty())
    }

    /// All of the body's data, whether or not it has been read since. `None` where the body was not to be collected, is
    /// larger than the bound, or broke off.
    ///
    /// ```
    /// use http_body_util::Full;
    /// use tower_composure::http::CollectedBody;
    ///
    /// fn length(body: &CollectedBody<Full<bytes::Bytes>>) -> Option<usize> {
    ///     body.collected().map(bytes::Bytes::len)
    /// }
    /// ```
    pub const fn collected(&self) -> Option<&Bytes> {
        match &self.state {
            State::Gathered { gathered } => gathered.whole(),
            State::AsItCame { .. } => None,
        }
    }

    /// The error that ended the body while it was collected. `None` once it has been read.
    ///
    /// ```
    /// use http_body::Body;
    /// use tower_composure::http::CollectedBody;
    ///
    /// fn broke_off<B: Body>(body: &CollectedBody<B>) -> bool {
    ///     body.error().is_some()
    /// }
    /// ```
    pub const fn error(&self) -> Option<&B::Error> {
        match &self.state {
            State::Gathered { gathered } => gathered.error(),
            State::AsItCame { .. } => None,
        }
    }
}

impl<B: Body> Body for CollectedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().state.project() {
            StateProj::AsItCame { body } => {
                let frame = body.poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map(into_bytes)))
            }
            StateProj::Gathered { gathered } => gathered.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::AsItCame { body } => body.is_end_stream(),
            State::Gathered { gathered } => gathered.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::AsItCame { body } => body.size_hint(),
            State::Gathered { gathered } => gathered.size_hint(),
        }
    }
}

impl<B: Body> fmt::Debug for CollectedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectedBody").finish_non_exhaustive()
    }
}
