use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::ReplayBodyError;
use super::shared::{Begin, Shared, Source};
use crate::error::BoxError;

/// A request body that keeps what has been sent of it for the next attempt. See the [module](crate::http::replay_body).
///
/// Its data is `Bytes`: shared with what is kept where the stream's is `Bytes` too, and copied once otherwise. The bound
/// counts the bytes of data and trailers; a slice of a larger buffer keeps that buffer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use bytes::Bytes;
/// use http_body_util::{BodyExt, Full};
/// use tower_composure::http::ReplayBody;
///
/// let body = ReplayBody::new(Full::<Bytes>::from("twice"), 64 * 1024);
/// let copy = body.replay().unwrap();
/// assert_eq!(body.collect().await.unwrap().to_bytes(), "twice");
/// assert_eq!(copy.collect().await.unwrap().to_bytes(), "twice");
/// # }
/// ```
pub struct ReplayBody<B> {
    /// None: empty from the start.
    shared: Option<Arc<Shared<B>>>,
    state: State<B>,
    /// Counted from 0, the original.
    attempt: u32,
    frames_sent: usize,
    bytes_sent: u64,
    /// What the stream promised when it was wrapped, the same for every attempt: least and most bytes.
    promise: (u64, Option<u64>),
}

enum State<B> {
    Unread,
    /// An older attempt reads the stream.
    Waiting,
    Reading(Source<B>),
    /// Everything has been sent, or it has failed.
    Done,
}

impl<B: Body> ReplayBody<B> {
    /// Keeps up to this many bytes. Nothing is kept of a body that announces more, or while there is no copy.
    ///
    /// ```
    /// use http_body_util::Full;
    /// use tower_composure::http::ReplayBody;
    ///
    /// let body = ReplayBody::new(Full::<bytes::Bytes>::from("an upload"), 64 * 1024);
    /// assert!(body.is_replayable());
    /// ```
    pub fn new(body: B, max_bytes: usize) -> Self {
        if body.is_end_stream() {
            return Self::of(None, 0, (0, Some(0)));
        }
        let hint = body.size_hint();
        let promise = (hint.lower(), hint.upper());
        let lost = usize::try_from(hint.lower()).map_or(true, |least| least > max_bytes);
        let shared = Shared::new(Source::new(body, max_bytes), lost);
        Self::of(Some(Arc::new(shared)), 0, promise)
    }
}

impl<B> ReplayBody<B> {
    const fn of(shared: Option<Arc<Shared<B>>>, attempt: u32, promise: (u64, Option<u64>)) -> Self {
        Self {
            shared,
            state: State::Unread,
            attempt,
            frames_sent: 0,
            bytes_sent: 0,
            promise,
        }
    }

    /// A body for the next attempt, which sends the same from the start. `None` where a part of the stream is lost
    /// already or is known not to fit.
    ///
    /// Of several bodies that share a stream, the newest that has begun to be read gets it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use http_body_util::{BodyExt, Full};
    /// use tower_composure::http::ReplayBody;
    ///
    /// let body = ReplayBody::new(Full::<bytes::Bytes>::from("an upload"), 64 * 1024);
    /// let again = body.replay().unwrap();
    /// drop(body); // the first attempt failed
    /// assert_eq!(again.collect().await?.to_bytes(), "an upload");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn replay(&self) -> Option<Self> {
        self.is_replayable().then(|| {
            let shared = self.shared.as_ref().map(Arc::clone);
            Self::of(shared, self.attempt.saturating_add(1), self.promise)
        })
    }

    /// Whether the whole of the stream can still be sent again, as far as it has been read.
    ///
    /// ```
    /// use http_body_util::Full;
    /// use tower_composure::http::ReplayBody;
    ///
    /// let body = ReplayBody::new(Full::<bytes::Bytes>::from("an upload"), 4);
    /// assert!(!body.is_replayable()); // it announces more than four bytes
    /// ```
    pub fn is_replayable(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| !shared.is_lost())
    }

    /// Begins to read the stream where this attempt has not yet.
    fn poll_begin(&mut self, cx: &Context<'_>) -> Poll<Result<(), ReplayBodyError>> {
        let (Some(shared), State::Unread | State::Waiting) = (&self.shared, &self.state) else {
            return Poll::Ready(Ok(()));
        };
        match shared.begin(self.attempt, cx.waker()) {
            Begin::Read(source) => {
                self.state = State::Reading(source);
                Poll::Ready(Ok(()))
            }
            Begin::Wait => {
                self.state = State::Waiting;
                Poll::Pending
            }
            Begin::Failed(error) => {
                self.state = State::Done;
                Poll::Ready(Err(error))
            }
        }
    }

    /// Lets go of the stream.
    fn finish(&mut self) {
        if let State::Reading(source) = mem::replace(&mut self.state, State::Done) {
            if let Some(shared) = &self.shared {
                shared.give_back(source);
            }
        }
    }
}

