//! The count window: the last N outcomes, sliding by one with each.

use super::tag::Tag;
use super::window::{Counts, Record};
use crate::sync::{AtomicU64, Ordering};

/// The largest window. Its counts have fourteen bits each.
pub(super) const MAX_WINDOW: u32 = 10_000;

const FAILURE: u64 = 1;
const SLOW: u64 = 1 << 1;

impl Record {
    const fn bits(self) -> u64 {
        (if self.failure { FAILURE } else { 0 }) | (if self.slow { SLOW } else { 0 })
    }

    const fn of(bits: u64) -> Self {
        Self {
            failure: bits & FAILURE != 0,
            slow: bits & SLOW != 0,
        }
    }
}

/// What stood in the place of a new outcome, in the same generation.
#[derive(Debug, Clone, Copy)]
enum Replaced {
    Nothing,
    Outcome(Record),
}

/// A ring of outcomes and their running sums.
///
/// An outcome swaps itself into the next place of the ring and adds the difference to what stood there, in one word
/// that holds all three sums. The sum of all differences is exactly what the ring holds, whatever the interleaving. A
/// difference may arrive before that of the outcome it replaces, so failures and slow calls are stored with an offset
/// that keeps them from going below zero for that instant.
///
/// Every access is relaxed: each word is exact by itself, and nothing else in memory is published through them.
#[derive(Debug)]
pub(super) struct CountWindow {
    counts: AtomicU64,
    cursor: AtomicU64,
    ring: Box<[AtomicU64]>,
    // The counts of a full window in which nothing has failed or was slow, but for the tag.
    healthy: u64,
}

const OFFSET: u64 = 1 << 14;
const FIELD: u64 = 0xffff;

impl CountWindow {
    pub(super) fn new(length: u32, first: Tag) -> Self {
        Self {
            counts: AtomicU64::new(pack(first, Sums::EMPTY)),
            cursor: AtomicU64::new(0),
            ring: first.before().cells(length, 0),
            healthy: Sums::healthy(length).value(),
        }
    }

    /// Whether one more success would leave it as it is.
    #[inline]
    pub(super) fn is_full_of_success(&self, tag: Tag) -> bool {
        self.counts.load(Ordering::Relaxed) == tag.beside(self.healthy)
    }

    /// Records an outcome of a generation, and says what the window then holds. `None` where there is nothing to evaluate:
    /// the outcome came too late, or nothing has failed.
    #[inline]
    pub(super) fn record(&self, tag: Tag, record: Record) -> Option<Counts> {
        if record.bits() == 0 && self.is_full_of_success(tag) {
            // The window would hold the same afterwards, and no rate can have risen.
            return None;
        }
        let replaced = self.replace(tag, record)?;
        let mut word = self.counts.load(Ordering::Relaxed);
        loop {
            let (current, sums) = unpack(word);
            let sums = if current == tag {
                sums
            } else if current.is_newer_than(tag) {
                return None;
            } else {
                Sums::EMPTY
            };
            let sums = sums.after(record, replaced);
            match self.counts.compare_exchange_weak(
                word,
                pack(tag, sums),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(sums.counts()),
                Err(actual) => word = actual,
            }
        }
    }

    /// Puts the outcome into the next place of the ring, unless it came too late.
    fn replace(&self, tag: Tag, record: Record) -> Option<Replaced> {
        let turn = self.cursor.fetch_add(1, Ordering::Relaxed);
        let place = turn.checked_rem(self.ring.len() as u64)?;
        let cell = self.ring.get(usize::try_from(place).ok()?)?;
        let mut word = cell.load(Ordering::Relaxed);
        loop {
            let (old, bits) = Tag::split(word);
            if old.is_newer_than(tag) {
                return None;
            }
            match cell.compare_exchange_weak(
                word,
                tag.with(record.bits()),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) if old == tag => return Some(Replaced::Outcome(Record::of(bits))),
                Ok(_) => return Some(Replaced::Nothing),
                Err(actual) => word = actual,
            }
        }
    }

    /// See [`Tag::refresh`].
    pub(super) fn refresh(&self, tag: Tag) {
        for cell in &self.ring {
            tag.refresh(cell, 0);
        }
        let (_, empty) = Tag::split(pack(tag, Sums::EMPTY));
        tag.refresh(&self.counts, empty);
    }

    /// What the window holds of a generation.
    pub(super) fn counts(&self, tag: Tag) -> Counts {
        let (current, sums) = unpack(self.counts.load(Ordering::Relaxed));
        if current == tag {
            sums.counts()
        } else {
            Counts::default()
        }
    }
}

/// The three sums as they are stored.
#[derive(Debug, Clone, Copy)]
struct Sums {
    total: u64,
    failures: u64,
    slow: u64,
}

impl Sums {
    const EMPTY: Self = Self {
        total: 0,
        failures: OFFSET,
        slow: OFFSET,
    };

    /// Of a window that is full, and in which nothing has failed or was slow.
    const fn healthy(length: u32) -> Self {
        Self {
            total: length as u64,
            ..Self::EMPTY
        }
    }

    /// As it is stored beside a tag.
    const fn value(self) -> u64 {
        (self.total & FIELD) << 32 | (self.failures & FIELD) << 16 | (self.slow & FIELD)
    }

    fn after(self, new: Record, replaced: Replaced) -> Self {
        let (more, failure, slow) = match replaced {
            Replaced::Nothing => (1, false, false),
            Replaced::Outcome(old) => (0, old.failure, old.slow),
        };
        let swap = |sum: u64, new: bool, old: bool| {
            sum.saturating_add(u64::from(new))
                .saturating_sub(u64::from(old))
        };
        Self {
            total: self.total.saturating_add(more),
            failures: swap(self.failures, new.failure, failure),
            slow: swap(self.slow, new.slow, slow),
        }
    }

    fn counts(self) -> Counts {
        let plain = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Counts {
            total: plain(self.total),
            failures: plain(self.failures.saturating_sub(OFFSET)),
            slow: plain(self.slow.saturating_sub(OFFSET)),
        }
    }
}

const fn pack(tag: Tag, sums: Sums) -> u64 {
    tag.with(sums.value())
}

#[inline]
fn unpack(word: u64) -> (Tag, Sums) {
    let (tag, value) = Tag::split(word);
    let sums = Sums {
        total: value >> 32 & FIELD,
        failures: value >> 16 & FIELD,
        slow: value & FIELD,
    };
    (tag, sums)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_difference_may_come_before_that_of_the_outcome_it_replaces() {
        let fine = Record::of(0);
        let bad = Record::of(FAILURE | SLOW);
        let early = Sums::EMPTY.after(fine, Replaced::Outcome(bad));
        let both = early.after(bad, Replaced::Nothing);
        for (sums, total) in [(early, 0), (both, 1)] {
            let (_, sums) = unpack(pack(Tag::of(1), sums));
            let counts = sums.counts();
            assert_eq!((counts.total, counts.failures, counts.slow), (total, 0, 0));
        }
    }
}
