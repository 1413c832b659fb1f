use std::fmt;
use std::future::Future;
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
use crate::rare::Rare;

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
        extra: Rare<Extra>,
    }
}

/// What most calls that are answered at once have no need of.
pub(crate) enum Extra {
    /// Who is told, as long as there is no timer.
    Watched(Arc<Watch>),
    Timed(Pin<Box<Timed>>),
    /// Where a breaker that is one with the deadline has refused the call, until it is said.
    Refused(Box<BreakerOpen>),
}

pin_project! {
    /// The timer of a call that was pending, and who is told when it fires.
    pub(crate) struct Timed {
        #[pin]
        sleep: Sleep,
        watch: Option<Arc<Watch>>,
    }
}

impl Extra {
    #[inline(always)]
    pub(crate) fn of(watch: Option<Arc<Watch>>) -> Rare<Self> {
        Rare::new(watch.map(Self::Watched))
    }

    pub(crate) fn refused(refused: BreakerOpen) -> Rare<Self> {
        Rare::new(Some(Self::Refused(Box::new(refused))))
    }

    /// The refusal, where there is one that has not been said.
    pub(crate) fn take_refused(extra: &mut Rare<Self>) -> Option<Box<BreakerOpen>> {
        match extra.take() {
            Some(Self::Refused(refused)) => Some(refused),
            other => {
                *extra = Rare::new(other);
                None
            }
        }
    }

    fn timed(at: Instant, watch: Option<Arc<Watch>>) -> Self {
        let sleep = sleep_until(at);
        Self::Timed(Box::pin(Timed { sleep, watch }))
    }

    /// Whether there is a timer that has not fired.
    fn is_running(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Timed(timed) => timed.as_mut().project().sleep.poll(cx).is_pending(),
            Self::Watched(_) | Self::Refused(_) => false,
        }
    }

    fn watch(&self) -> Option<&Watch> {
        match self {
            Self::Watched(watch) => Some(watch),
            Self::Timed(timed) => timed.watch.as_deref(),
            Self::Refused(_) => None,
        }
    }
}

/// When a call ends, and how far it has come.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    // What the deadline counts from.
    start: Option<Instant>,
    // How far it is from there, and in its marks, how far the call has come: with none of them the inner future is
    // polled, and the timer once that was pending.
    span: Span,
}

impl Ending {
    #[inline(always)]
    pub(super) const fn new(start: Option<Instant>, span: Span) -> Self {
        Self { start, span }
    }

    /// Nothing is left to say.
    pub(crate) const fn finish(&mut self) {
        self.span = self.span.marked(Mark::Done);
    }

    pub(crate) const fn has_passed(&self) -> bool {
        self.span.has(Mark::Passed)
    }

    /// Whether a timer below wakes whoever polls this call in time: it fires at the deadline of an attempt, which is
    /// never later than that of the call.
    pub(crate) fn leans_on_below(&self) -> bool {
        self.span.has(Mark::LeansOnBelow) && context::has_timer()
    }

    /// While the inner service is called.
    #[inline(always)]
    pub(crate) fn called(&self) -> DeadlineScope {
        DeadlineScope::call(self.start, self.span)
    }

    /// While the inner future is polled.
    #[inline(always)]
    pub(crate) fn polled(&self) -> DeadlineScope {
        DeadlineScope::enter(self.start, self.span)
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.span.from(self.start)
    }
}

impl<F> DeadlineFuture<F> {
    #[inline(always)]
    pub(super) fn called(inner: F, end: Ending, watch: Option<Arc<Watch>>) -> Self {
        Self {
            inner: Some(inner),
            end,
            extra: Extra::of(watch),
        }
    }

    pub(super) fn passed(end: Ending, watch: Option<Arc<Watch>>) -> Self {
        Self {
            inner: None,
            end,
            extra: Extra::of(watch),
        }
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
        let error = ready!(this.end.cut_off(this.extra, cx));
        // The inner future is dropped in the poll that reports the deadline.
        this.inner.set(None);
        Poll::Ready(Err(error))
    }
}

impl Ending {
    /// The error, once the deadline has passed.
    #[cold]
    pub(crate) fn cut_off(
        &mut self,
        extra: &mut Rare<Extra>,
        cx: &mut Context<'_>,
    ) -> Poll<BoxError> {
        let limit = self.span.limit();
        let error = if self.span.has(Mark::Done) {
            return Poll::Pending;
        } else if self.has_passed() {
            DeadlineExceeded::before_call(limit)
        } else {
            let Some(at) = self.deadline().instant() else {
                return Poll::Pending;
            };
            let timer = extra.get_or_insert_with(|| Extra::timed(at, None));
            if let Extra::Watched(watch) = timer {
                *timer = Extra::timed(at, Some(Arc::clone(watch)));
            }
            if timer.is_running(cx) {
                context::set_has_timer(true);
                return Poll::Pending;
            }
            DeadlineExceeded::new(limit, context::published())
        };
        self.finish();
        if let Some(watch) = extra.as_ref().and_then(Extra::watch) {
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
