use std::sync::Arc;

use super::machine::{Admission, Observation, Outcome, Surroundings};
use super::settings::micros;
use super::shared::{Lane, Shared};
use crate::context;
use crate::verdict::Verdict;

/// A time that nobody has measured, or that there is not.
const NO_TIME: u64 = u64::MAX;

/// A call that a breaker let through. It is lent to the retry below, and dropping it is an outcome: none.
///
/// It knows what the retry has reported, so that each outcome is counted once.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a call, not a state machine"
)]
pub(crate) struct Permit {
    lane: Arc<Lane>,
    admission: Admission,
    // The deadline that the caller brought along, from above the breaker, on the breaker's own clock.
    outer: u64,
    // When the call or its attempt began, where durations matter.
    began: u64,
    // An attempt has started whose outcome nobody has reported.
    outstanding: bool,
    // The retry has reported an attempt.
    reported: bool,
    // The retry found that the breaker has moved on, and has no outcome left to return.
    stopped: bool,
    settled: bool,
}

impl Permit {
    #[inline]
    pub(super) fn new(lane: Arc<Lane>, admission: Admission) -> Self {
        let outer = context::deadline().and_then(|outer| outer.instant());
        Self {
            began: lane.shared.stopwatch().unwrap_or(NO_TIME),
            outer: outer.map_or(NO_TIME, |outer| lane.shared.around.micros(outer)),
            lane,
            admission,
            outstanding: false,
            reported: false,
            stopped: false,
            settled: false,
        }
    }

    /// Whether this call is a probe, which makes one attempt.
    pub(crate) const fn is_probe(&self) -> bool {
        self.admission.probe.is_some()
    }

    /// Whether the breaker is still in the generation that admitted this call.
    pub(crate) fn is_current(&self) -> bool {
        self.breaker().machine.is_current(self.admission.generation)
    }

    /// An attempt starts.
    #[inline]
    pub(crate) fn attempt_started(&mut self) {
        self.outstanding = true;
        if self.reported {
            self.began = self.breaker().stopwatch().unwrap_or(NO_TIME);
        }
    }

    /// An attempt has ended. Counts it where the breaker counts attempts.
    #[inline]
    pub(crate) fn attempt_finished(&mut self, verdict: Verdict, answered: bool, number: u32) {
        if self.breaker().counts_attempts() {
            self.outstanding = false;
            self.reported = true;
            // A probe makes one attempt, so its permit is settled with it.
            self.settled = self.is_probe();
            self.record(verdict, answered, number);
        }
    }

    /// Nothing more will come of this call: the breaker has moved on while it waited.
    pub(crate) const fn stop(&mut self) {
        self.stopped = true;
    }

    #[inline]
    pub(super) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    #[inline]
    pub(super) fn breaker(&self) -> &Shared {
        &self.lane.shared
    }

    /// The call has ended, with its `number`th attempt.
    #[inline]
    pub(super) fn finish(&mut self, verdict: Verdict, answered: bool, number: u32) {
        let healthy = verdict.is_success() && !self.is_probe() && !self.reported;
        if healthy
            && self
                .breaker()
                .machine
                .is_indifferent_to_success(self.admission.generation)
        {
            self.settled = true;
            return;
        }
        let counted = self.reported && !self.outstanding;
        if !counted && !self.settled {
            self.settled = true;
            self.record(verdict, answered, number);
        }
    }

    fn record(&self, verdict: Verdict, answered: bool, number: u32) {
        let took = if self.began == NO_TIME {
            None
        } else {
            let now = self.breaker().stopwatch();
            now.map(|now| now.saturating_sub(self.began))
        };
        let seen = Observation {
            outcome: self.judge(verdict, answered, number),
            took,
            hint: verdict.hint().map(|hint| micros(hint.wait())),
            throttled: matches!(verdict, Verdict::Throttled { .. }),
        };
        self.breaker().record(self.admission, seen);
    }

    /// What an outcome says of the dependency.
    fn judge(&self, verdict: Verdict, answered: bool, number: u32) -> Outcome {
        if verdict.is_success() {
            return Outcome::Success;
        }
        // A deadline had passed before anything was sent.
        let never_called = number == 1 && context::expired().is_some_and(|past| !past.called);
        // A deadline from above the breaker ran out: an impatient caller is not a sick dependency.
        let out_of_patience = || {
            verdict.is_unknown()
                && self.outer != NO_TIME
                && self.outer <= self.breaker().around.now()
        };
        if never_called || out_of_patience() {
            return Outcome::Neutral;
        }
        match verdict {
            Verdict::Success => Outcome::Success,
            Verdict::Refused { .. } | Verdict::Unknown { .. } | Verdict::Fault => Outcome::Failure,
            // It is there and it talks, which is what a probe wants to know.
            Verdict::Rejected if self.is_probe() && answered => Outcome::Success,
            Verdict::Rejected | Verdict::Throttled { .. } => Outcome::Neutral,
        }
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        if !self.settled {
            self.breaker().machine.release(self.admission);
        }
    }
}
