//! The breaker as a plain sequential program: everything written down as it is said in the documentation.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it"
)]

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use tokio::sync::oneshot;
use tokio_test::task::{Spawn, spawn};
use tower::{BoxError, Layer, Service};
use tower_composure::circuit_breaker::{CircuitBreakerBuilder, CircuitBreakerFuture};
use tower_composure::{
    Attempt, BreakerOpen, CircuitBreaker, CircuitBreakerLayer, CircuitState, Effect, Policy,
    Verdict,
};

use crate::support::breaker::{Outcome, Says, Told, failure, success};

/// What is asked of the breaker.
#[derive(Debug, Clone)]
pub struct Asked {
    pub window: usize,
    pub minimum: usize,
    pub consecutive: Option<usize>,
    pub probes: usize,
}

pub const OPEN_MS: u64 = 10_000;
pub const LEASE_MS: u64 = 15_000;

impl Asked {
    pub fn builder(&self) -> CircuitBreakerBuilder {
        let number = |number: usize| u32::try_from(number).unwrap();
        let told = CircuitBreaker::builder()
            .window(number(self.window))
            .minimum_calls(number(self.minimum))
            .failure_rate(0.5)
            .open_time(Duration::from_millis(OPEN_MS))
            .max_open_time(Duration::from_millis(OPEN_MS))
            .open_jitter(0.0)
            .probes(number(self.probes))
            .probe_lease(Duration::from_millis(LEASE_MS));
        match self.consecutive {
            Some(failures) => told.consecutive_failures(number(failures)),
            None => told,
        }
    }
}

pub fn told() -> impl Strategy<Value = Asked> {
    (
        1_usize..8,
        0_usize..8,
        prop::option::of(1_usize..5),
        1_usize..4,
    )
        .prop_map(|(window, minimum, consecutive, probes)| Asked {
            window,
            minimum: 1 + minimum % window,
            consecutive,
            probes,
        })
}

#[derive(Debug, Clone)]
pub enum Move {
    /// A call that stays under way.
    Call,
    /// The nth call under way ends.
    End(usize, Outcome),
    /// The nth call under way is dropped.
    Drop(usize),
    /// Time passes.
    Wait(u64),
    ForceOpen,
    ForceClosed,
    Reset,
    /// The minimum becomes another.
    Minimum(usize),
}

pub fn moves() -> impl Strategy<Value = Vec<Move>> {
    let outcome = prop_oneof![
        4 => Just(failure()),
        4 => Just(success()),
        1 => Just(Ok(Verdict::THROTTLED)),
        1 => Just(Ok(Verdict::Rejected)),
        1 => Just(Err(Verdict::Rejected)),
    ];
    let step = prop_oneof![
        10 => Just(Move::Call),
        10 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Move::End(which, outcome)),
        2 => any::<usize>().prop_map(Move::Drop),
        4 => prop_oneof![0_u64..100, 9_000_u64..16_000].prop_map(Move::Wait),
        1 => Just(Move::ForceOpen),
        1 => Just(Move::ForceClosed),
        1 => Just(Move::Reset),
        1 => (0_usize..8).prop_map(Move::Minimum),
    ];
    prop::collection::vec(step, 0..150)
}

/// The model: everything written down as it is said in the documentation.
pub struct Model {
    pub told: Asked,
    pub now: u64,
    pub generation: u64,
    pub state: CircuitState,
    pub window: VecDeque<bool>,
    pub streak: usize,
    pub until: u64,
    pub places: Vec<Place>,
    /// When the lease of each call that was a probe ends.
    pub leases: HashMap<usize, u64>,
    pub ended: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    Free,
    Taken { until: u64 },
    Spent,
}

impl Model {
    pub fn new(told: Asked) -> Self {
        Self {
            told,
            now: 0,
            generation: 1,
            state: CircuitState::Closed,
            window: VecDeque::new(),
            streak: 0,
            until: 0,
            places: Vec::new(),
            leases: HashMap::new(),
            ended: 0,
        }
    }

    pub fn enter(&mut self, state: CircuitState) {
        self.state = state;
        self.generation += 1;
        self.window.clear();
        self.streak = 0;
        self.ended = 0;
        self.places = vec![Place::Free; self.told.probes];
        self.until = self.now + OPEN_MS;
    }

    pub fn wait(&mut self, time: u64) {
        self.now += time;
    }

    /// What is due by time alone.
    pub fn advance(&mut self) {
        if self.state == CircuitState::Open && self.until <= self.now {
            self.enter(CircuitState::HalfOpen);
        }
    }

