//! The machine: who is let through, what an outcome changes.
//!
//! Pure: time comes in as microseconds on the breaker's own clock, randomness as a word. Both are asked for only where
//! they are needed, which is never while closed in a count window.

use super::live::{Live, ProbeVerdict};
use super::probes::{Probe, Probes, Tally};
use super::settings::Settings;
use super::state::{AtomicState, Moment, Phase, State};
use super::streak::Streak;
use super::tag::{MAX_VALUE, REFRESH, Tag};
use super::window::{Counts, Record, Window};

/// What one outcome says of the dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Failure,
    /// It says nothing, and is not counted.
    Neutral,
}

/// An outcome and what came with it, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) outcome: Outcome,
    /// How long it took, where that was measured.
    pub(super) took: Option<u64>,
    /// How long the server asked to stay away.
    pub(super) hint: Option<u64>,
    /// Whether the server said that it is busy.
    pub(super) throttled: bool,
}

/// A call that was let through: in which generation, and as which probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) generation: u64,
    pub(super) probe: Option<Probe>,
}

impl Admission {
    /// Into a closed breaker.
    #[inline]
    pub(super) const fn of(generation: u64) -> Self {
        Self {
            generation,
            probe: None,
        }
    }
}

/// A transition that this thread has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) from: State,
    pub(super) to: State,
}

#[derive(Debug)]
pub(super) struct Machine {
    live: Live,
    state: AtomicState,
    // When the open period of the tagged generation ends.
    until: Moment,
    // When the half-open period of the tagged generation began.
    since: Moment,
    window: Window,
    streak: Streak,
    probes: Probes,
}

/// Time, randomness and whoever wants to know, as the machine asks for them.
pub(super) trait Surroundings {
    fn now(&self) -> u64;
    fn random(&self) -> u64;
    fn changed(&self, change: Change);
}

impl Machine {
    pub(super) fn new(settings: &Settings) -> Self {
        let first = State::FIRST;
        Self {
            live: Live::new(settings),
            state: AtomicState::new(first),
            until: Moment::new(first.tag()),
            since: Moment::new(first.tag()),
            window: Window::new(settings.window, first.tag()),
            streak: Streak::new(first.tag()),
            probes: Probes::new(settings.places(), first.tag()),
        }
    }

    pub(super) const fn live(&self) -> &Live {
        &self.live
    }

    /// The generation of a closed breaker, which lets every call through.
    #[inline]
    pub(super) fn closed_generation(&self) -> Option<u64> {
        self.state.closed_generation()
    }

    /// Whether one more success would change nothing: the window of this generation holds nothing else. A streak of
    /// failures is then over, or has begun beside this success; and where the generation is over, nothing counts in it.
    #[inline]
    pub(super) fn is_full_of_success(&self, generation: u64) -> bool {
        self.window.is_full_of_success(Tag::of(generation))
    }

    #[inline]
    pub(super) const fn can_be_full_of_success(&self) -> bool {
        self.window.can_be_full_of_success()
    }

    /// Lets a call through, or says for how many microseconds it is refused.
    pub(super) fn admit(&self, around: &impl Surroundings) -> Result<Admission, u64> {
        let state = self.advance(around);
        let admitted = |probe| {
            Ok(Admission {
                generation: state.generation,
                probe,
            })
        };
        match state.phase {
            Phase::Closed | Phase::ForcedClosed => admitted(None),
            Phase::Open => Err(self.remaining(state, around.now()).max(1)),
            Phase::ForcedOpen => Err(MAX_VALUE),
            Phase::HalfOpen => {
                let lease = self.live.probe_lease();
                let places = self.live.probes();
                match self
                    .probes
                    .reserve(state.tag(), places, around.now(), lease)
                {
                    Some(probe) => admitted(Some(probe)),
                    // Probing may end at any moment, so there is nothing to wait for.
                    None => Err(0),
                }
            }
        }
    }

    /// Whether a call would be refused now. Reserves nothing.
    pub(super) fn refuses(&self, around: &impl Surroundings) -> bool {
        let state = self.advance(around);
        match state.phase {
            Phase::Closed | Phase::ForcedClosed => false,
            Phase::Open | Phase::ForcedOpen => true,
            Phase::HalfOpen => {
                let places = self.live.probes();
                !self.probes.has_free(state.tag(), places, around.now())
            }
        }
    }

