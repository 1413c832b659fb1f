//! The scope of a deadline.
//!
//! A deadline is in scope as the instant that it counts from and the span that it is away from there: most calls end
//! before anybody asks when the sum is. A first attempt begins with its call, so what the call's deadline counts from is
//! "now" for the attempt's, and one look at the clock serves both.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

use super::cells::cells;
use crate::clock;
use crate::deadline::{Deadline, Limit};

/// How far a deadline is from what it counts from, whose time it is, whether a future that is being polled ends the call
/// at it, whether it counts from now, and how far that future has come; in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(u64);

/// The span of a layer, which is never nothing at all: what holds one has room for a mark that it is not there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanOfLayer(NonZeroU64);

impl SpanOfLayer {
    pub(crate) const fn of(span: Span) -> Self {
        match NonZeroU64::new(span.0) {
            Some(span) => Self(span),
            None => Self(NonZeroU64::MIN),
        }
    }

    #[inline]
    pub(crate) const fn get(self) -> Span {
        Span(self.0.get())
    }
}

const OF_ATTEMPT: u64 = 1;
const WATCHED: u64 = 1 << 1;
// Only while the service is called and nothing has asked for the time since.
const FRESH: u64 = 1 << 2;
// Marks are between; nanoseconds are above.
const SHIFT: u32 = 7;
const LONGEST: u64 = u64::MAX >> SHIFT;

/// What a future notes of its deadline for itself, where there is room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Mark {
    /// A repeat would run into the same instant.
    Absolute = 1 << 3,
    /// The deadline had passed before the inner service was called.
    Passed = 1 << 4,
    /// The error has been returned.
    Done = 1 << 5,
    /// A timer that a layer below has made wakes this future in time.
    LeansOnBelow = 1 << 6,
}

impl Span {
    pub(crate) const NONE: Self = Self(0);

    /// No distance at all: the instant is the deadline.
    const fn zero(limit: Limit) -> Self {
        match limit {
            Limit::Call => Self(0),
            Limit::Attempt => Self(OF_ATTEMPT),
        }
    }

    /// A deadline at the instant itself, at which the future that puts it in scope ends the call.
    pub(crate) const fn at(limit: Limit) -> Self {
        Self(Self::zero(limit).0 | WATCHED)
    }

    /// The same, so much later. None where that is zero or does not fit, which is above four years.
    pub(crate) const fn after(distance: Duration, limit: Limit) -> Option<Self> {
        let Some(seconds) = distance.as_secs().checked_mul(1_000_000_000) else {
            return None;
        };
        match seconds.checked_add(distance.subsec_nanos() as u64) {
            Some(nanos @ 1..=LONGEST) => Some(Self(nanos << SHIFT | Self::at(limit).0)),
            _ => None,
        }
    }

    pub(crate) const fn limit(self) -> Limit {
        if self.0 & OF_ATTEMPT == 0 {
            Limit::Call
        } else {
            Limit::Attempt
        }
    }

    pub(super) const fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    #[must_use]
    pub(crate) const fn marked(self, mark: Mark) -> Self {
        Self(self.0 | mark as u64)
    }

    #[must_use]
    pub(crate) const fn marked_if(self, holds: bool, mark: Mark) -> Self {
        if holds { self.marked(mark) } else { self }
    }

    pub(crate) const fn has(self, mark: Mark) -> bool {
        self.0 & mark as u64 != 0
    }

    /// The same at what it counts from.
    #[must_use]
    pub(crate) const fn without_distance(self) -> Self {
        Self(self.0 & ((1 << SHIFT) - 1))
    }

    /// Whether the deadline is at what it counts from.
    #[inline]
    pub(crate) const fn is_zero(self) -> bool {
        self.0 >> SHIFT == 0
    }

    #[inline]
    const fn fresh(self) -> Self {
        Self(self.0 | FRESH)
    }

    #[inline]
    const fn stale(self) -> Self {
        Self(self.0 & !FRESH)
    }

    #[inline]
    const fn is_fresh(self) -> bool {
        self.0 & FRESH != 0
    }

    #[inline]
    const fn is_shorter_than(self, other: Self) -> bool {
        self.0 >> SHIFT < other.0 >> SHIFT
    }

    const fn distance(self) -> Duration {
        Duration::from_nanos(self.0 >> SHIFT)
    }

    /// The deadline that is so far from there.
    pub(crate) fn from(self, start: Option<Instant>) -> Deadline {
        let at = start.and_then(|start| clock::sum(start, self.distance()));
        Deadline::of(at, self.limit())
    }
}

/// What a span above zero counts from, where a call that begins now ends after that span; none where it may have to end
/// sooner, with the deadline around.
#[inline]
pub(crate) fn start_of(span: Span) -> Option<Instant> {
    let mut around = (None, Span::NONE);
    cells(|cells| around = (cells.start.get(), cells.span.get()));
    match around {
        (None, _) => Some(clock::now()),
        (start, outer) if outer.is_fresh() && span.is_shorter_than(outer) => start,
        _ => start_later(span, around.1.from(around.0)),
    }
}

