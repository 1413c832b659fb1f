use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use crate::grpc::status::Status;

/// A body whose first frame may have been looked at; whoever reads it gets that frame first.
///
/// ```
/// use http::Response;
/// use http_body::Body;
/// use http_body_util::BodyExt;
/// use tower_composure::grpc::Peeked;
///
/// async fn read<B>(response: Response<Peeked<B>>) -> Result<usize, B::Error>
/// where
///     B: Body<Data = bytes::Bytes> + Unpin,
/// {
///     Ok(response.into_body().collect().await?.to_bytes().len())
/// }
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub struct Peeked<B: Body> {
    first: First<B>,
    body: B,
}

enum First<B: Body> {
    /// Nothing has been taken from the body.
    Untouched,
    Taken(Result<Frame<B::Data>, B::Error>),
    /// The body had ended.
    Ended,
}

impl<B: Body + Unpin> Peeked<B> {
    pub(super) const fn untouched(body: B) -> Self {
        Self {
            first: First::Untouched,
            body,
        }
    }

    /// Looks at the first frame, if it is there by now, and at the status in it, if it is the last.
    pub(super) fn at(mut body: B, cx: &mut Context<'_>) -> (Self, Option<Status>) {
        let (first, status) = match Pin::new(&mut body).poll_frame(cx) {
            Poll::Pending => (First::Untouched, None),
            Poll::Ready(None) => (First::Ended, Some(Status::MISSING)),
            Poll::Ready(Some(frame)) => {
                let trailers = frame.as_ref().ok().and_then(Frame::trailers_ref);
                let status = trailers.map(|fields| Status::read(fields).unwrap_or(Status::MISSING));
                (First::Taken(frame), status)
            }
        };
        (Self { first, body }, status)
    }
}

// The frame that was taken is never pinned.
impl<B: Body + Unpin> Unpin for Peeked<B> {}

impl<B: Body + Unpin> Body for Peeked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match mem::replace(&mut self.first, First::Untouched) {
            First::Untouched => Pin::new(&mut self.body).poll_frame(cx),
            First::Taken(frame) => Poll::Ready(Some(frame)),
            First::Ended => {
                self.first = First::Ended;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.first {
            First::Untouched => self.body.is_end_stream(),
            First::Taken(_) => false,
            First::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        if let First::Taken(Ok(frame)) = &self.first {
            let taken = frame.data_ref().map_or(0, Buf::remaining);
            let taken = u64::try_from(taken).unwrap_or(u64::MAX);
            let upper = hint.upper();
            // The upper bound first: the lower one may not be above it.
            if let Some(upper) = upper {
                hint.set_upper(upper.saturating_add(taken));
            }
            hint.set_lower(hint.lower().saturating_add(taken));
        }
        hint
    }
}

impl<B: Body> fmt::Debug for Peeked<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peeked").finish_non_exhaustive()
    }
}
