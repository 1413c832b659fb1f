//! Places for probes, reserved atomically, each with a lease.

use std::num::NonZeroU64;

use super::tag::{MAX_VALUE, Tag};
use crate::sync::{AtomicU64, Ordering};

/// A place nobody has.
const FREE: u64 = 0;
/// A place whose probe has been counted: it is not given to another one.
const SPENT: u64 = MAX_VALUE;

/// The places of a half-open period, and how its probes ended.
///
/// A place is free, or taken until the end of a lease, or spent. Because an outcome spends its place, at most as many
/// probes run at a time as are still needed to decide.
///
/// A place is one word, reserved by one compare-exchange, and guards nothing beside itself, so every access to it is
/// relaxed. The tally is only read by writing it, with an acquire and a release: of an outcome and a change of the
/// settings, the later one sees the other.
#[derive(Debug)]
pub(super) struct Probes {
    places: Box<[AtomicU64]>,
    tally: AtomicU64,
}

/// How the probes of a period ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) successes: u64,
    pub(super) failures: u64,
}

impl Tally {
    const fn of(value: u64) -> Self {
        Self {
            successes: value & SUCCESSES_MASK,
            failures: value >> FAILURES_SHIFT,
        }
    }
}

const FAILURES_SHIFT: u32 = 24;
const SUCCESSES_MASK: u64 = (1 << FAILURES_SHIFT) - 1;

/// A reserved place, by the word in it. Two probes of one microsecond have the same word, and then it does not matter
/// which of the two places is whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe(NonZeroU64);

impl Probes {
    pub(super) fn new(places: u32, first: Tag) -> Self {
        Self {
            places: first.cells(places, FREE),
            tally: AtomicU64::new(first.with(0)),
        }
    }

    /// Reserves a place until the lease ends; none where all are taken, or where the generation is over. Times are
    /// microseconds on the breaker's own clock.
    pub(super) fn reserve(&self, tag: Tag, places: u64, now: u64, lease: u64) -> Option<Probe> {
        let until = now.saturating_add(lease).clamp(1, SPENT.saturating_sub(1));
        // Its end is not zero, so the word is not.
        let mine = NonZeroU64::new(tag.with(until))?;
        self.usable(places).find_map(|cell| {
            let mut word = cell.load(Ordering::Relaxed);
            while is_free(word, tag, now) {
                let taken = cell.compare_exchange_weak(
                    word,
                    mine.get(),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                match taken {
                    Ok(_) => return Some(Probe(mine)),
                    Err(actual) => word = actual,
                }
            }
            None
        })
    }

    /// Whether a place could be reserved now. Reserves nothing.
    pub(super) fn has_free(&self, tag: Tag, places: u64, now: u64) -> bool {
        self.usable(places)
            .any(|cell| is_free(cell.load(Ordering::Relaxed), tag, now))
    }

    /// Gives a place back, unless its lease has ended and another probe has it.
    pub(super) fn release(&self, probe: Probe) {
        self.put_back(probe, FREE);
    }

    /// Counts an outcome and spends its place; says how the probes have ended so far.
    pub(super) fn settle(&self, tag: Tag, probe: Probe, failed: bool) -> Tally {
        self.put_back(probe, SPENT);
        self.add(tag, if failed { 1 << FAILURES_SHIFT } else { 1 })
    }

    /// How the probes of a period have ended so far.
    pub(super) fn tally(&self, tag: Tag) -> Tally {
        self.add(tag, 0)
    }

    fn add(&self, tag: Tag, outcome: u64) -> Tally {
        let after = |word| {
            let (current, tally) = Tag::split(word);
            let tally = if current == tag { tally } else { 0 };
            tally.saturating_add(outcome)
        };
        let tally = self
            .tally
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
                let (current, _) = Tag::split(word);
                (!current.is_newer_than(tag)).then(|| tag.with(after(word)))
            })
            .map_or(0, after);
        Tally::of(tally)
    }

    /// See [`Tag::refresh`].
    pub(super) fn refresh(&self, tag: Tag) {
        for cell in &self.places {
            tag.refresh(cell, FREE);
        }
        tag.refresh(&self.tally, 0);
    }

    /// As many places as the settings ask for, of those there are.
    fn usable(&self, places: u64) -> impl Iterator<Item = &AtomicU64> {
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        self.places.iter().take(places)
    }

    fn put_back(&self, probe: Probe, value: u64) {
        let mine = probe.0.get();
        let (tag, _) = Tag::split(mine);
        // Where no place holds the word, the lease has ended and another probe has it: nothing is ours to put back.
        self.places.iter().any(|cell| {
            cell.compare_exchange(mine, tag.with(value), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
    }
}

fn is_free(word: u64, tag: Tag, now: u64) -> bool {
    let (current, value) = Tag::split(word);
    if current == tag {
        value == FREE || (value != SPENT && value <= now)
    } else {
        !current.is_newer_than(tag)
    }
}
