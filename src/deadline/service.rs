use std::task::{Context, Poll};

use tower_service::Service;

use super::Deadline;
use super::future::DeadlineFuture;
use super::layer::End;
use crate::clock;
use crate::context::{self, DeadlineScope};
use crate::error::BoxError;
use crate::ready::Ready;

/// Ends a call or an attempt at a deadline. See the [module](crate::deadline).
#[derive(Debug, Clone)]
pub struct DeadlineService<S> {
    inner: Ready<S>,
    end: End,
}

impl<S> DeadlineService<S> {
    pub(super) fn new(inner: S, end: End) -> Self {
        Self {
            inner: Ready::new(inner),
            end,
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

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let outer = context::deadline();
        let now = clock::now();
        let own = match self.end {
            End::After(limit, whose) => Deadline::of(clock::after(now, limit), whose),
            End::At(deadline) => deadline,
        };
        let deadline = Deadline::narrowed_by(outer, own);
        // The next attempt through a layer that counts from the call gets a deadline of its own.
        let absolute = matches!(self.end, End::At(_)) || Some(deadline) == outer;
        if deadline.instant().is_some_and(|at| at <= now) {
            self.inner.release();
            return DeadlineFuture::passed(deadline, absolute);
        }
        let _scope = DeadlineScope::watched(deadline);
        DeadlineFuture::called(self.inner.call(request), deadline, absolute)
    }
}
