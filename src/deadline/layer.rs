use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;

use super::service::DeadlineService;
use super::{Deadline, Limit};
use crate::clock;
use crate::context::{Mark, Span, SpanOfLayer};
use crate::observer::{Observer, Watch};

/// Ends a call or an attempt at a deadline. See the [module](crate::deadline).
///
/// ```
/// use std::time::Duration;
/// use tower::ServiceBuilder;
/// use tower_composure::{DeadlineLayer, Effect, RetryLayer};
///
/// let layers = ServiceBuilder::new()
///     .layer(DeadlineLayer::call(Duration::from_secs(8)))
///     .layer(RetryLayer::new(Effect::Read))
///     .layer(DeadlineLayer::attempt(Duration::from_secs(3)));
/// ```
#[derive(Debug, Clone)]
pub struct DeadlineLayer {
    end: End,
    watch: Option<Arc<Watch>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// After a span above zero.
    Soon(Span),
    /// After what is no such span: nothing, a hundred years.
    After(Duration, Limit),
    /// No limit.
    Never(Limit),
    At(Deadline),
}

impl End {
    const fn after(limit: Duration, whose: Limit) -> Self {
        if clock::is_far(limit) {
            Self::Never(whose)
        } else if let Some(span) = Span::after(limit, whose) {
            Self::Soon(span)
        } else {
            Self::After(limit, whose)
        }
    }
}

impl DeadlineLayer {
    /// Each call through this layer ends at most this long after it began. `Duration::MAX` means no limit; a limit of
    /// zero has passed when the call begins.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::DeadlineLayer;
    ///
    /// let layer = DeadlineLayer::call(Duration::from_secs(8));
    /// ```
    pub const fn call(limit: Duration) -> Self {
        Self::of(End::after(limit, Limit::Call))
    }

    /// Each attempt ends at most this long after it began, or with the call if that is sooner.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::DeadlineLayer;
    ///
    /// let layer = DeadlineLayer::attempt(Duration::from_secs(3));
    /// ```
    pub const fn attempt(limit: Duration) -> Self {
        Self::of(End::after(limit, Limit::Attempt))
    }

    /// All calls through this layer end at this instant.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{Deadline, DeadlineLayer};
    ///
    /// let whole_job = Deadline::after(Duration::from_secs(60));
    /// let layer = DeadlineLayer::until(whole_job);
    /// ```
    pub const fn until(deadline: Deadline) -> Self {
        Self::of(End::At(deadline))
    }

    const fn of(end: End) -> Self {
        Self { end, watch: None }
    }

    /// Who is told of each deadline that passes here, and under which name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tower_composure::{DeadlineLayer, TracingObserver};
    ///
    /// let layer = DeadlineLayer::call(Duration::from_secs(8)).observer("payments", Arc::new(TracingObserver::new()));
    /// ```
    #[must_use]
    pub fn observer(
        mut self,
        dependency: impl Into<Arc<str>>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        self.watch = Some(Arc::new(Watch::new(observer, dependency.into())));
        self
    }
}

impl DeadlineLayer {
    /// What a service of this layer is made of.
    pub(crate) fn rule(&self) -> Rule {
        let span = match self.end {
            End::Soon(span) => span,
            _ => Span::at(Limit::Call),
        };
        let more = (span.is_zero() || self.watch.is_some()).then(|| {
            Arc::new(More {
                end: self.end,
                watch: self.watch.clone(),
            })
        });
        Rule {
            span: SpanOfLayer::of(span),
            more,
        }
    }
}

/// What a service knows of the ends of its calls. It is kept with the request that a retry keeps, and so is small.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    // How much later than their beginning, which is all there is to most of them; otherwise zero.
    span: SpanOfLayer,
    more: Option<Arc<More>>,
}

#[derive(Debug)]
struct More {
    end: End,
    watch: Option<Arc<Watch>>,
}

impl Rule {
    /// The same for a future that may lean on the timer of a layer below.
    pub(crate) fn leaning_on_below(mut self) -> Self {
        self.span = SpanOfLayer::of(self.span().marked(Mark::LeansOnBelow));
        self
    }

    #[inline]
    pub(super) const fn span(&self) -> Span {
        self.span.get()
    }

    pub(super) fn end(&self) -> End {
        self.more
            .as_ref()
            .map_or(End::Soon(self.span()), |more| more.end)
    }

    /// Who is told of a deadline that has passed.
    #[inline(always)]
    pub(crate) fn watch(&self) -> Option<Arc<Watch>> {
        self.more.as_ref().and_then(|more| more.watch.clone())
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService::new(inner, self.rule())
    }
}
