use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::permit::Permit;
use super::settings::{CircuitBreakerBuilder, Settings};
use super::state::{Admission, Machine, Outcome, Phase};
use super::tag::MAX_VALUE;
use crate::clock;
use crate::rng::Random;

/// What a breaker does with calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// It lets them through.
    Closed,
    /// It refuses them.
    Open,
    /// It lets probes through.
    HalfOpen,
}

/// A circuit breaker. Clones share one state, and so do all layers and services made with it.
///
/// [`Default`] is a count window of 100 with a minimum of 20, a failure rate of 0.5, an open time of 5 s growing to
/// 60 s, and 3 probes.
#[derive(Clone)]
pub struct CircuitBreaker {
    shared: Arc<Shared>,
}

struct Shared {
    machine: Machine,
    epoch: Instant,
    random: Random,
}

impl CircuitBreaker {
    /// Starts with the defaults.
    pub fn builder() -> CircuitBreakerBuilder {
        CircuitBreakerBuilder::default()
    }

    pub(super) fn of(settings: Settings, seed: Option<u64>) -> Self {
        Self {
            shared: Arc::new(Shared {
                machine: Machine::new(settings),
                epoch: clock::now(),
                random: Random::new(seed),
            }),
        }
    }

    /// What it does with calls now, computed from the clock. Looking consumes nothing.
    pub fn state(&self) -> CircuitState {
        match self.shared.machine.phase(|| self.now()) {
            Phase::Closed => CircuitState::Closed,
            Phase::Open => CircuitState::Open,
            Phase::HalfOpen => CircuitState::HalfOpen,
        }
    }

    /// How long it will refuse calls from now on: zero where it is not open, `Duration::MAX` where that has no end.
    pub fn remaining(&self) -> Duration {
        duration(self.shared.machine.remaining_open(|| self.now()))
    }

    /// Outcomes in the window, and the failures among them.
    pub fn recorded(&self) -> (u32, u32) {
        let counts = self.shared.machine.counts();
        (counts.total, counts.failures)
    }

    pub(super) fn settings(&self) -> &Settings {
        self.shared.machine.settings()
    }

    /// The lease of a probe.
    pub(crate) fn probe_lease(&self) -> Duration {
        duration(self.settings().probe_lease)
    }

    pub(super) fn try_admit(&self) -> Result<Permit, Duration> {
        match self.shared.machine.admit(|| self.now()) {
            Ok(admission) => Ok(Permit::new(self.clone(), admission)),
            Err(remaining) => Err(duration(remaining)),
        }
    }

    pub(super) fn refuses(&self) -> bool {
        self.shared.machine.refuses(|| self.now())
    }

    pub(super) fn is_current(&self, generation: u64) -> bool {
        self.shared.machine.is_current(generation)
    }

    pub(super) fn record(&self, admission: Admission, outcome: Outcome) {
        self.shared.machine.record(
            admission,
            outcome,
            || self.now(),
            || self.shared.random.draw(),
        );
    }

    pub(super) fn release(&self, admission: Admission) {
        self.shared.machine.release(admission);
    }

    /// Microseconds since the breaker was made.
    fn now(&self) -> u64 {
        let since = clock::now().saturating_duration_since(self.shared.epoch);
        u64::try_from(since.as_micros()).unwrap_or(MAX_VALUE)
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::of(Settings::default(), None)
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (recorded, failures) = self.recorded();
        f.debug_struct("CircuitBreaker")
            .field("state", &self.state())
            .field("recorded", &recorded)
            .field("failures", &failures)
            .finish_non_exhaustive()
    }
}

fn duration(micros: u64) -> Duration {
    if micros >= MAX_VALUE {
        Duration::MAX
    } else {
        Duration::from_micros(micros)
    }
}
