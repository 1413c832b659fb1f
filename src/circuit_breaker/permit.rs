use std::sync::Arc;
use std::time::Duration;

use super::CircuitBreaker;
use super::machine::{Admission, Observation, Outcome, Surroundings};
use super::notes::Notes;
use super::probes::Probe;
use super::settings::micros;
use super::shared::Shared;
use crate::attempt::Attempt;
use crate::context;
use crate::lanes::{Lane, Lanes};
use crate::rare::Slot;
use crate::verdict::Verdict;

/// A time that nobody has measured, or that there is not.
pub(crate) const NO_TIME: u64 = u64::MAX;

/// A breaker, as a call holds it and lends it.
#[derive(Clone)]
pub(crate) struct BreakerLane(Arc<Lane<Shared, Probing>>);

/// All the lanes to a breaker.
pub(super) type BreakerLanes = Lanes<Shared, Probing>;

/// The probe that a lane is of, and the lane it would have been: few calls are one, so the others have no room for it.
#[derive(Default)]
pub(super) struct Probing(Option<(Probe, BreakerLane)>);

impl BreakerLane {
    #[inline]
    pub(super) fn of_this_thread(lanes: &BreakerLanes) -> Self {
        Self(lanes.of_this_thread())
    }

    /// The same for what was admitted.
    fn admitted(self, admission: Admission) -> Self {
        match admission.probe {
            Some(probe) => Self(Arc::clone(&self.0).marked(Probing(Some((probe, self))))),
            None => self,
        }
    }

    fn probe(&self) -> Option<Probe> {
        self.0.mark().0.as_ref().map(|(probe, _)| *probe)
    }
}

/// A call that a breaker let through. It is lent to the retry below, and dropping it is an outcome: none.
///
/// It knows what the retry has reported, so that each outcome is counted once. Where there is no breaker it permits
/// everything and counts nothing.
pub(crate) struct Permit {
    // Not here while it is lent.
    pub(crate) lane: Slot<BreakerLane>,
    pub(crate) notes: Notes,
    // When the call or its attempt began, where durations matter.
    pub(crate) began: u64,
}

impl Permit {
    /// Where there is no breaker.
    pub(crate) const NONE: Self = Self {
        lane: Slot::NONE,
        notes: Notes::NONE,
        began: NO_TIME,
    };

    /// Of a call into a closed breaker, which asks for no more than its outcome.
    #[inline]
    pub(super) const fn plain(lane: BreakerLane, generation: u64) -> Self {
        Self {
            lane: Slot::of(lane),
            notes: Notes::of(generation),
            began: NO_TIME,
        }
    }

    /// The same, of a call whose retry has the breaker at hand: most calls end there, and need no owner of it here.
    #[inline]
    pub(super) const fn entrusted(generation: u64) -> Self {
        Self {
            lane: Slot::NONE,
            notes: Notes::of(generation).entrusted(),
            began: NO_TIME,
        }
    }

    pub(super) fn new(lane: BreakerLane, admission: Admission) -> Self {
        let is_probe = admission.probe.is_some();
        let mut permit = Self::plain(lane.admitted(admission), admission.generation);
        if is_probe || permit.breaker().is_some_and(Shared::looks_closely) {
            permit.look_closely(is_probe);
        }
        permit
    }

    /// The first attempt of the call, as far as the layer of the breaker knows.
    #[inline]
    pub(crate) const fn is_for(&mut self, attempt: Attempt) {
        self.notes = self.notes.of_call(attempt);
    }

    /// Notes what most calls have no need of.
    fn look_closely(&mut self, is_probe: bool) {
        let Some(breaker) = self.breaker() else {
            return;
        };
        let counts_attempts = breaker.counts_attempts();
        let began = breaker.stopwatch();
        self.notes = self.notes.with(is_probe, counts_attempts, began.is_some());
        self.began = began.unwrap_or(NO_TIME);
    }

    /// Whether the retry below has marked that the breaker has moved on.
    #[inline]
    pub(crate) const fn is_stopped(&self) -> bool {
        self.notes.is_stopped()
    }

    /// How long the breaker will go on refusing.
    pub(crate) fn remaining(&self) -> Duration {
        self.breaker().map_or(Duration::ZERO, Shared::remaining)
    }

    #[inline]
    fn breaker(&self) -> Option<&Shared> {
        self.lane.as_ref().map(|lane| &**lane.0)
    }

    /// The deadline that the caller brought along, on the breaker's own clock: for the retry, which stands below nearer ones.
    pub(crate) fn outer_deadline(&self) -> u64 {
        self.breaker().map_or(NO_TIME, outer_deadline)
    }

    /// Whether the outcome is counted here: the retry gives back what it has not settled.
    #[inline]
    pub(super) const fn counts(&self) -> bool {
        self.lane.is_some()
    }

    /// Whether there is a breaker to lend to the retry below, or one that it has.
    #[inline]
    pub(crate) const fn is_lendable(&self) -> bool {
        self.lane.is_some() || self.notes.is_entrusted()
    }

    /// The call has ended, with its `number`th attempt.
    #[inline]
    pub(super) fn finish(&mut self, verdict: Verdict, answered: bool, number: u32) {
        let notes = self.notes;
        let changes_nothing = verdict.is_success()
            && notes.is_plain()
            && self
                .breaker()
                .is_some_and(|breaker| breaker.machine.is_full_of_success(notes.generation()));
        if !changes_nothing {
            self.settle(verdict, answered, number);
        }
    }

    fn settle(&mut self, verdict: Verdict, answered: bool, number: u32) {
        let notes = self.notes;
        let Some(lane) = self.lane.as_ref() else {
            return;
        };
        if !notes.is_counted() && !notes.is_settled() {
            let ended = Ended {
                verdict,
                answered,
                number,
                began: self.began,
                outer: outer_deadline(&lane.0),
            };
            lane.record(notes, &ended);
        }
        self.notes = notes.settled();
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        // Only a probe has anything to give back.
        if self.notes.is_probe() {
            self.give_back();
        }
    }
}

