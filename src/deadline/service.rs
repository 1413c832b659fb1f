use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;
use tower_service::Service;

use super::Deadline;
use super::future::{DeadlineFuture, Ending};
use super::layer::End;
use crate::clock;
use crate::context::{self, DeadlineScope};
use crate::error::BoxError;
use crate::observer::Watch;
use crate::ready::Ready;

/// Ends a call or an attempt at a deadline. See the [module](crate::deadline).
#[derive(Debug, Clone)]
pub struct DeadlineService<S> {
    inner: Ready<S>,
    end: End,
    watch: Option<Arc<Watch>>,
}

impl<S> DeadlineService<S> {
    pub(super) fn new(inner: S, end: End, watch: Option<Arc<Watch>>) -> Self {
        Self {
            inner: Ready::new(inner),
            end,
            watch,
        }
    }
}

impl<S, Req> Service<Req> for DeadlineService<S>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = DeadlineFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        let outer = context::deadline();
        let now = clock::now();
        let Some((deadline, absolute)) = self.end.narrow(outer, now) else {
            return self.passed(outer, now);
        };
        let _scope = DeadlineScope::watched(deadline);
        let called = self.inner.call(request);
        DeadlineFuture::called(called, Ending::new(deadline, absolute, self.watch.clone()))
    }
}

impl<S: Clone> DeadlineService<S> {
    /// Ends a call before it has begun.
    #[cold]
    fn passed<F>(&mut self, outer: Deadline, now: Instant) -> DeadlineFuture<F> {
        self.inner.release();
        let (deadline, absolute) = self.end.narrowed(outer, now);
        DeadlineFuture::passed(Ending::new(deadline, absolute, self.watch.clone()))
    }
}

impl End {
    /// The deadline of a call that begins now, and whether the next attempt would run into the same instant. None where
    /// it has passed.
    #[inline]
    fn narrow(self, outer: Deadline, now: Instant) -> Option<(Deadline, bool)> {
        if let Self::After(limit, whose) = self {
            if outer.instant().is_none() {
                // A limit of zero has passed when the call begins.
                let own = Deadline::of(now.checked_add(limit), whose);
                return (!limit.is_zero()).then_some((own, false));
            }
        }
        let (deadline, absolute) = self.narrowed(outer, now);
        let passed = deadline.instant().is_some_and(|at| at <= now);
        (!passed).then_some((deadline, absolute))
    }

    /// The nearer of the two. The next attempt through a layer that counts from the call gets a deadline of its own.
    fn narrowed(self, outer: Deadline, now: Instant) -> (Deadline, bool) {
        match self {
            Self::After(limit, whose) => {
                let own = Deadline::of(now.checked_add(limit), whose);
                let deadline = Deadline::narrowed_by(outer, own);
                (deadline, outer.instant().is_some() && deadline == outer)
            }
            Self::Never(whose) => {
                let deadline = Deadline::narrowed_by(outer, Deadline::of(None, whose));
                (deadline, outer.instant().is_some())
            }
            Self::At(own) => (Deadline::narrowed_by(outer, own), true),
        }
    }
}
