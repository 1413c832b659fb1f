//! The state's word: phase, reopenings and generation, changed by compare-exchange and in no other way.

use super::tag::Tag;
use crate::sync::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Open,
    HalfOpen,
    ForcedOpen,
    ForcedClosed,
}

/// Phase, how often it has opened since it was last closed, and generation, as one value.
///
/// The generation counts transitions. Whatever was admitted in one is counted in that one or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) reopened: u8,
    pub(super) generation: u64,
}

const PHASE_SHIFT: u32 = 61;
const GENERATION_BITS: u32 = 53;
pub(super) const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

impl State {
    pub(super) const FIRST: Self = Self {
        phase: Phase::Closed,
        reopened: 0,
        generation: 1,
    };

    /// The state after a transition.
    pub(super) const fn next(self, phase: Phase, reopened: u8) -> Self {
        Self {
            phase,
            reopened,
            generation: self.generation.wrapping_add(1) & GENERATION_MASK,
        }
    }

    #[inline]
    pub(super) const fn tag(self) -> Tag {
        Tag::of(self.generation)
    }

    const fn pack(self) -> u64 {
        let phase = match self.phase {
            Phase::Closed => 0,
            Phase::Open => 1,
            Phase::HalfOpen => 2,
            Phase::ForcedOpen => 3,
            Phase::ForcedClosed => 4,
        };
        phase << PHASE_SHIFT | (self.reopened as u64) << GENERATION_BITS | self.generation
    }

    #[inline]
    const fn unpack(word: u64) -> Self {
        Self {
            phase: match word >> PHASE_SHIFT {
                0 => Phase::Closed,
                1 => Phase::Open,
                2 => Phase::HalfOpen,
                3 => Phase::ForcedOpen,
                _ => Phase::ForcedClosed,
            },
            reopened: (word >> GENERATION_BITS & 0xff) as u8,
            generation: word & GENERATION_MASK,
        }
    }
}

/// A transition releases, a look acquires: whoever sees a generation also sees what was done before it began.
#[derive(Debug)]
pub(super) struct AtomicState(AtomicU64);

impl AtomicState {
    pub(super) fn new(state: State) -> Self {
        Self(AtomicU64::new(state.pack()))
    }

    #[inline]
    pub(super) fn load(&self) -> State {
        State::unpack(self.0.load(Ordering::Acquire))
    }

    /// The generation, where it is closed: what most calls want to know, in one comparison.
    #[inline]
    pub(super) fn closed_generation(&self) -> Option<u64> {
        let word = self.0.load(Ordering::Acquire);
        // Closed is the phase of zero.
        (word >> PHASE_SHIFT == 0).then_some(word & GENERATION_MASK)
    }

    /// Makes a transition, unless another one was made first.
    pub(super) fn change(&self, from: State, to: State) -> bool {
        self.0
            .compare_exchange(from.pack(), to.pack(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// A point in time that belongs to one generation. Microseconds on the breaker's own clock.
///
/// Only the winner of a transition writes it. It may be late, so it never overwrites that of a newer generation.
#[derive(Debug)]
pub(super) struct Moment(AtomicU64);

impl Moment {
    pub(super) fn new(first: Tag) -> Self {
        Self(AtomicU64::new(first.with(0)))
    }

    pub(super) fn set(&self, tag: Tag, at: u64) {
        self.update(|current, _| (!current.is_newer_than(tag)).then(|| tag.with(at)));
    }

    /// Moves it later, where it is of this generation.
    pub(super) fn extend(&self, tag: Tag, at: u64) {
        self.update(|current, now| (current == tag && now < at).then(|| tag.with(at)));
    }

    /// See [`Tag::refresh`].
    pub(super) fn refresh(&self, tag: Tag) {
        tag.refresh(&self.0, 0);
    }

    /// None where the winner has not written it yet.
    pub(super) fn of(&self, tag: Tag) -> Option<u64> {
        let (current, at) = Tag::split(self.0.load(Ordering::Acquire));
        (current == tag).then_some(at)
    }

    fn update(&self, to: impl Fn(Tag, u64) -> Option<u64>) {
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let (tag, at) = Tag::split(word);
                to(tag, at)
            });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_moment_moves_later_in_its_own_generation_and_in_no_other() {
        let (before, tag, after) = (Tag::of(1), Tag::of(2), Tag::of(3));
        let moment = Moment::new(before);
        moment.set(tag, 50);
        for other in [before, after] {
            moment.extend(other, 90);
            assert_eq!((moment.of(tag), moment.of(other)), (Some(50), None));
        }
        for (at, expected) in [(49, 50), (50, 50), (51, 51)] {
            moment.extend(tag, at);
            assert_eq!(moment.of(tag), Some(expected));
        }
        moment.set(before, 90);
        assert_eq!(
            moment.of(tag),
            Some(51),
            "whoever is late overwrites nothing"
        );
    }
}
