use std::fmt;
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Deadline, DeadlineExceeded, Expired};
use crate::circuit_breaker::BreakerOpen;
use crate::context::{self, DeadlineScope, Mark, Span};
use crate::error::BoxError;
use crate::observer::Watch;

pin_project! {
    /// The future of a [`DeadlineService`](super::DeadlineService).
    ///
    /// Dropping it drops the inner future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::DeadlineLayer;
    /// use tower_composure::deadline::DeadlineFuture;
    ///
    /// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
    /// let mut service = DeadlineLayer::call(Duration::from_secs(8)).layer(inner);
    /// let future: DeadlineFuture<_> = service.ready().await?.call(7);
    /// assert_eq!(future.await?, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct DeadlineFuture<F> {
        // None where the inner service was not called, and once the inner future was cut off.
        #[pin]
        inner: Option<F>,
        end: Ending,
    }
}

/// When a call ends that has just begun.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    // What the deadline counts from.
    start: Option<Instant>,
    // How far it is from there, and in its marks, how far the call has come.
    span: Span,
}

impl Begun {
    #[inline(always)]
    pub(super) const fn new(start: Option<Instant>, span: Span) -> Self {
        Self { start, span }
    }

    pub(crate) const fn has_passed(self) -> bool {
        self.span.has(Mark::Passed)
    }

    /// While the inner service is called.
    #[inline(always)]
    pub(crate) fn called(self) -> DeadlineScope {
        DeadlineScope::call(self.start, self.span)
    }
}

/// When a call ends, and what follows.
pub(crate) struct Ending {
    // As it begins, and its marks: with none of them the inner future is polled, and the timer once that was pending.
    span: Span,
    // Dropped by hand, because most calls have nothing here to drop: see `Rare`.
    course: ManuallyDrop<Course>,
}

/// How a call comes to its end, each in the room that the first one needs anyway.
enum Course {
    /// It has not been pending yet. Beside what its deadline counts from, who is told of it.
    Counting {
        start: Option<Instant>,
        watch: Option<Arc<Watch>>,
    },
    /// The timer knows what the deadline is.
    Timed(Pin<Box<Timed>>),
    /// A breaker that is one with the deadline has refused the call, and has not said so yet.
    Refused(Box<BreakerOpen>),
}

impl Course {
    const NOTHING: Self = Self::Counting {
        start: None,
        watch: None,
    };
}

pin_project! {
    /// The timer of a call that was pending, and who is told when it fires.
    struct Timed {
        #[pin]
        sleep: Sleep,
        watch: Option<Arc<Watch>>,
        // glibc puts aside what is freed in pieces of up to 128 bytes, a word of its own included, and merges all of it at
        // once, in memory that no cache holds by then. Where many calls end together, as after an outage, that is dear.
        _beyond: [u64; 2],
    }
}

impl Ending {
    #[inline(always)]
    pub(crate) const fn of(begun: Begun, watch: Option<Arc<Watch>>) -> Self {
        let course = Course::Counting {
            start: begun.start,
            watch,
        };
        Self {
            span: begun.span,
            course: ManuallyDrop::new(course),
        }
    }

    pub(crate) fn refused(refused: BreakerOpen) -> Self {
        Self {
            span: Span::NONE,
            course: ManuallyDrop::new(Course::Refused(Box::new(refused))),
        }
    }

    /// The refusal, where there is one that has not been said.
    pub(crate) fn take_refused(&mut self) -> Option<Box<BreakerOpen>> {
        if !matches!(*self.course, Course::Refused(_)) {
            return None;
        }
        match self.take_course() {
            Course::Refused(refused) => Some(refused),
            Course::Counting { .. } | Course::Timed(_) => None,
        }
    }

    fn take_course(&mut self) -> Course {
        let nothing = ManuallyDrop::new(Course::NOTHING);
        ManuallyDrop::into_inner(mem::replace(&mut self.course, nothing))
    }

    /// Nothing is left to say.
    pub(crate) const fn finish(&mut self) {
        self.span = self.span.marked(Mark::Done);
    }

