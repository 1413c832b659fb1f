//! The time window: the outcomes of the last while, in a ring of buckets.
//!
//! It costs the same whatever the traffic: an outcome adds to one bucket, and the buckets are summed up only while
//! there is trouble among them.

use super::tag::Tag;
use super::window::{Counts, Record};
use crate::sync::{AtomicU64, Ordering};

/// An outcome leaves the window when its bucket does: at the latest after the whole span, at the soonest a twentieth of
/// it earlier.
const BUCKETS: u64 = 20;

/// A ring of buckets, each for a twentieth of the span.
///
/// A bucket has three counters, and each carries the stamp of its generation and time. A counter of another stamp
/// counts as empty, so time alone expires outcomes, and a bucket is reused by whoever comes first.
///
/// Every access is relaxed: each counter is exact by itself. An outcome adds to the total before it adds to the
/// failures, so a rate is never above what it will be.
#[derive(Debug)]
pub(super) struct TimeWindow {
    width: u64,
    buckets: Box<[Bucket]>,
    // The stamp of the last bucket with a failure or a slow call in it.
    trouble: Counter,
}

#[derive(Debug)]
struct Bucket {
    total: Counter,
    failures: Counter,
    slow: Counter,
}

impl TimeWindow {
    /// A window of this many microseconds.
    pub(super) fn new(span: u64, first: Tag) -> Self {
        let empty = Stamp::at(first.before(), 0);
        let counter = || Counter(AtomicU64::new(empty.with(0)));
        Self {
            width: span.div_ceil(BUCKETS).max(1),
            buckets: (0..BUCKETS)
                .map(|_| Bucket {
                    total: counter(),
                    failures: counter(),
                    slow: counter(),
                })
                .collect(),
            trouble: counter(),
        }
    }

    pub(super) fn record(&self, tag: Tag, record: Record, now: u64) -> Option<Counts> {
        let epoch = self.epoch(now);
        let stamp = Stamp::at(tag, epoch);
        let bucket = self.bucket(epoch)?;
        if !bucket.total.add(stamp) {
            return None;
        }
        if record.failure {
            bucket.failures.add(stamp);
        }
        if record.slow {
            bucket.slow.add(stamp);
        }
        if record.failure || record.slow {
            self.trouble.add(stamp);
        } else if !self.trouble.is_within(tag, epoch) {
            // Nothing but successes: no rate can have risen.
            return None;
        }
        Some(self.counts(tag, now))
    }

    pub(super) fn counts(&self, tag: Tag, now: u64) -> Counts {
        let epoch = self.epoch(now);
        let sum = |counter: fn(&Bucket) -> &Counter| {
            self.buckets.iter().fold(0_u32, |sum, bucket| {
                sum.saturating_add(counter(bucket).within(tag, epoch))
            })
        };
        // Failures first: whatever is recorded in between can only add to the total.
        let failures = sum(|bucket| &bucket.failures);
        let slow = sum(|bucket| &bucket.slow);
        Counts {
            total: sum(|bucket| &bucket.total),
            failures,
            slow,
        }
    }

    /// See [`Tag::refresh`].
    pub(super) fn refresh(&self, tag: Tag) {
        for bucket in &self.buckets {
            bucket.total.refresh(tag);
            bucket.failures.refresh(tag);
            bucket.slow.refresh(tag);
        }
        self.trouble.refresh(tag);
    }

    fn epoch(&self, now: u64) -> u64 {
        now.checked_div(self.width).unwrap_or(0)
    }

    fn bucket(&self, epoch: u64) -> Option<&Bucket> {
        self.buckets
            .get(usize::try_from(epoch.checked_rem(BUCKETS)?).ok()?)
    }
}

/// Which generation and which bucket of time: 12 and 28 bits, the highest of a counter's word.
///
/// Both wrap. Generations are brought along before they do; the time of the smallest buckets comes round after 15 days,
/// so it is compared around the circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64);

const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const EPOCH_BITS: u32 = 28;
const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;
const TAG_MASK: u64 = (1 << 12) - 1;

/// How many buckets ahead a counter can be of somebody who read the clock before it was started. Further ahead is what
/// has stayed behind for nearly a whole turn.
const LATE: u64 = 1 << 16;

impl Stamp {
    const fn at(tag: Tag, epoch: u64) -> Self {
        Self(tag.low() << EPOCH_BITS | epoch & EPOCH_MASK)
    }

    const fn of(word: u64) -> Self {
        Self(word >> COUNT_BITS)
    }

    const fn with(self, count: u64) -> u64 {
        self.0 << COUNT_BITS | count
    }

    /// How many generations this stamp is ahead of the other.
    const fn generations_after(self, other: Self) -> u64 {
        (self.0 >> EPOCH_BITS).wrapping_sub(other.0 >> EPOCH_BITS) & TAG_MASK
    }

    /// How many buckets of time this stamp is ahead of the other.
    const fn epochs_after(self, other: Self) -> u64 {
        self.0.wrapping_sub(other.0) & EPOCH_MASK
    }

    /// Of a later generation, or later in the same one.
    const fn is_newer_than(self, other: Self) -> bool {
        match self.generations_after(other) {
            0 => matches!(self.epochs_after(other), 1..LATE),
            ahead => ahead <= TAG_MASK / 2,
        }
    }

