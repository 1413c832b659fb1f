use std::task::{Context, Poll};

use tokio::time::Instant;
use tower_service::Service;

use super::Deadline;
use super::future::{Begun, DeadlineFuture, Ending};
use super::layer::{End, Rule};
use crate::clock;
use crate::context::{self, Mark, Span};
use crate::error::BoxError;

/// Ends a call or an attempt at a deadline. See the [module](crate::deadline).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use std::time::Duration;
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::DeadlineLayer;
/// use tower_composure::deadline::DeadlineService;
///
/// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
/// let service: DeadlineService<_> = DeadlineLayer::call(Duration::from_secs(8)).layer(inner);
/// assert_eq!(service.oneshot(7).await?, 7);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DeadlineService<S> {
    inner: S,
    rule: Rule,
}

impl<S> DeadlineService<S> {
    pub(super) const fn new(inner: S, rule: Rule) -> Self {
        Self { inner, rule }
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

    #[inline(always)]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        let Some(end) = self.rule.begin() else {
            return self.call_slowly(request);
        };
        // As below: a function for both would move the request, and then the future, once more.
        let scope = end.called();
        let called = self.inner.call(request);
        drop(scope);
        DeadlineFuture::of(Some(called), Ending::of(end, self.rule.watch()))
    }
}

impl<S> DeadlineService<S> {
    #[cold]
    fn call_slowly<Req>(&mut self, request: Req) -> DeadlineFuture<S::Future>
    where
        S: Service<Req> + Clone,
    {
        let end = self.rule.begin_slowly();
        if end.has_passed() {
            // The call is over before it has begun. Whatever the instance took to be ready goes back with it.
            self.inner = self.inner.clone();
            return DeadlineFuture::of(None, Ending::of(end, self.rule.watch()));
        }
        let scope = end.called();
        let called = self.inner.call(request);
        drop(scope);
        DeadlineFuture::of(Some(called), Ending::of(end, self.rule.watch()))
    }
}

impl Rule {
    /// How a call that begins now ends, where the limit of this layer ends it.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Option<Begun> {
        let span = self.span();
        if span.is_zero() {
            return None;
        }
        context::start_of(span).map(|start| Begun::new(Some(start), span))
    }

    /// The same where it may be the deadline around that ends it, or one that does not count from the call, or where it
    /// has passed.
    #[cold]
    pub(crate) fn begin_slowly(&self) -> Begun {
        let now = clock::now();
        let (deadline, absolute) = self.narrowed(context::deadline(), now);
        let at = deadline.instant();
        let passed = at.is_some_and(|at| at <= now);
        let leans = self.span().has(Mark::LeansOnBelow);
        let span = Span::at(deadline.limit())
            .marked_if(absolute, Mark::Absolute)
            .marked_if(passed, Mark::Passed)
            .marked_if(leans, Mark::LeansOnBelow);
        Begun::new(at, span)
    }

    /// The nearer of the two, and whether the next attempt would run into the same instant: through a layer that counts
    /// from the call it gets a deadline of its own.
    fn narrowed(&self, outer: Deadline, now: Instant) -> (Deadline, bool) {
        let end = self.end();
        let own = match end {
            End::Soon(span) => span.from(Some(now)),
            End::After(limit, whose) => Deadline::of(clock::sum(now, limit), whose),
            End::Never(whose) => Deadline::of(None, whose),
            End::At(own) => own,
        };
        let deadline = Deadline::narrowed_by(outer, own);
        let absolute = if deadline == outer {
            context::is_absolute()
        } else {
            matches!(end, End::At(_))
        };
        (deadline, absolute)
    }
}
