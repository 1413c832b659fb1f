//! A call that succeeds at once allocates nothing, and neither does a retry at once.

use std::alloc::System;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use composure_benches::{Bare, FailsFirst, Never, call};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tower::{Layer, Service};
use tower_composure::{
    Backoff, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer, Effect,
    RetryLayer, Stack,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations(mut service: impl Service<u64>) -> usize {
    // The first calls register the thread's locals and fill the breaker's window.
    (0..200).for_each(|number| call(&mut service, number));
    let region = Region::new(ALLOCATOR);
    (0..1000).for_each(|number| call(&mut service, number));
    let change = region.change();
    change.allocations + change.reallocations
}

/// Allocates once a call, so that the count is seen to count.
#[derive(Clone)]
struct Boxing;

impl Service<u64> for Boxing {
    type Response = u64;
    type Error = Never;
    type Future = Pin<Box<dyn Future<Output = Result<u64, Never>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u64) -> Self::Future {
        Box::pin(async move { Ok(number) })
    }
}

/// Not in a test harness, whose own thread allocates when it likes, and the allocator counts for the whole process.
fn main() {
    let retry = || RetryLayer::new(Effect::Read);
    let breaker = || CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read);
    assert_eq!(allocations(Boxing), 1000, "the count counts");
    assert_eq!(allocations(Bare), 0);
    assert_eq!(allocations(retry().layer(Bare)), 0, "retry");
    assert_eq!(
        allocations(BudgetLayer::default().layer(retry().layer(Bare))),
        0,
        "budget"
    );
    let earning = Budget::builder()
        .starting_empty()
        .burst(1_000_000)
        .build()
        .unwrap();
    assert_eq!(
        allocations(BudgetLayer::new(earning).layer(retry().layer(Bare))),
        0,
        "deposits"
    );
    assert_eq!(
        allocations(DeadlineLayer::call(Duration::from_secs(1)).layer(Bare)),
        0,
        "deadline"
    );
    assert_eq!(allocations(breaker().layer(Bare)), 0, "breaker");
    let timed = CircuitBreaker::builder()
        .time_window(Duration::from_secs(1))
        .slow_calls(Duration::from_secs(1), 0.5)
        .build()
        .unwrap();
    let timed = CircuitBreakerLayer::new(timed, Effect::Read);
    assert_eq!(
        allocations(timed.layer(Bare)),
        0,
        "time window and slow calls"
    );
    assert_eq!(
        allocations(Stack::builder(Effect::Read).build().unwrap().layer(Bare)),
        0,
        "stack"
    );
    let at_once = RetryLayer::builder(Effect::Read).backoff(Backoff::none());
    let at_once = at_once.build().unwrap().layer(FailsFirst::new());
    let earning = Budget::new(1.0, 20).unwrap();
    assert_eq!(
        allocations(BudgetLayer::new(earning).layer(at_once)),
        0,
        "a retry at once"
    );
}
