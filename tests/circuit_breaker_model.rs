//! The breaker beside a plain sequential model: the same visible state after every step. And one promise: a healthy
//! dependency is never rejected for ever.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use support::breaker::{Outcome, Says, Told, failure, success};
use support::paused;
use tokio::sync::oneshot;
use tokio::time::advance;
use tokio_test::task::{Spawn, spawn};
use tower::{BoxError, Layer, Service};
use tower_composure::circuit_breaker::{CircuitBreakerBuilder, CircuitBreakerFuture};
use tower_composure::{
    Attempt, BreakerOpen, CircuitBreaker, CircuitBreakerLayer, CircuitState, Effect, Policy,
    Verdict,
};

/// What is asked of the breaker.
#[derive(Debug, Clone)]
struct Asked {
    window: usize,
    minimum: usize,
    consecutive: Option<usize>,
    probes: usize,
}

const OPEN_MS: u64 = 10_000;
const LEASE_MS: u64 = 15_000;

impl Asked {
    fn builder(&self) -> CircuitBreakerBuilder {
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

fn told() -> impl Strategy<Value = Asked> {
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
enum Move {
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

fn moves() -> impl Strategy<Value = Vec<Move>> {
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
struct Model {
    told: Asked,
    now: u64,
    generation: u64,
    state: CircuitState,
    window: VecDeque<bool>,
    streak: usize,
    until: u64,
    places: Vec<Place>,
    ended: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Free,
    Taken { call: usize, until: u64 },
    Spent,
}

impl Model {
    fn new(told: Asked) -> Self {
        Self {
            told,
            now: 0,
            generation: 1,
            state: CircuitState::Closed,
            window: VecDeque::new(),
            streak: 0,
            until: 0,
            places: Vec::new(),
            ended: 0,
        }
    }

    fn enter(&mut self, state: CircuitState) {
        self.state = state;
        self.generation += 1;
        self.window.clear();
        self.streak = 0;
        self.ended = 0;
        self.places = vec![Place::Free; self.told.probes];
        self.until = self.now + OPEN_MS;
    }

    fn wait(&mut self, time: u64) {
        self.now += time;
    }

    /// What is due by time alone.
    fn advance(&mut self) {
        if self.state == CircuitState::Open && self.until <= self.now {
            self.enter(CircuitState::HalfOpen);
        }
    }

    fn admit(&mut self, call: usize) -> bool {
        self.advance();
        match self.state {
            CircuitState::Closed | CircuitState::ForcedClosed => true,
            CircuitState::Open | CircuitState::ForcedOpen => false,
            CircuitState::HalfOpen => {
                let now = self.now;
                let free = self.places.iter_mut().find(|place| match place {
                    Place::Free => true,
                    Place::Taken { until, .. } => *until <= now,
                    Place::Spent => false,
                });
                let until = now + LEASE_MS;
                free.map(|place| *place = Place::Taken { call, until })
                    .is_some()
            }
        }
    }

    /// Settles the place of a call, where it is still its own.
    fn settle(&mut self, call: usize, to: Place) {
        for place in &mut self.places {
            if matches!(place, Place::Taken { call: holder, .. } if *holder == call) {
                *place = to;
            }
        }
    }

    fn end(&mut self, call: usize, generation: u64, outcome: Outcome) {
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

    fn count(&mut self, failed: bool) {
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

    fn failures(&self) -> usize {
        self.window.iter().filter(|failed| **failed).count()
    }
}

/// A service whose calls end when they are told to.
#[derive(Clone)]
struct Puppet;

type Strings = oneshot::Receiver<Outcome>;

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

type Inside = CircuitBreakerFuture<<Puppet as Service<Strings>>::Future, Told, Strings>;

/// A call under way.
struct Held {
    call: usize,
    generation: u64,
    strings: oneshot::Sender<Outcome>,
    future: Spawn<Inside>,
}

/// Makes a call; none where it is refused.
fn begin(breaker: &CircuitBreaker, call: usize) -> Option<Held> {
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

fn end(mut held: Held, outcome: Outcome) {
    held.strings.send(outcome).unwrap();
    assert!(held.future.poll().is_ready());
}

async fn step(
    step: Move,
    breaker: &CircuitBreaker,
    model: &mut Model,
    held: &mut Vec<Held>,
    call: usize,
) {
    match step {
        Move::Call => {
            let begun = begin(breaker, call);
            assert_eq!(begun.is_some(), model.admit(call), "admission");
            held.extend(begun);
        }
        Move::End(which, outcome) if !held.is_empty() => {
            let ended = held.swap_remove(which % held.len());
            model.end(ended.call, ended.generation, outcome);
            end(ended, outcome);
        }
        Move::Drop(which) if !held.is_empty() => {
            let dropped = held.swap_remove(which % held.len());
            if dropped.generation == model.generation {
                model.settle(dropped.call, Place::Free);
            }
        }
        Move::End(..) | Move::Drop(_) => {}
        Move::Wait(time) => {
            advance(Duration::from_millis(time)).await;
            model.wait(time);
        }
        Move::ForceOpen => {
            breaker.force_open();
            if model.state != CircuitState::ForcedOpen {
                model.enter(CircuitState::ForcedOpen);
            }
        }
        Move::ForceClosed => {
            breaker.force_closed();
            if model.state != CircuitState::ForcedClosed {
                model.enter(CircuitState::ForcedClosed);
            }
        }
        Move::Reset => {
            breaker.reset();
            model.enter(CircuitState::Closed);
        }
        Move::Minimum(minimum) => {
            model.told.minimum = 1 + minimum % model.told.window;
            breaker.reconfigure(model.told.builder()).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(told in told(), moves in moves()) {
        paused(async || {
            let breaker = told.builder().build().unwrap();
            let mut model = Model::new(told.clone());
            let mut held = Vec::new();
            for (call, next) in moves.into_iter().enumerate() {
                step(next, &breaker, &mut model, &mut held, call).await;
                let metrics = breaker.metrics();
                model.advance();
                assert_eq!(metrics.state(), model.state);
                assert_eq!(metrics.generation(), model.generation);
                assert_eq!(metrics.recorded() as usize, model.window.len());
                assert_eq!(metrics.failures() as usize, model.failures());
            }
        });
    }

    #[test]
    fn a_time_window_holds_what_is_young_enough(waits in prop::collection::vec((0_u64..3000, any::<bool>()), 1..200)) {
        paused(async || {
            let breaker = CircuitBreaker::builder()
                .time_window(Duration::from_secs(10))
                .minimum_calls(1000)
                .build()
                .unwrap();
            let mut now = 0;
            let mut recorded: Vec<(u64, bool)> = Vec::new();
            for (wait, fails) in waits {
                advance(Duration::from_millis(wait)).await;
                now += wait;
                let held = begin(&breaker, 0).unwrap();
                end(held, if fails { failure() } else { success() });
                recorded.push((now / 500, fails));
                // Twenty buckets of half a second: this one and the nineteen before it.
                let young = |(bucket, _): &&(u64, bool)| now / 500 - bucket < 20;
                let total = recorded.iter().filter(young).count();
                let failures = recorded.iter().filter(young).filter(|(_, fails)| *fails).count();
                let metrics = breaker.metrics();
                assert_eq!((metrics.recorded() as usize, metrics.failures() as usize), (total, failures));
            }
        });
    }

    #[test]
    fn a_healthy_dependency_is_never_rejected_for_ever(
        told in told(),
        moves in moves(),
        gap in prop_oneof![1_u64..100, 5_000_u64..20_000, 100_000_u64..200_000],
        rate in prop::option::of(0.1..=1.0_f64),
        half in prop::option::of(1_000_u64..100_000),
    ) {
        paused(async || {
            let mut builder = told.builder();
            if let Some(rate) = rate {
                builder = builder.probe_failure_rate(rate);
            }
            if let Some(half) = half {
                builder = builder.max_half_open(Duration::from_millis(half));
            }
            let breaker = builder.build().unwrap();
            let mut held = Vec::new();
            for (call, next) in moves.into_iter().enumerate() {
                match next {
                    Move::Call => held.extend(begin(&breaker, call)),
                    Move::End(which, outcome) if !held.is_empty() => {
                        end(held.swap_remove(which % held.len()), outcome);
                    }
                    Move::Drop(which) if !held.is_empty() => {
                        drop(held.swap_remove(which % held.len()));
                    }
                    Move::Wait(time) => advance(Duration::from_millis(time)).await,
                    _ => {}
                }
            }
            // From now on it is healthy, whatever hangs: calls come every so often and succeed at once.
            let mut rejected_for = 0;
            while breaker.state() != CircuitState::Closed {
                advance(Duration::from_millis(gap)).await;
                rejected_for += gap;
                if let Some(probe) = begin(&breaker, usize::MAX) {
                    end(probe, success());
                }
                let patience = (OPEN_MS + LEASE_MS) * 3 + gap * (told.probes as u64 + 3);
                assert!(rejected_for <= patience, "rejected for {rejected_for} ms");
            }
        });
    }
}