    /// Whether a timer below wakes whoever polls this call in time: it fires at the deadline of an attempt, which is
    /// never later than that of the call.
    pub(crate) fn leans_on_below(&self) -> bool {
        self.span.has(Mark::LeansOnBelow) && context::has_timer()
    }

    /// While the inner future is polled.
    #[inline(always)]
    pub(crate) fn polled(&self) -> DeadlineScope {
        DeadlineScope::enter(self.start(), self.span)
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.span.from(self.start())
    }

    #[inline(always)]
    fn start(&self) -> Option<Instant> {
        match &*self.course {
            Course::Counting { start, .. } => *start,
            Course::Timed(timed) => Some(timed.sleep.deadline()),
            Course::Refused(_) => None,
        }
    }

    /// Whether the timer has not fired, which the first call of this makes.
    fn is_running(&mut self, at: Instant, cx: &mut Context<'_>) -> bool {
        if let Course::Counting { watch, .. } = &mut *self.course {
            let (sleep, watch) = (sleep_until(at), watch.take());
            self.span = self.span.without_distance();
            *self.course = Course::Timed(Box::pin(Timed {
                sleep,
                watch,
                _beyond: [0; 2],
            }));
        }
        match &mut *self.course {
            Course::Timed(timed) => timed.as_mut().project().sleep.poll(cx).is_pending(),
            Course::Counting { .. } | Course::Refused(_) => false,
        }
    }

    fn watch(&self) -> Option<&Watch> {
        match &*self.course {
            Course::Counting { watch, .. } => watch.as_deref(),
            Course::Timed(timed) => timed.watch.as_deref(),
            Course::Refused(_) => None,
        }
    }
}

impl Drop for Ending {
    #[inline]
    fn drop(&mut self) {
        if !matches!(*self.course, Course::Counting { watch: None, .. }) {
            drop_course(self);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_course(ending: &mut Ending) {
    drop(ending.take_course());
}

impl<F> DeadlineFuture<F> {
    #[inline(always)]
    pub(super) const fn of(inner: Option<F>, end: Ending) -> Self {
        Self { inner, end }
    }
}

impl<F, T, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(inner) = this.inner.as_mut().as_pin_mut() {
            context::clear_signals();
            let scope = this.end.polled();
            if let Poll::Ready(outcome) = inner.poll(cx) {
                return Poll::Ready(outcome.map_err(Into::into));
            }
            // One timer serves the call's deadline and the attempts under it, and the layer that set the deadline knows
            // what has failed before.
            context::set_has_timer(false);
            if scope.was_watched(this.end.deadline()) {
                return Poll::Pending;
            }
        }
        let error = ready!(this.end.cut_off(cx));
        // The inner future is dropped in the poll that reports the deadline.
        this.inner.set(None);
        Poll::Ready(Err(error))
    }
}

impl Ending {
    /// The error, once the deadline has passed.
    #[cold]
    pub(crate) fn cut_off(&mut self, cx: &mut Context<'_>) -> Poll<BoxError> {
        let limit = self.span.limit();
        let error = if self.span.has(Mark::Done) {
            return Poll::Pending;
        } else if self.span.has(Mark::Passed) {
            DeadlineExceeded::before_call(limit)
        } else {
            let Some(at) = self.deadline().instant() else {
                return Poll::Pending;
            };
            if self.is_running(at, cx) {
                context::set_has_timer(true);
                return Poll::Pending;
            }
            DeadlineExceeded::new(limit, context::published())
        };
        self.finish();
        if let Some(watch) = self.watch() {
            watch.tell(&|observer, dependency| observer.deadline_exceeded(dependency, &error));
        }
        context::mark_expired(Expired {
            called: !error.is_before_call(),
            absolute: self.span.has(Mark::Absolute),
        });
        Poll::Ready(error.into())
    }
}

impl<F> fmt::Debug for DeadlineFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom), target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_more_than_glibc_puts_aside() {
        assert!(size_of::<Timed>() + size_of::<usize>() > 128);
    }
}