/// The next frame of the stream that an attempt has not sent yet, a kept one or a new one. After its end or an error,
/// the attempt lets go of the stream.
fn poll_source<B>(
    shared: &Arc<Shared<B>>,
    source: &mut Source<B>,
    attempt: u32,
    sent: usize,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    if let Some(frame) = source.kept(sent) {
        return Poll::Ready(Some(Ok(frame)));
    }
    let Some(body) = &mut source.body else {
        return Poll::Ready(None);
    };
    // Then nobody can ask for what would be kept: only this body leads to the stream, and it is being polled.
    let alone = Arc::strong_count(shared) == 1;
    match body.as_mut().poll_frame(cx) {
        Poll::Ready(Some(Ok(frame))) => {
            let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
            if source.is_whole() {
                if alone {
                    source.lose();
                } else {
                    source.keep(&frame);
                }
                if !source.is_whole() {
                    shared.lose();
                }
            }
            Poll::Ready(Some(Ok(frame)))
        }
        Poll::Ready(Some(Err(error))) => {
            source.lose();
            Poll::Ready(Some(Err(error.into())))
        }
        Poll::Ready(None) => {
            source.body = None;
            Poll::Ready(None)
        }
        Poll::Pending if !alone && shared.is_wanted(attempt, cx.waker()) => {
            Poll::Ready(Some(Err(ReplayBodyError::SUPERSEDED.into())))
        }
        Poll::Pending => Poll::Pending,
    }
}

impl<B> Body for ReplayBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Err(error) = ready!(this.poll_begin(cx)) {
            return Poll::Ready(Some(Err(error.into())));
        }
        let (Some(shared), State::Reading(source)) = (&this.shared, &mut this.state) else {
            return Poll::Ready(None);
        };
        let kept = this.frames_sent < source.len();
        let frame = ready!(poll_source(
            shared,
            source,
            this.attempt,
            this.frames_sent,
            cx
        ));
        if let Some(Ok(frame)) = &frame {
            this.frames_sent = if kept {
                this.frames_sent.saturating_add(1)
            } else {
                source.len()
            };
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            this.bytes_sent = this.bytes_sent.saturating_add(bytes);
        } else {
            this.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        if self.shared.is_none() {
            return true;
        }
        match &self.state {
            State::Unread | State::Waiting => false,
            State::Reading(source) => {
                let rest = source.body.as_ref();
                self.frames_sent >= source.len() && rest.is_none_or(Body::is_end_stream)
            }
            State::Done => true,
        }
    }

    /// What the stream promised at first less what this attempt has sent, so that every attempt announces the same
    /// length, or none.
    fn size_hint(&self) -> SizeHint {
        if self.is_end_stream() {
            return SizeHint::with_exact(0);
        }
        let (least, most) = self.promise;
        let least = least.saturating_sub(self.bytes_sent);
        let mut hint = SizeHint::new();
        if let Some(most) = most {
            hint.set_upper(most.saturating_sub(self.bytes_sent).max(least));
        }
        hint.set_lower(least);
        hint
    }
}

/// The stream goes to the next attempt.
impl<B> Drop for ReplayBody<B> {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        match mem::replace(&mut self.state, State::Done) {
            State::Reading(source) if Arc::strong_count(&shared) > 1 => shared.give_back(source),
            State::Waiting => shared.stop_waiting(self.attempt),
            State::Unread | State::Reading(_) | State::Done => {}
        }
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBody").finish_non_exhaustive()
    }
}