#[cold]
fn start_later(span: Span, outer: Deadline) -> Option<Instant> {
    let now = clock::now();
    let own = clock::sum(now, span.distance())?;
    let is_nearer = outer.instant().is_none_or(|outer| own < outer);
    is_nearer.then_some(now)
}

/// Time has passed since the deadline in scope was put there.
#[inline]
pub(super) fn forget_now() {
    cells(|cells| cells.span.set(cells.span.get().stale()));
}

/// Narrows the deadline for as long as it lives.
///
/// Its parts are swapped one by one, because a struct with padding is copied through memory.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct DeadlineScope {
    start: Option<Instant>,
    span: Span,
}

impl DeadlineScope {
    /// While the inner service is called. The scope around no longer counts from now when this one ends.
    #[inline]
    pub(crate) fn call(start: Option<Instant>, span: Span) -> Self {
        Self::enter(start, span.fresh())
    }

    /// While the inner future is polled. The caller has already narrowed.
    #[inline]
    pub(crate) fn enter(start: Option<Instant>, span: Span) -> Self {
        let mut scope = Self { start, span };
        cells(|cells| {
            scope.start = cells.start.replace(start);
            scope.span = cells.span.replace(span).stale();
        });
        scope
    }

    /// A deadline that came from elsewhere: whoever ends the call at it does so there.
    pub(crate) fn captured(deadline: Deadline) -> Self {
        Self::enter(deadline.instant(), Span::zero(deadline.limit()))
    }

    /// Whether a future above, in this very poll, ends the call at this deadline.
    pub(crate) fn was_watched(&self, deadline: Deadline) -> bool {
        self.span.is_watched() && self.span.from(self.start) == deadline
    }
}

impl Drop for DeadlineScope {
    #[inline]
    fn drop(&mut self) {
        cells(|cells| {
            cells.start.set(self.start);
            cells.span.set(self.span);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_span_is_as_long_as_it_was_said_to_be() {
        let start = clock::now();
        for limit in [Limit::Call, Limit::Attempt] {
            for distance in [
                Duration::from_nanos(1),
                SECOND,
                Duration::from_nanos(LONGEST),
            ] {
                let span = Span::after(distance, limit).map(Span::fresh);
                let deadline = span.map(|span| span.from(Some(start)));
                assert_eq!(
                    deadline,
                    Some(Deadline::of(clock::sum(start, distance), limit))
                );
            }
            for none in [
                Duration::ZERO,
                Duration::from_nanos(LONGEST + 1),
                Duration::MAX,
            ] {
                assert_eq!(Span::after(none, limit), None);
            }
        }
    }

    #[test]
    fn a_mark_changes_no_more_than_itself() {
        let marks = [Mark::Absolute, Mark::Passed, Mark::Done, Mark::LeansOnBelow];
        let spans = [Some(Span::NONE), Span::after(SECOND, Limit::Attempt)];
        for span in spans.map(|span| span.unwrap_or(Span::NONE)) {
            for mark in marks {
                let marked = span.marked(mark);
                assert_eq!(
                    marks.map(|other| marked.has(other)),
                    marks.map(|other| other == mark)
                );
                assert_eq!(
                    (marked.distance(), marked.limit()),
                    (span.distance(), span.limit())
                );
                assert_eq!(
                    (marked.is_watched(), marked.is_fresh()),
                    (span.is_watched(), false)
                );
                assert_eq!(marked.is_zero(), span.is_zero());
            }
        }
    }

    #[test]
    fn only_the_first_one_below_counts_from_where_the_call_does() {
        let [call, attempt] = [2 * SECOND, SECOND].map(|distance| {
            let span = Span::after(distance, Limit::Call);
            span.unwrap_or(Span::NONE)
        });
        let long_ago = clock::now().checked_sub(SECOND / 2);
        let call = DeadlineScope::call(long_ago, call);
        assert_eq!(start_of(attempt), long_ago);
        drop(DeadlineScope::call(long_ago, attempt));
        assert!(start_of(attempt) > long_ago, "time has passed since");
        drop(call);
        assert_eq!(crate::context::deadline(), Deadline::never());
    }

    #[test]
    fn nothing_counts_from_a_call_that_is_being_polled() {
        let long_ago = clock::now().checked_sub(SECOND / 2);
        let span = |distance| Span::after(distance, Limit::Call).unwrap_or(Span::NONE);
        let _call = DeadlineScope::enter(long_ago, span(2 * SECOND));
        assert!(start_of(span(SECOND)) > long_ago);
        assert_eq!(start_of(span(2 * SECOND)), None, "the call ends sooner");
    }
}
