//! An inner service that may have to give its readiness back.

use std::task::{Context, Poll};

use tower_service::Service;

/// An inner service, and whether it has been polled since its last call.
///
/// A service that was polled ready may hold something for the call that is now not made: the permit of a
/// `ConcurrencyLimit`, a slot of a `Buffer`, a place in a queue. Dropping that instance gives it back, and its clone,
/// which starts unready as tower's contract has it, takes its place.
#[derive(Debug)]
pub(crate) struct Ready<S> {
    inner: S,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not polled since the last call.
    Idle,
    /// Polled, with no answer yet: it may stand in a queue.
    Polled,
    /// It said that it is ready.
    Ready,
}

impl<S> Ready<S> {
    pub(crate) const fn new(inner: S) -> Self {
        Self {
            inner,
            state: State::Idle,
        }
    }

    #[inline]
    pub(crate) fn poll_ready<Req>(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>>
    where
        S: Service<Req>,
    {
        self.state = State::Polled;
        let ready = self.inner.poll_ready(cx);
        if matches!(ready, Poll::Ready(Ok(()))) {
            self.state = State::Ready;
        }
        ready
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// The service, for the call that follows. Not a call by itself: a request is moved once more for each function that
    /// it goes through.
    #[inline]
    pub(crate) fn use_up(&mut self) -> &mut S {
        self.state = State::Idle;
        &mut self.inner
    }

    /// Gives back whatever readiness was taken for a call that is not made.
    pub(crate) fn release(&mut self)
    where
        S: Clone,
    {
        if self.state != State::Idle {
            self.state = State::Idle;
            self.inner = self.inner.clone();
        }
    }
}

/// Readiness counts for one instance and one call; a clone starts without it.
impl<S: Clone> Clone for Ready<S> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}
