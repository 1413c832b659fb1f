//! A future dropped in each of its states leaves budget, breaker and permits as if the drop had been expected.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use support::{Readiness, Script, Step};
use tokio::time::{advance, sleep};
use tokio_test::task::spawn;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, Backoff, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, CircuitState,
    Deadline, DeadlineLayer, Effect, Jitter, RetryLayer, Stack,
};

const SECOND: Duration = Duration::from_secs(1);

type Inner = Script<u32, u32, &'static str>;

fn retry() -> RetryLayer<Effect> {
    RetryLayer::builder(Effect::Read)
        .backoff(Backoff::constant(10 * SECOND).jitter(Jitter::None))
        .build()
        .unwrap()
}

/// Half-open, with one place for a probe.
async fn half_open() -> CircuitBreaker {
    let breaker = CircuitBreaker::builder()
        .consecutive_failures(1)
        .probes(1)
        .open_time(SECOND)
        .max_open_time(SECOND)
        .open_jitter(0.0)
        .probe_lease(3600 * SECOND)
        .build()
        .unwrap();
    let failing = Inner::new([Step::Err("down")]);
    let service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(failing);
    service.oneshot(0).await.unwrap_err();
    advance(SECOND).await;
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    breaker
}

/// The next call is let through and closes the breaker: no probe is out.
async fn assert_probe_is_free(breaker: &CircuitBreaker) {
    let healthy = Inner::new([Step::Ok(1)]);
    let service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(healthy);
    assert_eq!(service.oneshot(0).await.unwrap(), 1);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn case_106_a_dropped_probe_gives_its_place_back() {
    // Dropped before its first poll.
    let breaker = half_open().await;
    let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
    let mut service = layer.layer(Inner::new([Step::Hang]));
    drop(service.ready().await.unwrap().call(1));
    assert_probe_is_free(&breaker).await;

    // Dropped while the service is at work.
    let breaker = half_open().await;
    let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
    let inner = Inner::new([Step::Hang]);
    let mut service = layer.layer(inner.clone());
    let mut call = spawn(service.ready().await.unwrap().call(1));
    assert!(call.poll().is_pending());
    assert_eq!(inner.in_flight(), 1);
    drop(call);
    assert_eq!(inner.in_flight(), 0);
    assert_probe_is_free(&breaker).await;

    // Dropped while it waits for readiness, which reserves nothing.
    let breaker = half_open().await;
    let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
    let never = Inner::new([Step::Hang]).readiness([Readiness::Never]);
    let mut waiting = spawn(layer.layer(never).oneshot(1));
    assert!(waiting.poll().is_pending());
    drop(waiting);
    assert_probe_is_free(&breaker).await;

    // Dropped by a timeout around the stack.
    let breaker = half_open().await;
    let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
    let call = layer.layer(Inner::new([Step::Hang])).oneshot(1);
    tokio::time::timeout(SECOND, call).await.unwrap_err();
    assert_probe_is_free(&breaker).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_are_not_counted() {
    let breaker = CircuitBreaker::default();
    let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
    let mut service = layer.layer(Inner::new([Step::Hang]));
    for number in 0..100 {
        let mut call = spawn(service.ready().await.unwrap().call(number));
        assert!(call.poll().is_pending());
    }
    assert_eq!(breaker.metrics().recorded(), 0);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_retry_dropped_in_any_state_costs_what_it_has_started() {
    let budget = Budget::new(0.5, 5).unwrap();
    let inner = Inner::new([Step::Err("first"), Step::Hang]);
    let service = BudgetLayer::new(budget.clone()).layer(retry().layer(inner.clone()));

    // In its wait: the token goes back.
    let mut call = spawn(service.clone().oneshot(1));
    assert!(call.poll().is_pending());
    assert!(
        (budget.balance() - 4.0).abs() < 1e-9,
        "withdrawn before the wait"
    );
    assert_eq!(inner.in_flight(), 0, "and the attempt is released");
    drop(call);
    assert!(budget.is_full());

    // In its second attempt: the token is spent.
    let inner = Inner::new([Step::Err("first"), Step::Hang]);
    let service = BudgetLayer::new(budget.clone()).layer(retry().layer(inner.clone()));
    let mut call = spawn(service.oneshot(1));
    assert!(call.poll().is_pending());
    sleep(11 * SECOND).await;
    assert!(call.poll().is_pending());
    assert_eq!((inner.calls(), inner.in_flight()), (2, 1));
    drop(call);
    assert_eq!(inner.in_flight(), 0);
    assert!(
        (budget.balance() - 4.0).abs() < 1e-9,
        "nothing deposited, nothing back"
    );
}

#[tokio::test(start_paused = true)]
async fn a_future_that_was_never_polled_does_nothing() {
    let budget = Budget::default();
    let breaker = CircuitBreaker::default();
    let inner = Inner::new([Step::Ok(1)]);
    let stack = Stack::builder(Effect::Read)
        .budget(budget.clone())
        .breaker(breaker.clone())
        .build()
        .unwrap();
    let mut service = stack.layer(inner.clone());
    drop(service.ready().await.unwrap().call(1));
    assert_eq!((inner.calls(), inner.in_flight()), (1, 0));
    assert!(budget.is_full());
    assert_eq!(breaker.metrics().recorded(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_reports_has_already_dropped_what_it_cut_off() {
    let inner = Inner::new([Step::Hang]);
    let mut service = DeadlineLayer::call(SECOND).layer(inner.clone());
    let mut call = spawn(service.ready().await.unwrap().call(1));
    assert!(call.poll().is_pending());
    sleep(SECOND).await;
    assert!(call.poll().is_ready());
    assert_eq!(inner.in_flight(), 0, "the finished future is still there");
    drop(call);
}

#[tokio::test(start_paused = true)]
async fn a_stack_dropped_anywhere_gives_every_permit_back() {
    for dropped_after in [0, 1, 500, 1500, 2500, 3500] {
        let budget = Budget::new(0.5, 20).unwrap();
        let breaker = CircuitBreaker::default();
        let inner = Inner::new([
            Step::Err("first").after(SECOND),
            Step::Err("second").after(SECOND),
            Step::Ok(1).after(SECOND),
        ]);
        let limited = ConcurrencyLimit::new(inner.clone(), 1);
        let stack = Stack::builder(Effect::Read)
            .budget(budget.clone())
            .breaker(breaker.clone())
            .backoff(Backoff::constant(SECOND / 4).jitter(Jitter::None))
            .build()
            .unwrap();
        let service = stack.layer(limited.clone());
        let call = tokio::time::timeout(Duration::from_millis(dropped_after), service.oneshot(1));
        let _ = call.await;
        assert_eq!(inner.in_flight(), 0, "after {dropped_after} ms");
        let retries_started = inner.calls().saturating_sub(1);
        let ended = f64::from(u8::from(dropped_after >= 3500));
        let expected = 20.0 - f64::from(u32::try_from(retries_started).unwrap()) + ended / 2.0;
        assert!(
            (budget.balance() - expected).abs() < 1e-9,
            "after {dropped_after} ms"
        );
        let recorded = breaker.metrics().recorded();
        assert_eq!(recorded, u32::from(dropped_after >= 3500));
        let free = tokio::time::timeout(Duration::ZERO, ready(limited.clone())).await;
        assert!(free.is_ok(), "the permit is back after {dropped_after} ms");
    }
}

/// Waits until a call could be made.
async fn ready(mut service: ConcurrencyLimit<Inner>) {
    service.ready().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_service_is_a_drop() {
    // In its future.
    let breaker = half_open().await;
    let budget = Budget::default();
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(breaker.clone(), Effect::Read))
        .layer(DeadlineLayer::call(SECOND))
        .layer(BudgetLayer::new(budget.clone()))
        .layer(retry())
        .service(Inner::new([Step::Panic]));
    tokio::spawn(service.oneshot(1)).await.unwrap_err();
    assert_probe_is_free(&breaker).await;
    assert!(budget.is_full());

    // In its call, on this thread: what was in scope is out of it again.
    let breaker = half_open().await;
    let mut service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(breaker.clone(), Effect::Read))
        .layer(DeadlineLayer::call(SECOND))
        .layer(BudgetLayer::new(budget.clone()))
        .layer(retry())
        .service(tower::service_fn(
            |_: u32| -> std::future::Ready<Result<u32, &str>> {
                assert!(Attempt::current().is_some() && Deadline::current().is_some());
                panic!("in call")
            },
        ));
    let service = service.ready().await.unwrap();
    let call = std::panic::catch_unwind(AssertUnwindSafe(|| drop(service.call(1))));
    assert!(call.is_err());
    assert!(Attempt::current().is_none() && Deadline::current().is_none());
    assert_probe_is_free(&breaker).await;
    assert!(budget.is_full());
}
