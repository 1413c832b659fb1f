//! What all clones of a breaker share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::builder::CircuitBreakerBuilder;
use super::machine::{Admission, Change, Machine, Observation, Surroundings};
use super::metrics::Transition;
use super::settings::{Count, Settings};
use super::tag::MAX_VALUE;
use crate::clock;
use crate::observer::{Observer, Watch};
use crate::rng::Random;
use crate::sync::AtomicU64;

pub(super) struct Shared {
    pub(super) machine: Machine,
    pub(super) built: Settings,
    pub(super) rejected: AtomicU64,
    pub(super) around: Around,
}

impl Shared {
    pub(super) fn new(settings: Settings, told: CircuitBreakerBuilder) -> Self {
        Self {
            machine: Machine::new(&settings),
            built: settings,
            rejected: AtomicU64::new(0),
            around: Around {
                epoch: clock::now(),
                random: Random::new(told.seed),
                watch: told
                    .observer
                    .map(|observer| Watch::new(observer, Arc::clone(&told.name))),
                name: told.name,
            },
        }
    }

    /// How long it will go on refusing.
    pub(super) fn remaining(&self) -> Duration {
        let state = self.machine.advance(&self.around);
        duration(self.machine.remaining_open(state, self.around.now()))
    }

    #[inline]
    pub(super) fn counts_attempts(&self) -> bool {
        self.built.count == Count::Attempts
    }

    /// Whether a call that is let through has more to it than its outcome.
    #[inline]
    pub(super) fn looks_closely(&self) -> bool {
        self.machine.live().looks_closely()
    }

    /// The time, where durations matter.
    #[inline]
    pub(super) fn stopwatch(&self) -> Option<u64> {
        let measures = self.machine.live().measures();
        measures.then(|| self.around.now())
    }

    pub(super) fn record(&self, admission: Admission, seen: Observation) {
        self.machine.record(admission, seen, &self.around);
    }
}

/// What is around the machine: a clock, chance, and an observer.
pub(super) struct Around {
    epoch: Instant,
    random: Random,
    pub(super) name: Arc<str>,
    watch: Option<Watch>,
}

impl Around {
    /// An instant on the breaker's own clock.
    pub(super) fn micros(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.epoch);
        u64::try_from(since.as_micros()).unwrap_or(MAX_VALUE)
    }
}

impl Around {
    /// Tells the observer, where there is one.
    pub(super) fn tell(&self, event: &dyn Fn(&dyn Observer, &str)) {
        if let Some(watch) = &self.watch {
            watch.tell(event);
        }
    }
}

impl Surroundings for Around {
    fn now(&self) -> u64 {
        self.micros(clock::now())
    }

    fn random(&self) -> u64 {
        self.random.draw()
    }

    fn changed(&self, change: Change) {
        let transition = Transition::of(change);
        self.tell(&|observer, name| observer.breaker_transition(name, &transition));
    }
}

pub(super) fn duration(micros: u64) -> Duration {
    if micros >= MAX_VALUE {
        Duration::MAX
    } else {
        Duration::from_micros(micros)
    }
}
