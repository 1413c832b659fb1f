use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep_until};

use super::{Deadline, DeadlineExceeded, Expired};
use crate::context::{self, DeadlineScope};
use crate::error::BoxError;
use crate::observer::Watch;

pin_project! {
    /// The future of a [`DeadlineService`](super::DeadlineService).
    ///
    /// Dropping it drops the inner future.
    #[must_use = "futures do nothing unless polled"]
    pub struct DeadlineFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        // Polling the inner future, and the timer once that was pending.
        Called {
            #[pin]
            inner: F,
            end: Ending,
        },
        // The deadline had passed before the inner service was called.
        Passed { end: Ending },
        // The outcome has been returned, and the inner future dropped where it was cut off.
        Done,
    }
}

/// What ends a call, apart from the inner future.
pub(super) struct Ending {
    pub(super) deadline: Deadline,
    /// Whether a repeat would run into the same instant.
    pub(super) absolute: bool,
    pub(super) watch: Option<Arc<Watch>>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Ending {
    #[inline]
    pub(super) const fn new(deadline: Deadline, absolute: bool, watch: Option<Arc<Watch>>) -> Self {
        Self {
            deadline,
            absolute,
            watch,
            timer: None,
        }
    }

    /// Waits for the deadline, in a poll in which the inner future was pending.
    #[cold]
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<BoxError> {
        let Some(at) = self.deadline.instant() else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        ready!(timer.as_mut().poll(cx));
        let report = context::published();
        Poll::Ready(self.exceeded(DeadlineExceeded::new(self.deadline.limit(), report)))
    }

    /// The deadline had passed before anything was called.
    #[cold]
    fn passed(&self) -> BoxError {
        self.exceeded(DeadlineExceeded::before_call(self.deadline.limit()))
    }

    fn exceeded(&self, error: DeadlineExceeded) -> BoxError {
        if let Some(watch) = &self.watch {
            watch.tell(|observer, dependency| observer.deadline_exceeded(dependency, &error));
        }
        context::mark_expired(Expired {
            called: !error.is_before_call(),
            absolute: self.absolute,
        });
        error.into()
    }
}

impl<F> DeadlineFuture<F> {
    #[inline]
    pub(super) const fn called(inner: F, end: Ending) -> Self {
        Self {
            state: State::Called { inner, end },
        }
    }

    pub(super) const fn passed(end: Ending) -> Self {
        Self {
            state: State::Passed { end },
        }
    }
}

impl<F, T, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateProj::Called { inner, end } = this.state.as_mut().project() {
            context::clear_signals();
            let scope = DeadlineScope::watched(end.deadline);
            if let Poll::Ready(outcome) = inner.poll(cx) {
                return Poll::Ready(outcome.map_err(Into::into));
            }
            // One timer serves the call's deadline and the attempts under it, and the layer that set the deadline knows
            // what has failed before.
            if scope.was_watched(end.deadline) {
                return Poll::Pending;
            }
        }
        this.state.cut_off(cx).map(Err)
    }
}

impl<F> State<F> {
    /// The error, once the deadline has passed; the inner future is dropped in the same poll.
    #[cold]
    fn cut_off(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BoxError> {
        let error = match self.as_mut().project() {
            StateProj::Called { end, .. } => ready!(end.poll_timer(cx)),
            StateProj::Passed { end } => end.passed(),
            StateProj::Done => return Poll::Pending,
        };
        self.set(Self::Done);
        Poll::Ready(error)
    }
}

impl<F> fmt::Debug for DeadlineFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture").finish_non_exhaustive()
    }
}
