use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;
use tower_service::Service;

use super::Deadline;
use super::future::DeadlineFuture;
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
        let now = clock::now();
        let (deadline, absolute) = self.end.narrow(context::deadline(), now);
        if deadline.instant().is_some_and(|at| at <= now) {
            return self.passed(deadline, absolute);
        }
        let _scope = DeadlineScope::watched(deadline);
        let called = self.inner.call(request);
        DeadlineFuture::called(called, deadline, absolute, self.watch.clone())
    }
}

impl<S: Clone> DeadlineService<S> {
    /// Ends a call before it has begun.
    #[cold]
    fn passed<F>(&mut self, deadline: Deadline, absolute: bool) -> DeadlineFuture<F> {
        self.inner.release();
        DeadlineFuture::passed(deadline, absolute, self.watch.clone())
    }
}

impl End {
    /// The deadline of a call that begins now, and whether the next attempt would run into the same instant: one
    /// through a layer that counts from the call gets a deadline of its own.
    #[inline]
    fn narrow(self, outer: Deadline, now: Instant) -> (Deadline, bool) {
        match self {
            Self::After(limit, whose) => {
                let own = Deadline::of(clock::after(now, limit), whose);
                if outer.instant().is_none() {
                    return (own, false);
                }
                let deadline = Deadline::narrowed_by(outer, own);
                (deadline, deadline == outer)
            }
            Self::At(own) => (Deadline::narrowed_by(outer, own), true),
        }
    }
}
