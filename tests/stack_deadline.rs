//! The preset: its deadlines, and what the breaker makes of those who run out of time or go away.
#![cfg(not(loom))]

#[path = "support/says.rs"]
mod says;
mod support;

use std::time::Duration;

use says::{
    Dependency, Says, always, assert_balance, breaker_open, budget, eager, exceeded, recorded,
    touchy,
};
use support::{Readiness, Script, Step};
use tokio_test::{assert_pending, task};
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, Budget, CallReport, CircuitBreaker, CircuitState, DeadlineLayer, Effect, Hint, Jitter,
    Stack, StopReason, Verdict,
};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn the_call_deadline_covers_attempts_and_waits() {
    let script: Dependency = Script::new([Step::Hang]);
    let service = Stack::builder(Says(Effect::Read))
        .backoff(Backoff::constant(100 * MS).jitter(Jitter::None))
        .attempt_deadline(250 * MS)
        .call_deadline(500 * MS)
        .build()
        .unwrap()
        .layer(script.clone());
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    let error = outcome.unwrap_err();
    assert_eq!(script.times(), [0, 350]);
    assert!(exceeded(&error).is_call());
    assert_eq!(exceeded(&error).report().unwrap().attempts(), 2);
    assert_eq!(report.unwrap().backoff(), 100 * MS);
    assert_eq!(script.in_flight(), 0);
    // The second attempt had 150 ms left of its 250.
    assert_eq!(script.age(), 500 * MS);
}