    /// The state as the clock has it: makes the transitions that are due by time alone. They consume nothing.
    pub(super) fn advance(&self, around: &impl Surroundings) -> State {
        loop {
            let state = self.state.load();
            match state.phase {
                Phase::Open => {
                    let now = around.now();
                    if self.remaining(state, now) > 0 {
                        return state;
                    }
                    let next = state.next(Phase::HalfOpen, state.reopened);
                    if self.change(state, next, around) {
                        self.since.set(next.tag(), now);
                    }
                }
                Phase::HalfOpen if self.is_overdue(state, around) => {
                    // The probes that there were decide. Where none has succeeded, nothing speaks for closing; where
                    // some have, waiting for the rest could go on for ever.
                    let tally = self.probes.tally(state.tag());
                    if tally.successes > 0 && !self.live.probes_fail(tally, true) {
                        self.change(state, state.next(Phase::Closed, 0), around);
                    } else {
                        self.open(state, state.reopened.saturating_add(1), 0, around);
                    }
                }
                Phase::Closed | Phase::HalfOpen | Phase::ForcedClosed | Phase::ForcedOpen => {
                    return state;
                }
            }
        }
    }

    /// Whether it has been half-open for as long as it may be.
    fn is_overdue(&self, state: State, around: &impl Surroundings) -> bool {
        let since = || self.since.of(state.tag());
        self.live.max_half_open().is_some_and(|limit| {
            since().is_some_and(|since| around.now().saturating_sub(since) >= limit)
        })
    }

    /// Counts an outcome in the generation its call was admitted in; in any other it is ignored.
    pub(super) fn record(
        &self,
        admission: Admission,
        seen: Observation,
        around: &impl Surroundings,
    ) {
        let state = self.state.load();
        let hint = self.live.open_hint(seen.hint);
        if state.generation != admission.generation {
            self.release(admission);
            if state.phase == Phase::Open && seen.throttled && hint > 0 {
                let end = around.now().saturating_add(hint);
                self.until.extend(state.tag(), end);
            }
            return;
        }
        match (state.phase, admission.probe) {
            (Phase::Closed | Phase::ForcedClosed, _) => self.count(state, seen, hint, around),
            (Phase::HalfOpen, Some(probe)) => self.probed(state, probe, seen, hint, around),
            // Nobody is admitted while open, and nobody but a probe while half-open.
            (Phase::Open | Phase::ForcedOpen, _) | (Phase::HalfOpen, None) => {}
        }
    }

    /// An outcome while closed.
    fn count(&self, state: State, seen: Observation, hint: u64, around: &impl Surroundings) {
        let record = Record {
            failure: match seen.outcome {
                Outcome::Neutral => return,
                Outcome::Success => false,
                Outcome::Failure => true,
            },
            slow: self.live.is_slow(seen.took),
        };
        let streak = self.streak.record(state.tag(), record.failure);
        let now = || around.now();
        let counts = self.window.record(state.tag(), record, now);
        let trips = self.live.trips_in_a_row(streak)
            || counts.is_some_and(|counts| self.live.trips(counts));
        if trips && state.phase == Phase::Closed {
            self.open(state, 0, hint, around);
        }
    }

    /// An outcome of a probe. Only the rules for probes apply: no minimum, no window.
    fn probed(
        &self,
        state: State,
        probe: Probe,
        seen: Observation,
        hint: u64,
        around: &impl Surroundings,
    ) {
        let failed = match seen.outcome {
            Outcome::Neutral if seen.throttled && hint > 0 => {
                // It is there, and said when to come back: no earlier probe will learn more.
                return self.open_until(state, state.reopened, hint, around);
            }
            Outcome::Neutral => return self.probes.release(probe),
            Outcome::Failure => true,
            Outcome::Success => self.live.is_slow(seen.took),
        };
        let tally = self.probes.settle(state.tag(), probe, failed);
        self.conclude(state, tally, hint, around);
    }