    /// Whether it is of this generation and in the window that ends with this bucket of time.
    const fn is_within(self, tag: Tag, epoch: u64) -> bool {
        let now = Self::at(tag, epoch);
        now.generations_after(self) == 0 && now.epochs_after(self) < BUCKETS
    }
}

/// A count of one stamp.
#[derive(Debug)]
struct Counter(AtomicU64);

impl Counter {
    /// Adds one; refused where the stamp is over. It stops counting at 16 million, in one twentieth of a window.
    fn add(&self, stamp: Stamp) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let current = Stamp::of(word);
                if current == stamp {
                    let count = (word & COUNT_MASK).saturating_add(1).min(COUNT_MASK);
                    Some(stamp.with(count))
                } else {
                    (!current.is_newer_than(stamp)).then(|| stamp.with(1))
                }
            })
            .is_ok()
    }

    /// See [`Tag::refresh`].
    fn refresh(&self, tag: Tag) {
        let word = self.0.load(Ordering::Relaxed);
        let before = Stamp::at(tag.before(), 0);
        let behind = before.generations_after(Stamp::of(word));
        if (1..=TAG_MASK / 2).contains(&behind) {
            let _ =
                self.0
                    .compare_exchange(word, before.with(0), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn is_within(&self, tag: Tag, epoch: u64) -> bool {
        Stamp::of(self.0.load(Ordering::Relaxed)).is_within(tag, epoch)
    }

    /// The count, where it is within the window.
    fn within(&self, tag: Tag, epoch: u64) -> u32 {
        let word = self.0.load(Ordering::Relaxed);
        if Stamp::of(word).is_within(tag, epoch) {
            u32::try_from(word & COUNT_MASK).unwrap_or(u32::MAX)
        } else {
            0
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The width of a bucket.
    const TICK: u64 = 1000;
    const FAILED: Record = Record {
        failure: true,
        slow: false,
    };
    const FINE: Record = Record {
        failure: false,
        slow: false,
    };

    fn window(generation: u64) -> TimeWindow {
        TimeWindow::new(BUCKETS * TICK, Tag::of(generation))
    }

    fn counts(total: u32, failures: u32) -> Counts {
        Counts {
            total,
            failures,
            slow: 0,
        }
    }

    #[test]
    fn what_comes_late_from_an_older_generation_is_not_counted() {
        // The tag of a counter wraps at 4096, and half of it is past.
        for (old, new) in [(1, 2), (1, 512), (4095, 4096), (4000, 4512), (1, 2048)] {
            let (old, new) = (Tag::of(old), Tag::of(new));
            let window = TimeWindow::new(BUCKETS * TICK, old);
            assert_eq!(window.record(old, FAILED, 0), Some(counts(1, 1)));
            assert_eq!(window.record(new, FAILED, 0), Some(counts(1, 1)));
            assert_eq!(window.record(old, FAILED, 0), None);
            assert_eq!(window.counts(new, 0), counts(1, 1));
            assert_eq!(window.counts(old, 0), counts(0, 0));
        }
    }

    #[test]
    fn who_read_the_clock_before_a_bucket_was_reused_is_not_counted() {
        let (tag, window) = (Tag::of(1), window(1));
        let turn = BUCKETS * TICK;
        let now = 4000 * turn;
        assert_eq!(window.record(tag, FAILED, now), Some(counts(1, 1)));
        assert_eq!(window.record(tag, FAILED, now - turn), None);
        assert_eq!(window.counts(tag, now), counts(1, 1));
        // So far behind is nobody: the time has come round, and what is there has stayed behind.
        let before = now - 3277 * turn;
        assert_eq!(window.record(tag, FAILED, before), Some(counts(1, 1)));
        assert_eq!(window.counts(tag, now), counts(0, 0));
    }

    #[test]
    fn successes_alone_are_nothing_to_evaluate() {
        let (tag, window) = (Tag::of(1), window(1));
        assert_eq!(window.record(tag, FINE, 0), None);
        assert_eq!(window.record(tag, FAILED, TICK), Some(counts(2, 1)));
        let last = BUCKETS * TICK;
        assert_eq!(window.record(tag, FINE, last), Some(counts(2, 1)));
        assert_eq!(window.record(tag, FINE, last + TICK), None);
        assert_eq!(window.counts(tag, last + TICK), counts(2, 0));
    }

    #[test]
    fn a_counter_that_nobody_touches_stays_old_for_ever() {
        let window = window(1);
        window.record(Tag::of(1), FAILED, 0);
        for generation in 2..20_000 {
            if generation % super::super::tag::REFRESH == 0 {
                window.refresh(Tag::of(generation));
            }
            let tag = Tag::of(generation);
            assert_eq!(window.counts(tag, 0), counts(0, 0), "in {generation}");
        }
        assert_eq!(window.record(Tag::of(20_000), FINE, 0), None);
        assert_eq!(window.counts(Tag::of(20_000), 0), counts(1, 0));
    }

    #[test]
    fn what_is_new_is_not_brought_along() {
        for held in [511, 512, 513] {
            let (tag, window) = (Tag::of(held), window(511));
            window.record(tag, FAILED, 0);
            window.refresh(Tag::of(512));
            assert_eq!(window.counts(tag, 0), counts(1, 1), "of {held}");
        }
    }
}