    pub fn admit(&mut self, call: usize) -> bool {
        self.advance();
        match self.state {
            CircuitState::Closed | CircuitState::ForcedClosed => true,
            CircuitState::Open | CircuitState::ForcedOpen => false,
            CircuitState::HalfOpen => {
                let now = self.now;
                let free = self.places.iter_mut().find(|place| match place {
                    Place::Free => true,
                    Place::Taken { until } => *until <= now,
                    Place::Spent => false,
                });
                let until = now + LEASE_MS;
                self.leases.insert(call, until);
                free.map(|place| *place = Place::Taken { until }).is_some()
            }
        }
    }

    /// Settles the place of a call, where it is still its own. A place is known by the end of its lease, so of two
    /// probes of one instant it does not matter whose place the next one has taken.
    pub fn settle(&mut self, call: usize, to: Place) {
        let Some(lease) = self.leases.get(&call) else {
            return;
        };
        let taken = Place::Taken { until: *lease };
        if let Some(place) = self.places.iter_mut().find(|place| **place == taken) {
            *place = to;
        }
    }

    pub fn end(&mut self, call: usize, generation: u64, outcome: Outcome) {
        if generation != self.generation {
            return;
        }
        let failed = match outcome {
            Ok(Verdict::Success) => Some(false),
            Ok(Verdict::Rejected) if self.state == CircuitState::HalfOpen => Some(false),
            Err(Verdict::Unknown { .. }) => Some(true),
            _ => None,
        };
        match (self.state, failed) {
            (CircuitState::HalfOpen, None) => self.settle(call, Place::Free),
            (CircuitState::HalfOpen, Some(true)) => self.enter(CircuitState::Open),
            (CircuitState::HalfOpen, Some(false)) => {
                self.settle(call, Place::Spent);
                self.ended += 1;
                if self.ended >= self.told.probes {
                    self.enter(CircuitState::Closed);
                }
            }
            (_, None) => {}
            (_, Some(failed)) => self.count(failed),
        }
    }

    pub fn count(&mut self, failed: bool) {
        self.streak = if failed { self.streak + 1 } else { 0 };
        self.window.push_back(failed);
        if self.window.len() > self.told.window {
            self.window.pop_front();
        }
        let enough = self.window.len() >= self.told.minimum;
        let by_rate = enough && 2 * self.failures() >= self.window.len();
        let by_streak = self
            .told
            .consecutive
            .is_some_and(|limit| self.streak >= limit);
        if self.state == CircuitState::Closed && (by_rate || by_streak) {
            self.enter(CircuitState::Open);
        }
    }

    pub fn failures(&self) -> usize {
        self.window.iter().filter(|failed| **failed).count()
    }
}

/// A service whose calls end when they are told to.
#[derive(Clone)]
pub struct Puppet;

pub type Strings = oneshot::Receiver<Outcome>;

impl Service<Strings> for Puppet {
    type Response = Verdict;
    type Error = Says;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Verdict, Says>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Says>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, strings: Strings) -> Self::Future {
        Box::pin(async move { strings.await.unwrap_or(Ok(Verdict::Success)).map_err(Says) })
    }
}

impl Policy<Strings, Verdict, Says> for Told {
    fn effect(&self, _: &Strings) -> Effect {
        Effect::Read
    }

    fn classify(&self, _: &Attempt, outcome: Result<&Verdict, &Says>) -> Verdict {
        match outcome {
            Ok(verdict) | Err(Says(verdict)) => *verdict,
        }
    }
}

pub type Inside = CircuitBreakerFuture<<Puppet as Service<Strings>>::Future, Told, Strings>;

/// A call under way.
pub struct Held {
    pub call: usize,
    pub generation: u64,
    pub strings: oneshot::Sender<Outcome>,
    pub future: Spawn<Inside>,
}

/// Makes a call; none where it is refused.
pub fn begin(breaker: &CircuitBreaker, call: usize) -> Option<Held> {
    let mut service = CircuitBreakerLayer::new(breaker.clone(), Told).layer(Puppet);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let ready = Service::<Strings>::poll_ready(&mut service, &mut cx);
    assert!(ready.is_ready());
    let (strings, receiver) = oneshot::channel();
    let mut future = spawn(service.call(receiver));
    let generation = breaker.metrics().generation();
    match future.poll() {
        std::task::Poll::Pending => Some(Held {
            call,
            generation,
            strings,
            future,
        }),
        std::task::Poll::Ready(outcome) => {
            let error: BoxError = outcome.unwrap_err();
            assert!(BreakerOpen::find(&*error).is_some());
            None
        }
    }
}

pub fn end(mut held: Held, outcome: Outcome) {
    held.strings.send(outcome).unwrap();
    assert!(held.future.poll().is_ready());
}
