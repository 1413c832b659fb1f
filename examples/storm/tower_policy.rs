//! A policy for tower's own retry, as its documentation shows one: it deposits for a success, withdraws for a retry, and
//! takes every error for transient.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Sleep;
use tower::retry::Policy;
use tower::retry::backoff::{
    Backoff, ExponentialBackoff, ExponentialBackoffMaker, InvalidBackoff, MakeBackoff,
};
use tower::retry::budget::{Budget, TpsBudget};
use tower::util::rng::Rng;

use crate::sim::{Call, mix};

/// Four attempts. Clones of one policy draw the same waits, since tower clones the generator with its state.
#[derive(Clone)]
pub(crate) struct TowerPolicy {
    backoff: ExponentialBackoff<Seeded>,
    budget: Option<Arc<TpsBudget>>,
    retries_left: u32,
}

impl TowerPolicy {
    /// Waits from 200 ms up to 2 s, with tower's jitter.
    pub(crate) fn new(seed: u64, budget: Option<TpsBudget>) -> Result<Self, InvalidBackoff> {
        let (base, cap) = (Duration::from_millis(200), Duration::from_secs(2));
        let mut maker = ExponentialBackoffMaker::new(base, cap, 0.99, Seeded(seed))?;
        Ok(Self {
            backoff: maker.make_backoff(),
            budget: budget.map(Arc::new),
            retries_left: 3,
        })
    }

    pub(crate) fn attempts(self, attempts: u32) -> Self {
        Self {
            retries_left: attempts.saturating_sub(1),
            ..self
        }
    }
}

impl<E> Policy<Call, (), E> for TowerPolicy {
    type Future = Sleep;

    fn retry(&mut self, _: &mut Call, outcome: &mut Result<(), E>) -> Option<Sleep> {
        if outcome.is_ok() {
            if let Some(budget) = &self.budget {
                budget.deposit();
            }
            return None;
        }
        self.retries_left = self.retries_left.checked_sub(1)?;
        let allowed = self.budget.as_ref().is_none_or(|budget| budget.withdraw());
        allowed.then(|| self.backoff.next_backoff())
    }

    fn clone_request(&mut self, request: &Call) -> Option<Call> {
        Some(*request)
    }
}

/// Chance that is the same in every run.
#[derive(Debug, Clone)]
struct Seeded(u64);

impl Rng for Seeded {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }
}
