//! What a breaker looks back on: the last outcomes, or those of the last while.

use super::count_window::CountWindow;
use super::settings::Span;
use super::tag::Tag;
use super::time_window::TimeWindow;

/// What one outcome adds to the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) failure: bool,
    pub(super) slow: bool,
}

/// What a window holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) total: u32,
    pub(super) failures: u32,
    pub(super) slow: u32,
}

#[derive(Debug)]
pub(super) enum Window {
    Count(CountWindow),
    Time(TimeWindow),
}

impl Window {
    pub(super) fn new(span: Span, first: Tag) -> Self {
        match span {
            Span::Outcomes(length) => Self::Count(CountWindow::new(length, first)),
            Span::Time(micros) => Self::Time(TimeWindow::new(micros, first)),
        }
    }

    /// Records an outcome of a generation, and says what the window then holds. `None` where there is nothing to evaluate:
    /// the outcome came too late, or nothing has failed.
    #[inline]
    pub(super) fn record(
        &self,
        tag: Tag,
        record: Record,
        now: impl FnOnce() -> u64,
    ) -> Option<Counts> {
        match self {
            Self::Count(window) => window.record(tag, record),
            Self::Time(window) => window.record(tag, record, now()),
        }
    }

    /// Whether one more success would leave it as it is. A time window always counts.
    #[inline]
    pub(super) fn is_full_of_success(&self, tag: Tag) -> bool {
        match self {
            Self::Count(window) => window.is_full_of_success(tag),
            Self::Time(_) => false,
        }
    }

    /// Whether there is a moment after which one more success changes nothing.
    #[inline]
    pub(super) const fn can_be_full_of_success(&self) -> bool {
        matches!(self, Self::Count(_))
    }

    /// See [`Tag::refresh`].
    pub(super) fn refresh(&self, tag: Tag) {
        match self {
            Self::Count(window) => window.refresh(tag),
            Self::Time(window) => window.refresh(tag),
        }
    }

    /// What the window holds of a generation.
    pub(super) fn counts(&self, tag: Tag, now: impl FnOnce() -> u64) -> Counts {
        match self {
            Self::Count(window) => window.counts(tag),
            Self::Time(window) => window.counts(tag, now()),
        }
    }
}
