//! The metrics of one dependency, registered once.

use std::sync::{Arc, OnceLock, PoisonError};

use ::metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::by::{ByDelay, ByOutcome, ByReason, ByState, ByVerdict};
use super::names;
use crate::circuit_breaker::CircuitState;
use crate::sync::Mutex;

/// All metrics of one dependency. The counters are there from the start, at zero, so that a rate sees their first step;
/// the gauges come with the first value, since a zero would say that the budget is empty.
pub(super) struct Handles {
    name: Arc<str>,
    pub(super) calls: ByOutcome<Counter>,
    pub(super) outcome_unknown: Counter,
    pub(super) call_attempts: Histogram,
    pub(super) call_duration: Histogram,
    pub(super) call_backoff: Histogram,
    pub(super) attempts: Counter,
    pub(super) attempt_duration: ByVerdict<Histogram>,
    pub(super) retries: ByDelay<Counter>,
    pub(super) retry_delay: Histogram,
    pub(super) refused: ByReason<Counter>,
    pub(super) deposits: Counter,
    pub(super) withdrawals: Counter,
    pub(super) exhausted: Counter,
    pub(super) transitions: ByState<Counter>,
    pub(super) rejected: Counter,
    pub(super) probes: Counter,
    pub(super) call_deadlines: Counter,
    pub(super) attempt_deadlines: Counter,
    pub(super) minted: Counter,
    pub(super) kept: Counter,
    tokens: OnceLock<Gauge>,
    state: OnceLock<ByState<Gauge>>,
    /// The generation of the state that is shown.
    shown: Mutex<u64>,
}

impl Handles {
    pub(super) fn register(name: &str) -> Self {
        let name: Arc<str> = name.into();
        let dependency = || Arc::clone(&name);
        let count = |metric| counter!(metric, "dependency" => dependency());
        let count_by = |metric, label: &'static str, value: &'static str| counter!(metric, "dependency" => dependency(), label => value);
        let measure = |metric| histogram!(metric, "dependency" => dependency());
        let deadlines = |limit| count_by(names::DEADLINES, "limit", limit);
        let keys = |source| count_by(names::KEYS, "source", source);
        Self {
            calls: ByOutcome::new(|outcome| count_by(names::CALLS, "outcome", outcome)),
            outcome_unknown: count(names::OUTCOME_UNKNOWN),
            call_attempts: measure(names::CALL_ATTEMPTS),
            call_duration: measure(names::CALL_DURATION),
            call_backoff: measure(names::CALL_BACKOFF),
            attempts: count(names::ATTEMPTS),
            attempt_duration: ByVerdict::new(|verdict| {
                histogram!(
                    names::ATTEMPT_DURATION,
                    "dependency" => dependency(),
                    "verdict" => verdict
                )
            }),
            retries: ByDelay::new(|by| count_by(names::RETRIES, "delayed_by", by)),
            retry_delay: measure(names::RETRY_DELAY),
            refused: ByReason::new(|reason| count_by(names::REFUSED, "reason", reason)),
            deposits: count(names::DEPOSITS),
            withdrawals: count(names::WITHDRAWALS),
            exhausted: count(names::EXHAUSTED),
            transitions: ByState::new(|to| count_by(names::TRANSITIONS, "to", to)),
            rejected: count(names::REJECTED),
            probes: count(names::PROBES),
            call_deadlines: deadlines("call"),
            attempt_deadlines: deadlines("attempt"),
            minted: keys("minted"),
            kept: keys("kept"),
            tokens: OnceLock::new(),
            state: OnceLock::new(),
            shown: Mutex::new(0),
            name,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn show_tokens(&self, balance: f64) {
        let tokens = || gauge!(names::TOKENS, "dependency" => Arc::clone(&self.name));
        self.tokens.get_or_init(tokens).set(balance);
    }

    /// Shows a state that was entered with this generation, unless a later one is shown already: two threads may tell of
    /// their transitions in any order.
    pub(super) fn show_transition(&self, generation: u64, state: CircuitState) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if generation > *shown {
            *shown = generation;
            self.show(state);
        }
    }

    /// Shows the state of a breaker that was looked at, which may be another breaker than before.
    pub(super) fn show_state(&self, generation: u64, state: CircuitState) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = generation;
        self.show(state);
    }

    fn show(&self, state: CircuitState) {
        let states = self.state.get_or_init(|| {
            ByState::new(|value| {
                gauge!(names::STATE, "dependency" => Arc::clone(&self.name), "state" => value)
            })
        });
        for other in states.each() {
            other.set(0.0);
        }
        states.of(state).set(1.0);
    }
}
