//! What the attempts at a request share: the stream, what has been kept of it, and who reads it.

use std::pin::Pin;
use std::sync::PoisonError;
use std::task::Waker;

use ::http::HeaderMap;
use bytes::Bytes;
use http_body::Frame;

use super::ReplayBodyError;
use crate::sync::{Mutex, MutexGuard};

/// A stream and what has been read of it. Belongs to the attempt that reads; between two attempts, to the [`Shared`].
pub(super) struct Source<B> {
    /// None once it has ended.
    pub(super) body: Option<Pin<Box<B>>>,
    kept: Vec<Kept>,
    room: usize,
    /// Whether everything that was read is kept.
    whole: bool,
}

/// A frame, as it came.
enum Kept {
    Data(Bytes),
    Trailers(Box<HeaderMap>),
}

impl<B> Source<B> {
    pub(super) fn new(body: B, room: usize) -> Self {
        Self {
            body: Some(Box::pin(body)),
            kept: Vec::new(),
            room,
            whole: true,
        }
    }

    /// The frame of this index, where it has been kept.
    pub(super) fn kept(&self, index: usize) -> Option<Frame<Bytes>> {
        self.kept.get(index).map(|kept| match kept {
            Kept::Data(data) => Frame::data(data.clone()),
            Kept::Trailers(trailers) => Frame::trailers(HeaderMap::clone(trailers)),
        })
    }

    /// How many frames are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether everything that was read is kept.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Keeps a frame that has been read, where there is room for it. Where there is none, nothing is kept any more.
    pub(super) fn keep(&mut self, frame: &Frame<Bytes>) {
        let kept = match (frame.data_ref(), frame.trailers_ref()) {
            // It says nothing, and a flood of them would fit into any room.
            (Some(data), _) if data.is_empty() => return,
            (Some(data), _) => Some((data.len(), Kept::Data(data.clone()))),
            (None, Some(trailers)) => {
                let kept = Kept::Trailers(Box::new(trailers.clone()));
                Some((size(trailers), kept))
            }
            // A kind of frame that this crate does not know, and cannot copy.
            (None, None) => None,
        };
        let fits = kept.and_then(|(size, kept)| Some((self.room.checked_sub(size)?, kept)));
        match fits {
            Some((room, kept)) => {
                self.room = room;
                self.kept.push(kept);
            }
            None => self.lose(),
        }
    }

    /// Keeps nothing any more.
    pub(super) fn lose(&mut self) {
        self.whole = false;
        self.kept = Vec::new();
    }
}

/// What trailers count for: their names and values.
fn size(trailers: &HeaderMap) -> usize {
    trailers.iter().fold(0, |sum, (name, value)| {
        sum.saturating_add(name.as_str().len())
            .saturating_add(value.len())
    })
}

/// The place where the stream is while nobody reads it.
pub(super) struct Shared<B> {
    slot: Mutex<Rare<B>>,
}

/// Wakers and streams that leave the slot are dropped after the lock is let go of: the drop of a task's last waker
/// drops the task, and with it another attempt's body, which takes this lock.
struct Rare<B> {
    /// None while an attempt reads it, and for ever once it is lost.
    source: Option<Source<B>>,
    lost: bool,
    /// The newest attempt that has begun to read.
    newest: u32,
    /// Wakes the reader, which the stream makes wait.
    reader: Option<Waker>,
    /// Wakes the newest attempt, which waits for the reader to let go.
    waiting: Option<(u32, Waker)>,
}

/// What an attempt that begins to read is told.
pub(super) enum Begin<B> {
    Read(Source<B>),
    /// An older attempt reads. The waker is kept.
    Wait,
    Failed(ReplayBodyError),
}

impl<B> Shared<B> {
    /// `lost`: a stream that is known to be more than can be kept.
    pub(super) fn new(source: Source<B>, lost: bool) -> Self {
        Self {
            slot: Mutex::new(Rare {
                source: Some(source),
                lost,
                newest: 0,
                reader: None,
                waiting: None,
            }),
        }
    }

    /// No code but ours and a waker's clone runs under the lock, so there is no half-made change to fear.
    fn lock(&self) -> MutexGuard<'_, Rare<B>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// An attempt wants to read: the newest gets the stream.
    pub(super) fn begin(&self, attempt: u32, waker: &Waker) -> Begin<B> {
        let mut slot = self.lock();
        if attempt < slot.newest {
            return Begin::Failed(ReplayBodyError::SUPERSEDED);
        }
        if slot.source.is_none() && slot.lost {
            return Begin::Failed(ReplayBodyError::LOST);
        }
        slot.newest = attempt;
        if let Some(source) = slot.source.take() {
            let stale = slot.waiting.take();
            drop(slot);
            wake_other(stale, attempt);
            return Begin::Read(source);
        }
        let stale = slot.waiting.replace((attempt, waker.clone()));
        let reader = slot.reader.take();
        drop(slot);
        if let Some(reader) = reader {
            reader.wake();
        }
        wake_other(stale, attempt);
        Begin::Wait
    }

    /// The stream makes the reader wait. Whether a newer attempt wants the stream; otherwise the waker is kept until
    /// one does.
    pub(super) fn is_wanted(&self, attempt: u32, waker: &Waker) -> bool {
        let mut slot = self.lock();
        if slot.newest > attempt {
            return true;
        }
        let stale = match &slot.reader {
            Some(reader) if reader.will_wake(waker) => None,
            _ => slot.reader.replace(waker.clone()),
        };
        drop(slot);
        drop(stale);
        false
    }

    /// The reader lets go of the stream: an attempt that waits for it may go on, if it is whole, and is told
    /// otherwise.
    pub(super) fn give_back(&self, source: Source<B>) {
        let whole = source.is_whole();
        let mut slot = self.lock();
        slot.lost |= !whole;
        let waiting = slot.waiting.take();
        let reader = slot.reader.take();
        let rest = if whole {
            slot.source.replace(source)
        } else {
            Some(source)
        };
        drop(slot);
        drop((reader, rest));
        if let Some((_, waker)) = waiting {
            waker.wake();
        }
    }

    /// The stream cannot be sent again.
    pub(super) fn lose(&self) {
        let mut slot = self.lock();
        slot.lost = true;
        let waiting = slot.waiting.take();
        drop(slot);
        if let Some((_, waker)) = waiting {
            waker.wake();
        }
    }

    /// An attempt that waits for the stream is dropped.
    pub(super) fn stop_waiting(&self, attempt: u32) {
        let mut slot = self.lock();
        let own = matches!(slot.waiting, Some((waiting, _)) if waiting == attempt);
        let waiting = if own { slot.waiting.take() } else { None };
        drop(slot);
        drop(waiting);
    }
}

/// An older attempt that waited learns that it has been superseded.
fn wake_other(waiting: Option<(u32, Waker)>, attempt: u32) {
    if let Some((number, waker)) = waiting {
        if number != attempt {
            waker.wake();
        }
    }
}
