//! Failures in a row.

use super::tag::Tag;
use crate::sync::{AtomicU64, Ordering};

/// How many failures there were since the last success. A success in a row of successes only reads.
///
/// Every access is relaxed: it is one word, and nothing else is published through it.
#[derive(Debug)]
pub(super) struct Streak(AtomicU64);

impl Streak {
    pub(super) fn new(first: Tag) -> Self {
        Self(AtomicU64::new(first.with(0)))
    }

    /// Records an outcome and says how long the streak then is. An outcome of an older generation changes nothing.
    #[inline]
    pub(super) fn record(&self, tag: Tag, failure: bool) -> u64 {
        let after = |word| {
            let (current, count) = Tag::split(word);
            let count = if current == tag { count } else { 0 };
            if failure { count.saturating_add(1) } else { 0 }
        };
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let (current, _) = Tag::split(word);
                let unchanged = after(word) == 0 && (current != tag || word == tag.with(0));
                (!unchanged && !current.is_newer_than(tag)).then(|| tag.with(after(word)))
            })
            .map_or(0, after)
    }

    /// See [`Tag::refresh`].
    pub(super) fn refresh(&self, tag: Tag) {
        tag.refresh(&self.0, 0);
    }

    #[inline]
    pub(super) fn of(&self, tag: Tag) -> u64 {
        let (current, count) = Tag::split(self.0.load(Ordering::Relaxed));
        if current == tag { count } else { 0 }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_from_an_older_generation_ends_no_streak_and_adds_to_none() {
        let (old, new) = (Tag::of(1), Tag::of(2));
        let streak = Streak::new(old);
        assert_eq!(streak.record(old, true), 1);
        assert_eq!(streak.record(new, true), 1);
        assert_eq!(streak.record(new, true), 2);
        for failure in [true, false] {
            streak.record(old, failure);
            assert_eq!((streak.of(new), streak.of(old)), (2, 0));
        }
        assert_eq!(streak.record(new, false), 0);
        assert_eq!(streak.of(new), 0);
    }
}
