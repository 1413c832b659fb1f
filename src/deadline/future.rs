use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Deadline, DeadlineExceeded, Expired};
use crate::circuit_breaker::BreakerOpen;
use crate::context::{self, DeadlineScope, Span};
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
#[derive(Default)]
pub(crate) struct Extra {
    watch: Option<Arc<Watch>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Where a breaker that is one with the deadline has refused the call, until it is said.
    pub(crate) refused: Option<BreakerOpen>,
}

impl Extra {
    #[inline(always)]
    pub(crate) fn of(watch: Option<Arc<Watch>>) -> Rare<Self> {
        Rare::new(watch.map(|watch| Self {
            watch: Some(watch),
            ..Self::default()
        }))
    }
}

/// When a call ends, and how far it has come.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    // What the deadline counts from, and how far it is from there.
    start: Option<Instant>,
    span: Span,
    // Whether a repeat would run into the same instant.
    absolute: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The inner future is polled, and the timer once that was pending.
    Called,
    /// The deadline had passed before the inner service was called.
    Passed,
    /// The error has been returned.
    Done,
}

impl Ending {
    #[inline(always)]
    pub(super) const fn new(start: Option<Instant>, span: Span, absolute: bool) -> Self {
        Self {
            start,
            span,
            absolute,
            phase: Phase::Called,
        }
    }

    /// The deadline had passed before anything was called.
    pub(super) const fn passed(self) -> Self {
        Self {
            phase: Phase::Passed,
            ..self
        }
    }

    /// Nothing is left to say.
    pub(crate) const fn finish(&mut self) {
        self.phase = Phase::Done;
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.phase == Phase::Passed
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
        let error = match (self.phase, self.deadline().instant()) {
            (Phase::Called, Some(at)) => {
                let extra = extra.get_or_insert_with(Extra::default);
                let timer = extra.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
                ready!(timer.as_mut().poll(cx));
                DeadlineExceeded::new(limit, context::published())
            }
            (Phase::Passed, _) => DeadlineExceeded::before_call(limit),
            (Phase::Called, None) | (Phase::Done, _) => return Poll::Pending,
        };
        self.phase = Phase::Done;
        if let Some(watch) = extra.as_ref().and_then(|extra| extra.watch.as_ref()) {
            watch.tell(|observer, dependency| observer.deadline_exceeded(dependency, &error));
        }
        context::mark_expired(Expired {
            called: !error.is_before_call(),
            absolute: self.absolute,
        });
        Poll::Ready(error.into())
    }
}

impl<F> fmt::Debug for DeadlineFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture").finish_non_exhaustive()
    }
}
