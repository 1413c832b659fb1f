//! The breaker beside a plain sequential model: the same visible state after every step. And one promise: a healthy
//! dependency is never rejected for ever.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/breaker_model.rs"]
mod breaker_model;
mod support;

use std::time::Duration;

use breaker_model::{Held, LEASE_MS, Model, Move, OPEN_MS, Place, begin, end, moves, told};
use proptest::prelude::*;
use support::breaker::{failure, success};
use support::paused;
use tokio::time::advance;
use tower_composure::{CircuitBreaker, CircuitState};

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
