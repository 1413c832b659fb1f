//! Places for probes, reserved atomically, each with a lease.

use super::tag::{MAX_VALUE, Tag};
use crate::sync::{AtomicU64, Ordering};

/// A place nobody has.
const FREE: u64 = 0;
/// A place whose probe has succeeded: it is not given to another one.
const SPENT: u64 = MAX_VALUE;

/// The places of a half-open period, and how many probes have succeeded in it.
///
/// A place is free, or taken until the end of a lease, or spent. Because a success spends its place, at most as many
/// probes run at a time as are still needed to close.
///
/// Every access is relaxed: a place is one word, reserved by one compare-exchange, and guards nothing beside itself.
#[derive(Debug)]
pub(super) struct Probes {
    places: Box<[AtomicU64]>,
    successes: AtomicU64,
}

/// A reserved place: which one, and the word that shows whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    place: usize,
    word: u64,
}

impl Probes {
    pub(super) fn new(places: u32, first: Tag) -> Self {
        Self {
            places: (0..places)
                .map(|_| AtomicU64::new(first.with(FREE)))
                .collect(),
            successes: AtomicU64::new(first.with(0)),
        }
    }

    /// Reserves a place until the lease ends; none where all are taken, or where the generation is over. Times are
    /// microseconds on the breaker's own clock.
    pub(super) fn reserve(&self, tag: Tag, now: u64, lease: u64) -> Option<Probe> {
        let until = now.saturating_add(lease).clamp(1, SPENT.saturating_sub(1));
        self.places.iter().enumerate().find_map(|(place, cell)| {
            let mut word = cell.load(Ordering::Relaxed);
            while is_free(word, tag, now) {
                let mine = tag.with(until);
                match cell.compare_exchange_weak(word, mine, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some(Probe { place, word: mine }),
                    Err(actual) => word = actual,
                }
            }
            None
        })
    }

    /// Whether a place could be reserved now. Reserves nothing.
    pub(super) fn has_free(&self, tag: Tag, now: u64) -> bool {
        self.places
            .iter()
            .any(|cell| is_free(cell.load(Ordering::Relaxed), tag, now))
    }

    /// Gives a place back, unless its lease has ended and another probe has it.
    pub(super) fn release(&self, probe: Probe) {
        self.settle(probe, FREE);
    }

    /// Counts a success and spends its place; says how many there are now.
    pub(super) fn succeed(&self, tag: Tag, probe: Probe) -> u64 {
        self.settle(probe, SPENT);
        let counted = self
            .successes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let (current, count) = Tag::split(word);
                if current.is_newer_than(tag) {
                    None
                } else if current == tag {
                    Some(tag.with(count.saturating_add(1)))
                } else {
                    Some(tag.with(1))
                }
            });
        counted.map_or(0, |before| {
            let (current, count) = Tag::split(before);
            if current == tag { count.saturating_add(1) } else { 1 }
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    fn settle(&self, probe: Probe, value: u64) {
        if let Some(cell) = self.places.get(probe.place) {
            let (tag, _) = Tag::split(probe.word);
            // Fails where the place is no longer this probe's, and then it is not this probe's to settle.
            let _ = cell.compare_exchange(
                probe.word,
                tag.with(value),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
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
