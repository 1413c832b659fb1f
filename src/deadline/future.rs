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
            deadline: Deadline,
            absolute: bool,
            timer: Option<Pin<Box<Sleep>>>,
            watch: Option<Arc<Watch>>,
        },
        // The deadline had passed before the inner service was called.
        Passed {
            deadline: Deadline,
            absolute: bool,
            watch: Option<Arc<Watch>>,
        },
        // The outcome has been returned, and the inner future dropped where it was cut off.
        Done,
    }
}

impl<F> DeadlineFuture<F> {
    pub(super) const fn called(
        inner: F,
        deadline: Deadline,
        absolute: bool,
        watch: Option<Arc<Watch>>,
    ) -> Self {
        Self {
            state: State::Called {
                inner,
                deadline,
                absolute,
                timer: None,
                watch,
            },
        }
    }

    pub(super) const fn passed(
        deadline: Deadline,
        absolute: bool,
        watch: Option<Arc<Watch>>,
    ) -> Self {
        Self {
            state: State::Passed {
                deadline,
                absolute,
                watch,
            },
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
        let (error, absolute, watch) = match this.state.as_mut().project() {
            StateProj::Called {
                inner,
                deadline,
                absolute,
                timer,
                watch,
            } => {
                context::clear_signals();
                {
                    let scope = DeadlineScope::watched(*deadline);
                    if let Poll::Ready(outcome) = inner.poll(cx) {
                        return Poll::Ready(outcome.map_err(Into::into));
                    }
                    // One timer serves the call's deadline and the attempts under it, and the layer that set the
                    // deadline knows what has failed before.
                    if scope.was_watched(*deadline) {
                        return Poll::Pending;
                    }
                }
                ready!(poll_timer(*deadline, timer, cx));
                let report = context::published();
                let error = DeadlineExceeded::new(deadline.limit(), report);
                (error, *absolute, watch)
            }
            StateProj::Passed {
                deadline,
                absolute,
                watch,
            } => {
                let error = DeadlineExceeded::before_call(deadline.limit());
                (error, *absolute, watch)
            }
            StateProj::Done => return Poll::Pending,
        };
        if let Some(watch) = watch {
            watch.tell(|observer, dependency| observer.deadline_exceeded(dependency, &error));
        }
        context::mark_expired(Expired {
            called: !error.is_before_call(),
            absolute,
        });
        this.state.set(State::Done);
        Poll::Ready(Err(error.into()))
    }
}

/// The half that does not depend on the inner future, kept apart so that it is compiled once.
fn poll_timer(
    deadline: Deadline,
    timer: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let Some(at) = deadline.instant() else {
        return Poll::Pending;
    };
    timer
        .get_or_insert_with(|| Box::pin(sleep_until(at)))
        .as_mut()
        .poll(cx)
}

impl<F> fmt::Debug for DeadlineFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture").finish_non_exhaustive()
    }
}
