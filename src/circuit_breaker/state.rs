//! The state machine: one word, changed by compare-exchange, and what hangs on its generation.
//!
//! Pure: time comes in as microseconds on the breaker's own clock, randomness as a word.

use super::probes::{Probe, Probes};
use super::settings::Settings;
use super::tag::{MAX_VALUE, Tag};
use super::window::{CountWindow, Counts, Record};
use crate::sync::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Open,
    HalfOpen,
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

const GENERATION_BITS: u32 = 54;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

impl State {
    const FIRST: Self = Self {
        phase: Phase::Closed,
        reopened: 0,
        generation: 1,
    };

    fn next(self, phase: Phase, reopened: u8) -> Self {
        Self {
            phase,
            reopened,
            generation: self.generation.wrapping_add(1) & GENERATION_MASK,
        }
    }

    pub(super) fn tag(self) -> Tag {
        Tag::of(self.generation)
    }

    fn pack(self) -> u64 {
        let phase = match self.phase {
            Phase::Closed => 0,
            Phase::Open => 1,
            Phase::HalfOpen => 2,
        };
        phase << 62 | u64::from(self.reopened) << GENERATION_BITS | self.generation
    }

    fn unpack(word: u64) -> Self {
        Self {
            phase: match word >> 62 {
                0 => Phase::Closed,
                1 => Phase::Open,
                _ => Phase::HalfOpen,
            },
            reopened: (word >> GENERATION_BITS & 0xff) as u8,
            generation: word & GENERATION_MASK,
        }
    }
}

/// The state's word.
///
/// A transition releases, a look acquires: whoever sees a generation also sees what was done before it began.
#[derive(Debug)]
struct AtomicState(AtomicU64);

impl AtomicState {
    fn load(&self) -> State {
        State::unpack(self.0.load(Ordering::Acquire))
    }

    fn change(&self, from: State, to: State) -> bool {
        self.0
            .compare_exchange(
                from.pack(),
                to.pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }
}

/// What one outcome says of the dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    /// It says nothing, and is not counted.
    Neutral,
}

/// A call that was let through: in which generation, and as which probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) generation: u64,
    pub(super) probe: Option<Probe>,
}

#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    state: AtomicState,
    // When the open period of the tagged generation ends.
    until: AtomicU64,
    window: CountWindow,
    probes: Probes,
}

impl Machine {
    pub(super) fn new(settings: Settings) -> Self {
        let first = State::FIRST;
        Self {
            state: AtomicState(AtomicU64::new(first.pack())),
            until: AtomicU64::new(first.tag().with(0)),
            window: CountWindow::new(settings.window, first.tag()),
            probes: Probes::new(settings.probes, first.tag()),
            settings,
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Lets a call through, or says for how many microseconds it would be refused. `now` is read only where the breaker
    /// is not closed.
    pub(super) fn admit(&self, now: impl Fn() -> u64) -> Result<Admission, u64> {
        loop {
            let state = self.state.load();
            let half_open = match state.phase {
                Phase::Closed => {
                    return Ok(Admission {
                        generation: state.generation,
                        probe: None,
                    });
                }
                Phase::Open => {
                    let remaining = self.remaining(state, now());
                    if remaining > 0 {
                        return Err(remaining);
                    }
                    let next = state.next(Phase::HalfOpen, state.reopened);
                    if !self.state.change(state, next) {
                        continue;
                    }
                    next
                }
                Phase::HalfOpen => state,
            };
            let lease = self.settings.probe_lease;
            return match self.probes.reserve(half_open.tag(), now(), lease) {
                Some(probe) => Ok(Admission {
                    generation: half_open.generation,
                    probe: Some(probe),
                }),
                // Probing may end at any moment, so there is nothing to wait for.
                None => Err(0),
            };
        }
    }

    /// Whether a call would be refused now. Changes nothing.
    pub(super) fn refuses(&self, now: impl Fn() -> u64) -> bool {
        let state = self.state.load();
        match state.phase {
            Phase::Closed => false,
            Phase::Open => self.remaining(state, now()) > 0,
            Phase::HalfOpen => !self.probes.has_free(state.tag(), now()),
        }
    }

    /// The phase as the clock has it: an open period that has ended is half-open, also without a call.
    pub(super) fn phase(&self, now: impl Fn() -> u64) -> Phase {
        let state = self.state.load();
        match state.phase {
            Phase::Open if self.remaining(state, now()) == 0 => Phase::HalfOpen,
            phase => phase,
        }
    }

    /// Microseconds until the breaker would let a probe through; zero where it is not open.
    pub(super) fn remaining_open(&self, now: impl Fn() -> u64) -> u64 {
        let state = self.state.load();
        match state.phase {
            Phase::Open => self.remaining(state, now()),
            Phase::Closed | Phase::HalfOpen => 0,
        }
    }

    /// Whether nothing has changed since this call was admitted.
    pub(super) fn is_current(&self, generation: u64) -> bool {
        self.state.load().generation == generation
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state.load();
        self.window.counts(state.tag())
    }

    /// Counts an outcome in the generation its call was admitted in; in any other it is ignored.
    pub(super) fn record(
        &self,
        admission: Admission,
        outcome: Outcome,
        now: impl Fn() -> u64,
        random: impl Fn() -> u64,
    ) {
        let state = self.state.load();
        if state.generation != admission.generation || outcome == Outcome::Neutral {
            self.release(admission);
            return;
        }
        match (state.phase, admission.probe) {
            (Phase::Closed, _) => {
                let record = Record {
                    failure: outcome == Outcome::Failure,
                    slow: false,
                };
                let counts = self.window.record(state.tag(), record);
                if counts.is_some_and(|counts| self.settings.trips(counts)) {
                    self.open(state, 0, now(), random());
                }
            }
            (Phase::HalfOpen, Some(_)) if outcome == Outcome::Failure => {
                self.open(state, state.reopened.saturating_add(1), now(), random());
            }
            (Phase::HalfOpen, Some(probe)) => {
                if self.probes.succeed(state.tag(), probe) >= self.probes.len() {
                    self.state.change(state, state.next(Phase::Closed, 0));
                }
            }
            // Nobody is admitted while open, and nobody but a probe while half-open.
            (Phase::Open, _) | (Phase::HalfOpen, None) => {}
        }
    }

    /// The call ended without an outcome: a probe's place goes back.
    pub(super) fn release(&self, admission: Admission) {
        if let Some(probe) = admission.probe {
            self.probes.release(probe);
        }
    }

    /// Opens, once: whoever loses the race has nothing left to do.
    fn open(&self, from: State, reopened: u8, now: u64, random: u64) {
        let open = from.next(Phase::Open, reopened);
        if self.state.change(from, open) {
            let end = now.saturating_add(self.settings.open_for(reopened, random));
            self.set_until(open.tag(), end);
        }
    }

    /// Only the winner of a transition writes the end of its period. It may be late, so it never overwrites a newer one.
    fn set_until(&self, tag: Tag, end: u64) {
        let _ = self
            .until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let (current, _) = Tag::split(word);
                (!current.is_newer_than(tag)).then(|| tag.with(end))
            });
    }

    /// Microseconds that are left of the open period of this state. A period whose end is not written yet has only just
    /// begun.
    fn remaining(&self, state: State, now: u64) -> u64 {
        let (tag, end) = Tag::split(self.until.load(Ordering::Acquire));
        if tag != state.tag() {
            return self.settings.open_for(state.reopened, u64::MAX).max(1);
        }
        if end == MAX_VALUE {
            // An open time that cannot be represented never ends.
            return MAX_VALUE;
        }
        end.saturating_sub(now)
    }
}
