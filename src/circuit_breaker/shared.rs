//! What all clones of a breaker share, and how calls get at it without sharing a count of references.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::builder::CircuitBreakerBuilder;
use super::machine::{Admission, Change, Machine, Observation, Surroundings};
use super::metrics::Transition;
use super::settings::{Count, Settings};
use super::tag::MAX_VALUE;
use crate::clock;
use crate::observer::Observer;
use crate::rng::Random;
use crate::sync::{AtomicU64, Ordering};

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
                name: told.name,
                observer: told.observer,
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
    observer: Option<Arc<dyn Observer>>,
}

impl Around {
    /// An instant on the breaker's own clock.
    pub(super) fn micros(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.epoch);
        u64::try_from(since.as_micros()).unwrap_or(MAX_VALUE)
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
        if let Some(observer) = &self.observer {
            let transition = Transition::of(change);
            // Its panic is not the call's.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                observer.breaker_transition(&self.name, &transition);
            }));
        }
    }
}

/// What a call holds of a breaker.
///
/// Each call needs an owner of the state that outlives it. With one count of references for all of them, two threads
/// would do little else than pass its cache line to and fro; so there are several, and a thread keeps to one.
#[repr(align(128))]
pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
}

const LANES: usize = 8;

pub(super) struct Lanes([Arc<Lane>; LANES]);

impl Lanes {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self(std::array::from_fn(|_| {
            Arc::new(Lane {
                shared: Arc::clone(shared),
            })
        }))
    }

    /// The lane that this thread keeps to.
    #[inline]
    pub(super) fn of_this_thread(&self) -> Arc<Lane> {
        let [first, ..] = &self.0;
        Arc::clone(self.0.get(lane_of_this_thread()).unwrap_or(first))
    }

    /// Whether a call holds one of them.
    #[cfg(feature = "keyed")]
    pub(super) fn are_in_use(&self) -> bool {
        self.0.iter().any(|lane| Arc::strong_count(lane) > 1)
    }
}

/// Threads take lanes in turn.
#[inline]
fn lane_of_this_thread() -> usize {
    thread_local! {
        static LANE: Cell<usize> = const { Cell::new(LANES) };
    }
    LANE.try_with(|lane| {
        if lane.get() == LANES {
            lane.set(next_lane());
        }
        lane.get()
    })
    .unwrap_or(0)
}

#[cold]
fn next_lane() -> usize {
    #[cfg(not(loom))]
    {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let lane = next.checked_rem(LANES as u64).unwrap_or(0);
        usize::try_from(lane).unwrap_or(0)
    }
    // loom's atomics cannot be static, and its models have no caches.
    #[cfg(loom)]
    0
}

pub(super) fn duration(micros: u64) -> Duration {
    if micros >= MAX_VALUE {
        Duration::MAX
    } else {
        Duration::from_micros(micros)
    }
}