#[tokio::test(start_paused = true)]
async fn the_call_deadline_covers_readiness_between_attempts() {
    let script = always(Verdict::REFUSED).readiness([Readiness::Ready, Readiness::Never]);
    let budget = budget();
    let service = Stack::builder(Says(Effect::Write))
        .backoff(Backoff::none())
        .call_deadline(500 * MS)
        .budget(budget.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let error = service.oneshot(1).await.unwrap_err();
    let exceeded = exceeded(&error);
    assert!(exceeded.is_call());
    assert_eq!(exceeded.report().unwrap().verdict(), Verdict::REFUSED);
    assert_eq!(exceeded.report().unwrap().attempts(), 1);
    assert_eq!(script.calls(), 1);
    assert_eq!(script.age(), 500 * MS);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_call_deadline_is_not_begun() {
    let hint = Some(Hint::after(10_000 * MS));
    let script = always(Verdict::REFUSED.with_hint(hint));
    let budget = budget();
    let service = Stack::builder(Says(Effect::Read))
        .budget(budget.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    assert_eq!(outcome.unwrap(), Verdict::REFUSED.with_hint(hint));
    assert_eq!(report.unwrap().stop_reason(), Some(StopReason::Deadline));
    assert_eq!(script.age(), Duration::ZERO);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn the_attempt_deadline_stands_below_the_retry() {
    let script: Dependency = Script::new([Step::Hang, Step::Ok(Verdict::Success)]);
    let service = eager(Effect::Read)
        .attempt_deadline(200 * MS)
        .build()
        .unwrap()
        .layer(script.clone());
    assert_eq!(service.oneshot(1).await.unwrap(), Verdict::Success);
    assert_eq!(script.times(), [0, 200]);
    assert_eq!(script.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_in_backoff_stop_retrying_when_the_breaker_opens() {
    const ASLEEP: usize = 200;
    const INSIDE: usize = 10;
    const FAULTS: usize = 20;
    let budget = Budget::new(0.0, 500).unwrap();
    let breaker = CircuitBreaker::builder()
        .window(20)
        .minimum_calls(20)
        .build()
        .unwrap();
    let refused = Step::Ok(Verdict::REFUSED);
    let steps = std::iter::repeat_n(refused.clone(), ASLEEP)
        .chain(std::iter::repeat_n(refused.after(700 * MS), INSIDE))
        .chain([Step::Ok(Verdict::Fault)]);
    let script: Dependency = Script::new(steps);
    let service = Stack::builder(Says(Effect::Read))
        .backoff(Backoff::constant(1000 * MS).jitter(Jitter::None))
        .budget(budget.clone())
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());

    let mut calls: Vec<_> = (0..ASLEEP + INSIDE)
        .map(|_| task::spawn(CallReport::of(service.clone().oneshot(1))))
        .collect();
    for call in &mut calls {
        assert_pending!(call.poll());
    }
    assert_balance(&budget, 300.0);
    tokio::time::advance(500 * MS).await;
    for _ in 0..FAULTS {
        service.clone().oneshot(1).await.unwrap();
    }
    assert_eq!(breaker.state(), CircuitState::Open);

    let inside = calls.split_off(ASLEEP);
    let ends = futures_of(inside).await;
    for (outcome, report) in ends {
        // Their attempt ended after the breaker had opened: the outcome is their own.
        assert_eq!(outcome.unwrap(), Verdict::REFUSED);
        assert_eq!(report.unwrap().stop_reason(), Some(StopReason::BreakerOpen));
    }
    let asleep = futures_of(calls).await;
    for (outcome, _) in asleep {
        breaker_open(&outcome.unwrap_err());
    }
    assert_eq!(script.calls(), ASLEEP + INSIDE + FAULTS);
    assert!(budget.is_full());
    // What they came to was not counted into the period that refused them.
    assert_eq!(breaker.state(), CircuitState::Open);
    assert_eq!(script.in_flight(), 0);
}

async fn futures_of<F: Future>(calls: Vec<task::Spawn<F>>) -> Vec<F::Output> {
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await);
    }
    outcomes
}

#[tokio::test(start_paused = true)]
async fn an_impatient_caller_does_not_open_the_breaker_of_a_healthy_stack() {
    let breaker = touchy();
    let slow = Step::Ok(Verdict::Success).after(100 * MS);
    let script: Dependency = Script::new([slow]);
    let stack = Stack::builder(Says(Effect::Read))
        .breaker(breaker.clone())
        .build()
        .unwrap();
    let impatient = ServiceBuilder::new()
        .layer(DeadlineLayer::call(50 * MS))
        .layer(stack.clone())
        .service(script.clone());
    for _ in 0..30 {
        let error = impatient.clone().oneshot(1).await.unwrap_err();
        assert!(exceeded(&error).is_call());
    }
    assert_eq!(script.times()[1], 50);
    assert_eq!(recorded(&breaker), (0, 0));
    assert_eq!(breaker.state(), CircuitState::Closed);

    // With time enough the same stack answers.
    let patient = stack.layer(script).oneshot(1).await;
    assert_eq!(patient.unwrap(), Verdict::Success);
    assert_eq!(recorded(&breaker), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_counts_nothing() {
    let (budget, breaker) = (budget(), touchy());
    let script: Dependency = Script::new([Step::Hang]);
    let service = Stack::builder(Says(Effect::Read))
        .budget(budget.clone())
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let timed = ServiceBuilder::new().timeout(1000 * MS).service(service);
    for _ in 0..100 {
        timed.clone().oneshot(1).await.unwrap_err();
    }
    assert_eq!(script.calls(), 100);
    assert_eq!(script.in_flight(), 0);
    assert_eq!(recorded(&breaker), (0, 0));
    assert_eq!(breaker.state(), CircuitState::Closed);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn a_call_deadline_below_the_breaker_is_a_failure() {
    let breaker = touchy();
    let script: Dependency = Script::new([Step::Hang]);
    let service = Stack::builder(Says(Effect::Write))
        .call_deadline(300 * MS)
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let error = service.oneshot(1).await.unwrap_err();
    assert!(exceeded(&error).is_call());
    assert_eq!(script.age(), 300 * MS);
    assert_eq!(
        recorded(&breaker),
        (0, 0),
        "the window of a new period is empty"
    );
    assert_eq!(breaker.state(), CircuitState::Open);
}
