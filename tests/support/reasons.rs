//! Every reason why a retry is not made.

use tower_composure::StopReason;

pub const REASONS: [StopReason; 11] = [
    StopReason::Nested,
    StopReason::Attempts,
    StopReason::OutcomeUnknown,
    StopReason::NotReplayable,
    StopReason::SwitchedOff,
    StopReason::BreakerOpen,
    StopReason::Probe,
    StopReason::HintExceedsLimit,
    StopReason::Deadline,
    StopReason::BudgetExhausted,
    StopReason::ObserveOnly,
];
