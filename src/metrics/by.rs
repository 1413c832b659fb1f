//! A handle for each value of a label.

use crate::circuit_breaker::CircuitState;
use crate::observer::DelayedBy;
use crate::report::{CallReport, StopReason};
use crate::verdict::Verdict;

/// One of something for each value of an enum: found by a match, with no lookup by name. A field is called as the value
/// is in labels.
macro_rules! by {
    ($name:ident, $key:ty { $($field:ident: $pattern:pat,)* }) => {
        pub(super) struct $name<T> {
            $($field: T,)*
        }

        impl<T> $name<T> {
            /// Makes each from the value of the label.
            pub(super) fn new(make: impl Fn(&'static str) -> T) -> Self {
                Self {
                    $($field: make(stringify!($field)),)*
                }
            }

            pub(super) const fn of(&self, key: $key) -> &T {
                match key {
                    $($pattern => &self.$field,)*
                }
            }

            /// All of them, in the order of the labels.
            #[allow(dead_code, reason = "not each is gone through")]
            pub(super) fn each(&self) -> impl Iterator<Item = &T> {
                [$(&self.$field),*].into_iter()
            }
        }
    };
}

by!(
    ByVerdict,
    Verdict {
        success: Verdict::Success,
        throttled: Verdict::Throttled { .. },
        refused: Verdict::Refused { .. },
        unknown: Verdict::Unknown { .. },
        fault: Verdict::Fault,
        rejected: Verdict::Rejected,
    }
);

by!(
    ByReason,
    StopReason {
        nested: StopReason::Nested,
        attempts: StopReason::Attempts,
        outcome_unknown: StopReason::OutcomeUnknown,
        not_replayable: StopReason::NotReplayable,
        switched_off: StopReason::SwitchedOff,
        breaker_open: StopReason::BreakerOpen,
        probe: StopReason::Probe,
        hint_exceeds_limit: StopReason::HintExceedsLimit,
        deadline: StopReason::Deadline,
        budget_exhausted: StopReason::BudgetExhausted,
        observe_only: StopReason::ObserveOnly,
    }
);

by!(
    ByState,
    CircuitState {
        closed: CircuitState::Closed,
        open: CircuitState::Open,
        half_open: CircuitState::HalfOpen,
        forced_open: CircuitState::ForcedOpen,
        forced_closed: CircuitState::ForcedClosed,
    }
);

by!(
    ByDelay,
    DelayedBy {
        backoff: DelayedBy::Backoff,
        hint: DelayedBy::Hint,
    }
);

/// How a call ended: the verdict on its last attempt, or that it was dropped before that.
pub(super) struct ByOutcome<T> {
    ended: ByVerdict<T>,
    cancelled: T,
}

impl<T> ByOutcome<T> {
    pub(super) fn new(make: impl Fn(&'static str) -> T) -> Self {
        Self {
            cancelled: make("cancelled"),
            ended: ByVerdict::new(make),
        }
    }

    pub(super) const fn of(&self, report: &CallReport) -> &T {
        if report.is_cancelled() {
            &self.cancelled
        } else {
            self.ended.of(report.verdict())
        }
    }
}
