use std::sync::Arc;

use super::machine::{Admission, Observation, Outcome, Surroundings};
use super::notes::Notes;
use super::probes::Probe;
use super::settings::micros;
use super::shared::Shared;
use crate::context::{self, Slot};
use crate::lanes::Lane;
use crate::verdict::Verdict;

/// A time that nobody has measured, or that there is not.
const NO_TIME: u64 = u64::MAX;

/// A breaker, as a call holds it and lends it.
#[derive(Clone)]
pub(crate) struct BreakerLane(Arc<Lane<Shared>>);

impl BreakerLane {
    pub(super) const fn new(lane: Arc<Lane<Shared>>) -> Self {
        Self(lane)
    }
}

/// What only a probe, a measured call, or a breaker that counts attempts has need of.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    probe: Option<Probe>,
    // When the call or its attempt began, where durations matter.
    began: u64,
    // The deadline that the caller brought along, from above the breaker, on the breaker's own clock: for the retry,
    // which stands below nearer ones.
    outer: u64,
}

impl Times {
    pub(crate) const NONE: Self = Self {
        probe: None,
        began: NO_TIME,
        outer: NO_TIME,
    };
}

/// A call that a breaker let through. It is lent to the retry below, and dropping it is an outcome: none.
///
/// It knows what the retry has reported, so that each outcome is counted once. Where there is no breaker it permits
/// everything and counts nothing.
pub(crate) struct Permit {
    // Not here while it is lent.
    pub(crate) lane: Slot<BreakerLane>,
    pub(crate) notes: Notes,
    pub(crate) times: Times,
}

impl Permit {
    /// Where there is no breaker.
    pub(super) const NONE: Self = Self {
        lane: Slot::EMPTY,
        notes: Notes::NONE,
        times: Times::NONE,
    };

    #[inline]
    pub(super) fn new(lane: BreakerLane, admission: Admission) -> Self {
        let breaker = &*lane.0;
        let counts_attempts = breaker.counts_attempts();
        Self {
            notes: Notes::of(
                admission.generation,
                admission.probe.is_some(),
                counts_attempts,
            ),
            times: Times {
                probe: admission.probe,
                began: breaker.stopwatch().unwrap_or(NO_TIME),
                outer: if counts_attempts {
                    outer_deadline(breaker)
                } else {
                    NO_TIME
                },
            },
            lane: Slot::new(Some(lane)),
        }
    }

    /// The breaker, where the retry below has marked that it has moved on.
    #[inline]
    pub(super) fn stopped_by(&self) -> Option<&Shared> {
        if self.notes.is_stopped() {
            self.breaker()
        } else {
            None
        }
    }

    #[inline]
    fn breaker(&self) -> Option<&Shared> {
        self.lane.as_ref().map(|lane| &**lane.0)
    }

    /// Whether anybody will count the outcome.
    #[inline]
    pub(super) const fn counts(&self) -> bool {
        self.lane.is_some()
    }

    /// The call has ended, with its `number`th attempt.
    #[inline]
    pub(super) fn finish(&mut self, verdict: Verdict, answered: bool, number: u32) {
        let notes = self.notes;
        let Some(breaker) = self.breaker() else {
            return;
        };
        let changes_nothing = verdict.is_success()
            && notes.is_plain()
            && breaker
                .machine
                .is_indifferent_to_success(notes.generation());
        if !changes_nothing && !notes.is_counted() && !notes.is_settled() {
            let times = Times {
                outer: outer_deadline(breaker),
                ..self.times
            };
            record(breaker, notes, times, verdict, answered, number);
        }
        self.notes = notes.settled();
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        // Only a probe has anything to give back.
        if self.notes.is_probe() && !self.notes.is_settled() {
            if let Some(breaker) = self.breaker() {
                breaker.machine.release(admission(self.notes, self.times));
            }
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

    /// Whether this call is a probe, which makes one attempt.
    pub(crate) const fn is_probe(&self) -> bool {
        self.notes.is_probe()
    }

    /// Whether the breaker is still in the generation that admitted this call.
    pub(crate) fn is_current(&self) -> bool {
        let generation = self.notes.generation();
        context::hidden_breaker().is_none_or(|lane| lane.0.machine.is_current(generation))
    }

    /// An attempt starts.
    #[inline]
    pub(crate) fn attempt_started(&self) {
        context::set_notes(self.notes.started());
        if self.notes.has_reported() {
            if let Some(lane) = context::hidden_breaker() {
                context::set_times(Times {
                    began: lane.0.stopwatch().unwrap_or(NO_TIME),
                    ..context::times()
                });
            }
        }
    }

    /// An attempt has ended. Counts it where the breaker counts attempts.
    #[inline]
    pub(crate) fn attempt_finished(&self, verdict: Verdict, answered: bool, number: u32) {
        if self.notes.counts_attempts() {
            context::set_notes(self.notes.reported());
            if let Some(lane) = context::hidden_breaker() {
                let times = context::times();
                record(&lane.0, self.notes, times, verdict, answered, number);
            }
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

const fn admission(notes: Notes, times: Times) -> Admission {
    Admission {
        generation: notes.generation(),
        probe: times.probe,
    }
}

fn record(
    breaker: &Shared,
    notes: Notes,
    times: Times,
    verdict: Verdict,
    answered: bool,
    number: u32,
) {
    let took = if times.began == NO_TIME {
        None
    } else {
        let now = breaker.stopwatch();
        now.map(|now| now.saturating_sub(times.began))
    };
    let seen = Observation {
        outcome: judge(breaker, times, verdict, answered, number),
        took,
        hint: verdict.hint().map(|hint| micros(hint.wait())),
        throttled: matches!(verdict, Verdict::Throttled { .. }),
    };
    breaker.record(admission(notes, times), seen);
}

/// What an outcome says of the dependency.
fn judge(breaker: &Shared, times: Times, verdict: Verdict, answered: bool, number: u32) -> Outcome {
    if verdict.is_success() {
        return Outcome::Success;
    }
    // A deadline had passed before anything was sent.
    let never_called = number == 1 && context::expired().is_some_and(|past| !past.called);
    // A deadline from above the breaker ran out: an impatient caller is not a sick dependency.
    let out_of_patience =
        || verdict.is_unknown() && times.outer != NO_TIME && times.outer <= breaker.around.now();
    if never_called || out_of_patience() {
        return Outcome::Neutral;
    }
    match verdict {
        Verdict::Success => Outcome::Success,
        Verdict::Refused { .. } | Verdict::Unknown { .. } | Verdict::Fault => Outcome::Failure,
        // It is there and it talks, which is what a probe wants to know.
        Verdict::Rejected if times.probe.is_some() && answered => Outcome::Success,
        Verdict::Rejected | Verdict::Throttled { .. } => Outcome::Neutral,
    }
}