    /// Closes or reopens, where the probes that have ended say so.
    fn conclude(&self, state: State, tally: Tally, hint: u64, around: &impl Surroundings) {
        match self.live.verdict_on(tally) {
            ProbeVerdict::Wait => {}
            ProbeVerdict::Close => {
                self.change(state, state.next(Phase::Closed, 0), around);
            }
            ProbeVerdict::Reopen => {
                self.open(state, state.reopened.saturating_add(1), hint, around);
            }
        }
    }

    /// The call ended without an outcome: a probe's place goes back.
    #[inline]
    pub(super) fn release(&self, admission: Admission) {
        if let Some(probe) = admission.probe {
            self.probes.release(probe);
        }
    }

    /// The state as it was left, whatever is due by time.
    #[cfg(feature = "keyed")]
    pub(super) fn last(&self) -> State {
        self.state.load()
    }

    /// Whether nothing has changed since this call was admitted.
    pub(super) fn is_current(&self, generation: u64) -> bool {
        self.state.load().generation == generation
    }

    /// Goes on with other settings. The probes that have ended may be enough by them, and none may be left to find out.
    pub(super) fn retune(&self, settings: &Settings, around: &impl Surroundings) {
        self.live.set(settings);
        let state = self.state.load();
        if state.phase == Phase::HalfOpen {
            self.conclude(state, self.probes.tally(state.tag()), 0, around);
        }
    }

    /// Moves to a phase whatever the state is; already there, nothing happens.
    pub(super) fn force(&self, phase: Phase, around: &impl Surroundings) {
        loop {
            let state = self.state.load();
            if state.phase == phase && phase != Phase::Closed {
                return;
            }
            if self.change(state, state.next(phase, 0), around) {
                return;
            }
        }
    }

    /// What the window of this state holds, and the failures in a row.
    pub(super) fn counts(&self, state: State, around: &impl Surroundings) -> (Counts, u64) {
        let counts = self.window.counts(state.tag(), || around.now());
        (counts, self.streak.of(state.tag()))
    }

    /// Microseconds until a probe would be let through; zero where it is not open.
    pub(super) fn remaining_open(&self, state: State, now: u64) -> u64 {
        match state.phase {
            Phase::Open => self.remaining(state, now),
            Phase::ForcedOpen => MAX_VALUE,
            Phase::Closed | Phase::HalfOpen | Phase::ForcedClosed => 0,
        }
    }

    /// Opens for its own time, or for as long as a hint asks where that is longer.
    fn open(&self, from: State, reopened: u8, hint: u64, around: &impl Surroundings) {
        let time = self.live.open_for(reopened, around.random()).max(hint);
        self.open_until(from, reopened, time, around);
    }

    /// Opens, once: whoever loses the race has nothing left to do.
    fn open_until(&self, from: State, reopened: u8, time: u64, around: &impl Surroundings) {
        let open = from.next(Phase::Open, reopened);
        // Asked for before the transition, so that nothing of the caller's runs between it and its end.
        let end = around.now().saturating_add(time);
        if self.state.change(from, open) {
            self.until.set(open.tag(), end);
            self.entered(from, open, around);
        }
    }

    fn change(&self, from: State, to: State, around: &impl Surroundings) -> bool {
        let changed = self.state.change(from, to);
        if changed {
            self.entered(from, to, around);
        }
        changed
    }

    /// What the winner of a transition has left to do.
    fn entered(&self, from: State, to: State, around: &impl Surroundings) {
        if to.generation % REFRESH == 0 {
            let tag = to.tag();
            self.until.refresh(tag);
            self.since.refresh(tag);
            self.window.refresh(tag);
            self.streak.refresh(tag);
            self.probes.refresh(tag);
        }
        around.changed(Change { from, to });
    }

    /// Microseconds that are left of the open period of this state. A period whose end is not written yet has only just
    /// begun.
    fn remaining(&self, state: State, now: u64) -> u64 {
        match self.until.of(state.tag()) {
            None => self.live.open_for(state.reopened, u64::MAX).max(1),
            // An open time that cannot be represented never ends.
            Some(MAX_VALUE) => MAX_VALUE,
            Some(end) => end.saturating_sub(now),
        }
    }
}
