//! Readiness counts once, for one instance: whoever is called was polled ready, and what was taken for a call that is
//! not made goes back.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::time::Duration;

use support::{Readiness, Script, Step};
use tokio::time::timeout;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, BreakerOpen, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer,
    Effect, RetryLayer, Stack,
};

const SECOND: Duration = Duration::from_secs(1);

type Inner = Script<u32, u32, &'static str>;

fn retry() -> RetryLayer<Effect> {
    RetryLayer::builder(Effect::Read)
        .backoff(Backoff::constant(Duration::from_millis(10)))
        .build()
        .unwrap()
}

fn breaker() -> CircuitBreakerLayer<Effect> {
    CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read)
}

/// Three calls in a row and ten at once through clones; the script panics where one comes unready.
async fn calls<S>(service: S)
where
    S: Service<u32, Response = u32> + Clone + Send + 'static,
    S::Error: std::fmt::Debug + Send,
    S::Future: Send,
{
    let mut one = service.clone();
    for number in 0..3 {
        one.ready().await.unwrap().call(number).await.unwrap();
    }
    let tasks: Vec<_> = (0..10)
        .map(|number| tokio::spawn(service.clone().oneshot(number)))
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

/// Every layer and every pair of layers over the same service.
macro_rules! every_pair {
    ($inner:expr; $($layer:expr),+) => {
        every_pair!(@outer $inner; [$($layer),+]; [$($layer),+]);
    };
    (@outer $inner:expr; [$($outer:expr),+]; $inners:tt) => {
        $(
            calls($outer.layer($inner)).await;
            every_pair!(@inner $inner; $outer; $inners);
        )+
    };
    (@inner $inner:expr; $outer:expr; [$($under:expr),+]) => {
        $(calls($outer.layer($under.layer($inner))).await;)+
    };
}

#[tokio::test(start_paused = true)]
async fn case_069_every_layer_and_every_pair_calls_only_what_is_ready() {
    let inner = Inner::new([Step::Ok(1)]);
    every_pair!(
        inner.clone();
        retry(),
        BudgetLayer::default(),
        DeadlineLayer::call(SECOND),
        DeadlineLayer::attempt(SECOND),
        breaker()
    );
    calls(Stack::builder(Effect::Read).build().unwrap().layer(inner)).await;
}

#[tokio::test(start_paused = true)]
async fn case_069_the_same_over_a_real_limit_and_a_real_buffer() {
    let limited = ServiceBuilder::new()
        .concurrency_limit(2)
        .service(Inner::new([Step::Ok(1).after(SECOND / 100)]));
    let buffered = ServiceBuilder::new()
        .buffer(4)
        .service(Inner::new([Step::Ok(1)]));
    every_pair!(
        limited.clone();
        retry(),
        BudgetLayer::default(),
        DeadlineLayer::call(SECOND),
        breaker()
    );
    every_pair!(
        buffered.clone();
        retry(),
        BudgetLayer::default(),
        DeadlineLayer::call(SECOND),
        breaker()
    );
    let stack = Stack::builder(Effect::Read).build().unwrap();
    calls(stack.layer(limited)).await;
    calls(stack.layer(buffered)).await;
}

#[tokio::test(start_paused = true)]
async fn case_070_every_attempt_is_preceded_by_a_readiness_of_its_own() {
    let inner = Inner::new([Step::Err("a"), Step::Err("b"), Step::Ok(3)]);
    let answer = retry().layer(inner.clone()).oneshot(1).await;
    assert_eq!(answer, Ok(3));
    // The strict script has checked that they alternate on each instance.
    assert_eq!((inner.readies(), inner.calls()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn case_071_a_readiness_error_on_a_retry_is_returned_as_it_is() {
    let budget = Budget::new(0.0, 5).unwrap();
    let inner = Inner::new([Step::Err("first"), Step::Ok(1)])
        .readiness([Readiness::Ready, Readiness::Fail("closed")]);
    let service = BudgetLayer::new(budget.clone()).layer(retry().layer(inner.clone()));
    assert_eq!(service.oneshot(1).await, Err("closed"));
    assert_eq!(inner.calls(), 1);
    assert!(budget.is_full(), "its token is back");
}

#[tokio::test(start_paused = true)]
async fn case_071_dropped_while_it_waits_for_readiness_a_retry_costs_nothing() {
    let budget = Budget::new(0.0, 5).unwrap();
    let inner = Inner::new([Step::Err("first"), Step::Ok(1)])
        .readiness([Readiness::Ready, Readiness::Never]);
    let service = BudgetLayer::new(budget.clone()).layer(retry().layer(inner.clone()));
    let dropped = timeout(SECOND, service.oneshot(1)).await;
    assert!(dropped.is_err());
    assert_eq!(inner.calls(), 1);
    assert!(budget.is_full(), "its token is back");
}

#[tokio::test(start_paused = true)]
async fn case_073_a_permit_covers_an_attempt_and_not_a_wait() {
    let inner = Script::<u32, u32, &'static str>::new([Step::Err("busy"), Step::Ok(1)]);
    let layer = RetryLayer::builder(Effect::Read)
        .backoff(Backoff::constant(10 * SECOND).jitter(tower_composure::Jitter::None))
        .build()
        .unwrap();
    let service = layer.layer(ConcurrencyLimit::new(inner.clone(), 1));
    let sleeper = tokio::spawn(service.clone().oneshot(1));
    tokio::time::sleep(SECOND).await;
    assert_eq!(service.oneshot(2).await, Ok(1));
    assert_eq!(
        inner.times(),
        [0, 1000],
        "served at once, beside the one that waits"
    );
    assert_eq!(sleeper.await.unwrap(), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_readiness_gives_the_permit_back() {
    let breaker = CircuitBreaker::default();
    let limited = ConcurrencyLimit::new(Inner::new([Step::Ok(1)]), 1);
    let service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(limited.clone());
    let mut refused = service.clone();
    refused.ready().await.unwrap();
    breaker.force_open();
    let error = refused.call(1).await.unwrap_err();
    assert!(BreakerOpen::find(&*error).is_some());
    let other = timeout(SECOND, limited.oneshot(2)).await;
    assert_eq!(other.expect("the permit is back").unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_queue_gives_its_place_back() {
    let breaker = CircuitBreaker::default();
    let limited = ConcurrencyLimit::new(Inner::new([Step::Hang, Step::Ok(1)]), 1);
    let mut holder = limited.clone();
    let held = holder.ready().await.unwrap().call(0);
    let service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(limited.clone());
    let mut queued = service.clone();
    let mut waiting = tokio_test::task::spawn(async { queued.ready().await.is_ok() });
    assert!(waiting.poll().is_pending(), "it stands in the queue");
    drop(waiting);
    breaker.force_open();
    queued.ready().await.unwrap();
    queued.call(1).await.unwrap_err();
    drop(held);
    let other = timeout(SECOND, limited.oneshot(2)).await;
    assert_eq!(other.expect("nobody holds the permit").unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_strands_no_place_of_a_buffer() {
    let breaker = CircuitBreaker::default();
    let buffered = ServiceBuilder::new()
        .buffer(1)
        .service(Inner::new([Step::Ok(1)]));
    let service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(buffered.clone());
    let mut refused = service.clone();
    refused.ready().await.unwrap();
    breaker.force_open();
    refused.call(1).await.unwrap_err();
    for number in 0..3 {
        let other = timeout(SECOND, buffered.clone().oneshot(number)).await;
        assert_eq!(other.expect("the place is free").unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_does_not_wait_for_the_service() {
    let breaker = CircuitBreaker::default();
    let never = Inner::new([Step::Ok(1)]).readiness([Readiness::Never]);
    let mut service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(never);
    breaker.force_open();
    for _ in 0..1000 {
        timeout(SECOND, service.ready()).await.unwrap().unwrap();
    }
    let error = service.call(1).await.unwrap_err();
    assert!(BreakerOpen::find(&*error).is_some());
    assert_eq!(
        breaker.metrics().rejected(),
        1,
        "asking for readiness counts nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn admitted_but_never_polled_ready_is_refused_with_nothing_remaining() {
    let breaker = CircuitBreaker::builder()
        .consecutive_failures(1)
        .probes(1)
        .open_time(SECOND)
        .open_jitter(0.0)
        .build()
        .unwrap();
    let inner = Inner::new([Step::Err("down"), Step::Ok(1)]);
    let mut service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(inner.clone());
    service.ready().await.unwrap().call(1).await.unwrap_err();
    service.ready().await.unwrap();
    tokio::time::advance(SECOND).await;
    let error = service.call(2).await.unwrap_err();
    assert_eq!(
        BreakerOpen::find(&*error).unwrap().remaining(),
        Duration::ZERO
    );
    assert_eq!(inner.calls(), 1);
    // The probe's place went back.
    assert_eq!(service.ready().await.unwrap().call(3).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_gives_the_permit_back() {
    let limited = ConcurrencyLimit::new(Inner::new([Step::Ok(1)]), 1);
    let mut late = DeadlineLayer::call(Duration::ZERO).layer(limited.clone());
    late.ready().await.unwrap();
    late.call(1).await.unwrap_err();
    let other = timeout(SECOND, limited.oneshot(2)).await;
    assert_eq!(other.expect("the permit is back").unwrap(), 1);
}

#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn the_key_layer_passes_readiness_on() {
    let inner = Script::<http::Request<()>, u32, &'static str>::new([Step::Ok(1)]);
    let service = ServiceBuilder::new()
        .layer(tower_composure::IdempotencyKeyLayer::new())
        .layer(RetryLayer::new(Effect::Read))
        .service(inner.clone());
    for _ in 0..3 {
        let post = http::Request::post("/").body(()).unwrap();
        service.clone().oneshot(post).await.unwrap();
    }
    assert_eq!((inner.readies(), inner.calls()), (3, 3));
}