impl Permit {
    #[cold]
    fn give_back(&self) {
        if let (Some(lane), false) = (self.lane.as_ref(), self.notes.is_settled()) {
            lane.0.machine.release(lane.admission(self.notes));
        }
    }
}

/// The permit that a breaker has lent to the retry that runs now.
pub(crate) struct LentPermit {
    notes: Notes,
}

impl LentPermit {
    /// What is in the cells, where the frame says that it is lent.
    #[inline]
    pub(crate) fn in_scope() -> Self {
        Self {
            notes: context::notes(),
        }
    }

    /// The call has succeeded, with its `number`th attempt. Only a breaker that counts attempts has to hear of it, and the
    /// one `at_hand`, where the call is entrusted to it, which mostly has only to look.
    #[inline]
    pub(crate) fn succeeded(&self, at_hand: Option<&CircuitBreaker>, number: u32) {
        if !self.notes.is_entrusted() {
            self.attempt_finished(Verdict::Success, true, number);
        } else if at_hand.is_some_and(|breaker| breaker.is_full_of_success(self.notes)) {
            context::set_notes(self.notes.settled());
        } else {
            self.give_back(at_hand);
        }
    }

    /// Whoever entrusted the call to the breaker at hand needs it now.
    #[cold]
    pub(crate) fn give_back(&self, at_hand: Option<&CircuitBreaker>) {
        if let (true, Some(breaker)) = (self.notes.is_entrusted(), at_hand) {
            context::set_notes(self.notes.given_back());
            context::put_breaker(breaker.lane());
        }
    }

    /// Whether this call is a probe, which makes one attempt.
    pub(crate) const fn is_probe(&self) -> bool {
        self.notes.is_probe()
    }

    /// Whether the breaker is still in the generation that admitted this call.
    pub(crate) fn is_current(&self) -> bool {
        let generation = self.notes.generation();
        context::hidden_breaker().is_none_or(|lane| lane.0.machine.is_current(generation))
    }

    /// An attempt starts. The first one needs no note: none is outstanding, and none has been reported.
    pub(crate) fn attempt_started(&self) {
        if self.notes.has_reported() {
            context::set_notes(self.notes.started());
            if let Some(lane) = context::hidden_breaker() {
                context::set_began(lane.0.stopwatch().unwrap_or(NO_TIME));
            }
        }
    }

    /// An attempt has ended. Counts it where the breaker counts attempts.
    #[inline]
    pub(crate) fn attempt_finished(&self, verdict: Verdict, answered: bool, number: u32) {
        if self.notes.counts_attempts() {
            self.count_attempt(verdict, answered, number);
        }
    }

    #[cold]
    fn count_attempt(&self, verdict: Verdict, answered: bool, number: u32) {
        context::set_notes(self.notes.reported());
        if let Some(lane) = context::hidden_breaker() {
            let ended = Ended {
                verdict,
                answered,
                number,
                began: context::began(),
                outer: context::outer_deadline(),
            };
            lane.record(self.notes, &ended);
        }
    }

    /// Nothing more will come of this call: the breaker has moved on while it waited.
    pub(crate) fn stop(&self) {
        context::set_notes(self.notes.stopped());
    }
}

/// The deadline in scope, on the breaker's own clock.
fn outer_deadline(breaker: &Shared) -> u64 {
    let outer = context::deadline().instant();
    outer.map_or(NO_TIME, |outer| breaker.around.micros(outer))
}

/// A call or an attempt that has ended.
struct Ended {
    verdict: Verdict,
    answered: bool,
    number: u32,
    began: u64,
    /// The deadline that the caller brought along, from above the breaker, on the breaker's own clock.
    outer: u64,
}

impl BreakerLane {
    fn admission(&self, notes: Notes) -> Admission {
        Admission {
            generation: notes.generation(),
            probe: self.probe(),
        }
    }

    fn record(&self, notes: Notes, ended: &Ended) {
        let breaker: &Shared = &self.0;
        let took = if ended.began == NO_TIME {
            None
        } else {
            let now = breaker.stopwatch();
            now.map(|now| now.saturating_sub(ended.began))
        };
        let verdict = ended.verdict;
        let seen = Observation {
            outcome: judge(breaker, notes, ended),
            took,
            hint: verdict.hint().map(|hint| micros(hint.wait())),
            throttled: matches!(verdict, Verdict::Throttled { .. }),
        };
        breaker.record(self.admission(notes), seen);
    }
}

/// What an outcome says of the dependency.
fn judge(breaker: &Shared, notes: Notes, ended: &Ended) -> Outcome {
    let verdict = ended.verdict;
    if verdict.is_success() {
        return Outcome::Success;
    }
    // A deadline had passed before anything was sent.
    let never_called = ended.number == 1 && context::expired().is_some_and(|past| !past.called);
    // A deadline from above the breaker ran out: an impatient caller is not a sick dependency.
    let out_of_patience =
        || verdict.is_unknown() && ended.outer != NO_TIME && ended.outer <= breaker.around.now();
    if never_called || out_of_patience() {
        return Outcome::Neutral;
    }
    match verdict {
        Verdict::Success => Outcome::Success,
        Verdict::Refused { .. } | Verdict::Unknown { .. } | Verdict::Fault => Outcome::Failure,
        // It is there and it talks, which is what a probe wants to know.
        Verdict::Rejected if notes.is_probe() && ended.answered => Outcome::Success,
        Verdict::Rejected | Verdict::Throttled { .. } => Outcome::Neutral,
    }
}
