//! What has been read of a body, and how it goes on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::Response;
use ::http::response::Parts;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::CollectedBody;

/// A body that was read in part or whole, and is given on in the order in which it came.
pub(super) struct Gathered<B: Body> {
    whole: Option<Bytes>,
    frames: VecDeque<Frame<Bytes>>,
    rest: Rest<B>,
}

/// What follows the frames that have been read.
enum Rest<B: Body> {
    End,
    Error(B::Error),
    Stream(Pin<Box<B>>),
}

impl<B: Body> Gathered<B> {
    pub(super) const fn empty() -> Self {
        Self {
            whole: Some(Bytes::new()),
            frames: VecDeque::new(),
            rest: Rest::End,
        }
    }

    /// All of the data, where all has come.
    pub(super) const fn whole(&self) -> Option<&Bytes> {
        self.whole.as_ref()
    }

    /// The error that ended it while it was read, and has not been given on yet.
    pub(super) const fn error(&self) -> Option<&B::Error> {
        match &self.rest {
            Rest::Error(error) => Some(error),
            Rest::End | Rest::Stream(_) => None,
        }
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Rest::Stream(body) = &mut self.rest {
            let frame = body.as_mut().poll_frame(cx);
            return frame.map(|frame| frame.map(|frame| frame.map(into_bytes)));
        }
        match std::mem::replace(&mut self.rest, Rest::End) {
            Rest::Error(error) => Poll::Ready(Some(Err(error))),
            Rest::End | Rest::Stream(_) => Poll::Ready(None),
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let over = match &self.rest {
            Rest::End => true,
            Rest::Error(_) => false,
            Rest::Stream(body) => body.is_end_stream(),
        };
        over && self.frames.is_empty()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let read = data(&self.frames).fold(0_u64, |sum, data| {
            sum.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX))
        });
        let (least, most) = match &self.rest {
            Rest::End => (0, Some(0)),
            Rest::Error(_) => (0, None),
            Rest::Stream(body) => {
                let hint = body.size_hint();
                (hint.lower(), hint.upper())
            }
        };
        let mut hint = SizeHint::new();
        if let Some(most) = most {
            hint.set_upper(read.saturating_add(most));
        }
        hint.set_lower(read.saturating_add(least));
        hint
    }
}

/// A body that is being read, and the head that waits for it.
///
/// The body is boxed, because a caller may get the rest of it: it moves there although it has been polled.
pub(super) struct Gathering<B: Body> {
    head: Option<Parts>,
    body: Option<Pin<Box<B>>>,
    frames: VecDeque<Frame<Bytes>>,
    bytes_left: usize,
}

/// A body that is always ready would hold its thread, and an empty frame counts against no bound in bytes: after this
/// many frames in one poll, others have their turn.
const FRAMES_A_POLL: u32 = 64;

impl<B: Body> Gathering<B> {
    pub(super) fn new(head: Parts, body: B, max_bytes: usize) -> Self {
        Self {
            head: Some(head),
            body: Some(Box::pin(body)),
            frames: VecDeque::new(),
            bytes_left: max_bytes,
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response<CollectedBody<B>>> {
        for _ in 0..FRAMES_A_POLL {
            let Some(body) = &mut self.body else {
                return Poll::Pending;
            };
            match body.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if !self.keep(into_bytes(frame)) {
                        return self.over(|body| Rest::Stream(body));
                    }
                }
                Poll::Ready(Some(Err(error))) => return self.over(|_| Rest::Error(error)),
                Poll::Ready(None) => return self.over(|_| Rest::End),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Keeps a frame. Whether the bound allows more.
    fn keep(&mut self, frame: Frame<Bytes>) -> bool {
        let length = frame.data_ref().map(Bytes::len);
        if length == Some(0) {
            return true;
        }
        self.frames.push_back(frame);
        let left = self.bytes_left.checked_sub(length.unwrap_or(0));
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Nothing more is collected: the response can go up.
    fn over(
        &mut self,
        rest: impl FnOnce(Pin<Box<B>>) -> Rest<B>,
    ) -> Poll<Response<CollectedBody<B>>> {
        let (Some(mut head), Some(body)) = (self.head.take(), self.body.take()) else {
            return Poll::Pending;
        };
        let mut frames = std::mem::take(&mut self.frames);
        let rest = rest(body);
        let whole = matches!(rest, Rest::End).then(|| join(&mut frames));
        if matches!(rest, Rest::Error(_)) {
            head.extensions.insert(Broken);
        }
        let body = CollectedBody::gathered(Gathered {
            whole,
            frames,
            rest,
        });
        Poll::Ready(Response::from_parts(head, body))
    }
}

/// Makes one frame of all data. The trailers follow it, as they did.
fn join(frames: &mut VecDeque<Frame<Bytes>>) -> Bytes {
    let (mut pieces, mut length) = (0_u32, 0_usize);
    for data in data(frames) {
        pieces = pieces.saturating_add(1);
        length = length.saturating_add(data.len());
    }
    if pieces <= 1 {
        return data(frames).next().cloned().unwrap_or_default();
    }
    let mut joined = Vec::with_capacity(length);
    for _ in 0..frames.len() {
        match frames.pop_front().map(Frame::into_data) {
            Some(Ok(data)) => joined.extend_from_slice(&data),
            // Once round, so that it is where it was among the others.
            Some(Err(trailers)) => frames.push_back(trailers),
            None => break,
        }
    }
    let joined = Bytes::from(joined);
    frames.push_front(Frame::data(joined.clone()));
    joined
}

fn data(frames: &VecDeque<Frame<Bytes>>) -> impl Iterator<Item = &Bytes> {
    frames.iter().filter_map(Frame::data_ref)
}

pub(super) fn into_bytes<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}

/// In the extensions of a response whose body ended with an error while it was collected. It reaches the policy
/// through whatever lies between, and whatever has been done to the body's type.
#[derive(Debug, Clone, Copy)]
struct Broken;

/// Whether the body broke off while it was collected.
pub(in crate::http) fn is_broken<B>(response: &Response<B>) -> bool {
    response.extensions().get::<Broken>().is_some()
}
