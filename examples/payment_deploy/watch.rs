//! What is heard of a client: the retries it did not make, and the course of its budget and its breaker.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tower_composure::circuit_breaker::Transition;
use tower_composure::{Budget, CallReport, CircuitState, Observer};

use crate::scenario::now;

/// Listens to one client.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Course>);

/// What happened, in its order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    /// How often a retry was not made, or a call not let through, by reason.
    pub(crate) refused: BTreeMap<&'static str, u32>,
    /// What the budget held, whenever that changed.
    pub(crate) tokens: Vec<(Instant, f64)>,
    /// The states that the breaker entered.
    pub(crate) states: Vec<(Instant, CircuitState)>,
}

impl Watch {
    /// Counts a refusal that is no event: what the naked outcome of a call says.
    pub(crate) fn refused(&self, reason: &'static str) {
        *self.course().refused.entry(reason).or_default() += 1;
    }

    /// What has been heard so far.
    pub(crate) fn so_far(&self) -> Course {
        self.course().clone()
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A full budget gets deposits too, which change nothing.
    fn holds(&self, balance: f64) {
        let tokens = &mut self.course().tokens;
        let before = tokens.last().map_or(full(), |(_, before)| *before);
        if (before - balance).abs() > f64::EPSILON {
            tokens.push((now(), balance));
        }
    }
}

/// What the budget of this example starts with.
pub(crate) fn full() -> f64 {
    Budget::default().burst()
}

impl Observer for Watch {
    fn call_finished(&self, _dependency: &str, report: &CallReport) {
        if let Some(reason) = report.stop_reason() {
            self.refused(reason.as_str());
        }
    }

    fn budget_deposited(&self, _dependency: &str, balance: f64) {
        self.holds(balance);
    }

    fn budget_withdrawn(&self, _dependency: &str, balance: f64) {
        self.holds(balance);
    }

    fn breaker_transition(&self, _breaker: &str, transition: &Transition) {
        self.course().states.push((now(), transition.to()));
    }
}
