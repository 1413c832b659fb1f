//! The names and what is said of them.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) const CALLS: &str = "composure_calls_total";
pub(super) const OUTCOME_UNKNOWN: &str = "composure_calls_outcome_unknown_total";
pub(super) const CALL_ATTEMPTS: &str = "composure_call_attempts";
pub(super) const CALL_DURATION: &str = "composure_call_duration_seconds";
pub(super) const CALL_BACKOFF: &str = "composure_call_backoff_seconds";
pub(super) const ATTEMPTS: &str = "composure_attempts_total";
pub(super) const ATTEMPT_DURATION: &str = "composure_attempt_duration_seconds";
pub(super) const RETRIES: &str = "composure_retries_total";
pub(super) const RETRY_DELAY: &str = "composure_retry_delay_seconds";
pub(super) const REFUSED: &str = "composure_retries_refused_total";
pub(super) const TOKENS: &str = "composure_budget_tokens";
pub(super) const DEPOSITS: &str = "composure_budget_deposits_total";
pub(super) const WITHDRAWALS: &str = "composure_budget_withdrawals_total";
pub(super) const EXHAUSTED: &str = "composure_budget_exhausted_total";
pub(super) const STATE: &str = "composure_breaker_state";
pub(super) const TRANSITIONS: &str = "composure_breaker_transitions_total";
pub(super) const REJECTED: &str = "composure_breaker_rejected_total";
pub(super) const PROBES: &str = "composure_breaker_probes_total";
pub(super) const DEADLINES: &str = "composure_deadlines_exceeded_total";
pub(super) const KEYS: &str = "composure_idempotency_keys_total";

const COUNTERS: [(&str, &str); 13] = [
    (CALLS, "Calls that have ended, by outcome"),
    (
        OUTCOME_UNKNOWN,
        "Calls that did not succeed and may have changed something all the same",
    ),
    (ATTEMPTS, "Attempts that have started"),
    (RETRIES, "Retries decided, by what decided their wait"),
    (REFUSED, "Retries that were not made, by reason"),
    (DEPOSITS, "Successes that earned their part of a token"),
    (WITHDRAWALS, "Retries that the budget has paid for"),
    (EXHAUSTED, "Retries that the budget could not pay for"),
    (
        TRANSITIONS,
        "Transitions of the breaker, by the state entered",
    ),
    (REJECTED, "Calls that the breaker has refused"),
    (PROBES, "Calls that a half-open breaker has let through"),
    (
        DEADLINES,
        "Deadlines that have passed, of attempts and of calls",
    ),
    (
        KEYS,
        "Requests with an idempotency key, by where it is from",
    ),
];

const SECONDS: [(&str, &str); 4] = [
    (CALL_DURATION, "From a call to its end, waits included"),
    (CALL_BACKOFF, "The sum of all waits of a call"),
    (
        ATTEMPT_DURATION,
        "From an attempt's start to its outcome, by verdict",
    ),
    (RETRY_DELAY, "The wait before a retry"),
];

/// Tells the recorder what each metric means.
pub(super) fn describe() {
    for (name, what) in COUNTERS {
        describe_counter!(name, Unit::Count, what);
    }
    for (name, what) in SECONDS {
        describe_histogram!(name, Unit::Seconds, what);
    }
    describe_histogram!(CALL_ATTEMPTS, Unit::Count, "Attempts of a call");
    describe_gauge!(TOKENS, Unit::Count, "Tokens left in the retry budget");
    describe_gauge!(STATE, Unit::Count, "1 for the state that the breaker is in");
}
