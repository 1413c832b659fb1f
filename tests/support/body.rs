//! A scripted body, which can be read once and is bound to its place.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Duration, Sleep, sleep};

/// What a body does next. Where the list has run out, it ends.
#[derive(Debug, Clone)]
pub enum Event {
    Data(&'static [u8]),
    Bytes(Bytes),
    Trailers(HeaderMap),
    Error,
    /// Not ready for one poll.
    Yield,
    /// Not ready for this long.
    Wait(Duration),
    /// Not ready until somebody pushes.
    Never,
}

pin_project! {
    /// Neither `Clone` nor `Unpin`.
    pub struct Scripted {
        events: VecDeque<Event>,
        hint: SizeHint,
        ends_visibly: bool,
        timer: Option<Pin<Box<Sleep>>>,
        seen: Seen,
        guard: Guard,
        #[pin]
        place: PhantomPinned,
    }
}

/// What a test sees of a body.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    dropped: Arc<AtomicBool>,
    polls: Arc<AtomicUsize>,
}

impl Seen {
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    /// How many polls it has had.
    pub fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }
}

struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Scripted {
    pub fn new(events: impl IntoIterator<Item = Event>) -> Self {
        let seen = Seen::default();
        Self {
            events: events.into_iter().collect(),
            hint: SizeHint::new(),
            ends_visibly: false,
            timer: None,
            guard: Guard(Arc::clone(&seen.dropped)),
            seen,
            place: PhantomPinned,
        }
    }

    /// It announces this length.
    pub fn exact(mut self, length: u64) -> Self {
        self.hint = SizeHint::with_exact(length);
        self
    }

    /// It knows when nothing follows.
    pub fn ends_visibly(mut self) -> Self {
        self.ends_visibly = true;
        self
    }

    pub fn seen(&self) -> Seen {
        self.seen.clone()
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.project();
        this.seen.polls.fetch_add(1, Ordering::SeqCst);
        if let Some(timer) = this.timer {
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            *this.timer = None;
        }
        let frame = match this.events.pop_front() {
            Some(Event::Data(data)) => Ok(Frame::data(Bytes::from_static(data))),
            Some(Event::Bytes(data)) => Ok(Frame::data(data)),
            Some(Event::Trailers(trailers)) => Ok(Frame::trailers(trailers)),
            Some(Event::Error) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
            Some(Event::Yield) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(Event::Wait(wait)) => {
                let timer = this.timer.insert(Box::pin(sleep(wait)));
                let _ = timer.as_mut().poll(cx);
                return Poll::Pending;
            }
            Some(Event::Never) => {
                this.events.push_front(Event::Never);
                return Poll::Pending;
            }
            None => return Poll::Ready(None),
        };
        if let (Ok(frame), Some(length)) = (&frame, this.hint.exact()) {
            let read = frame.data_ref().map_or(0, Bytes::len) as u64;
            *this.hint = SizeHint::with_exact(length.saturating_sub(read));
        }
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.ends_visibly && self.events.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

/// Trailers of one field.
pub fn trailers(name: &'static str, value: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, value.parse().unwrap());
    trailers
}

/// A frame as something that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    Data(Bytes),
    Trailers(HeaderMap),
    Error(String),
}

/// The next frame of a body, and none at its end.
pub async fn next<B>(body: &mut B) -> Option<Sent>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: ToString,
{
    let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
    Some(match frame.map(Frame::into_data) {
        Ok(Ok(data)) => Sent::Data(data),
        Ok(Err(frame)) => Sent::Trailers(frame.into_trailers().ok().unwrap()),
        Err(error) => Sent::Error(error.to_string()),
    })
}

/// Everything that a body still has.
pub async fn read<B>(body: &mut B) -> Vec<Sent>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: ToString,
{
    let mut sent = Vec::new();
    while let Some(frame) = next(body).await {
        sent.push(frame);
    }
    sent
}
