//! The fifth promise: a call that succeeds at once allocates nothing, whatever layers there are and in which order.
//! The other promises are in `promises/`; this one counts for the whole process.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::alloc::System;
use std::future::{Future, Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tower::{BoxError, Layer, Service, ServiceBuilder};
use tower_composure::{
    BudgetLayer, CircuitBreaker, CircuitBreakerLayer, Count, DeadlineLayer, Effect, Observer,
    RetryLayer, Stack,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[derive(Clone)]
struct Bare;

impl Service<u64> for Bare {
    type Response = u64;
    type Error = BoxError;
    type Future = Ready<Result<u64, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u64) -> Self::Future {
        ready(Ok(number))
    }
}

fn call(service: &mut impl Service<u64, Response = u64, Error = BoxError>, number: u64) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))));
    let answer = pin!(service.call(number)).poll(&mut cx);
    assert!(matches!(answer, Poll::Ready(Ok(same)) if same == number));
}

fn allocations(mut service: impl Service<u64, Response = u64, Error = BoxError>) -> usize {
    // The first calls register the thread's locals and fill the breaker's window.
    (0..150).for_each(|number| call(&mut service, number));
    // The thread of the test harness allocates when it likes; what calls allocate, they do in each round.
    let rounds = (0..3).map(|_| {
        let region = Region::new(ALLOCATOR);
        (0..50).for_each(|number| call(&mut service, number));
        let change = region.change();
        change.allocations + change.reallocations
    });
    rounds.min().unwrap()
}

fn breaker(count: Count) -> CircuitBreakerLayer<Effect> {
    let breaker = CircuitBreaker::builder().count(count).build().unwrap();
    CircuitBreakerLayer::new(breaker, Effect::Read)
}

/// The service below these layers, each of which is there where its bit is set.
macro_rules! stacked {
    ($bits:ident: $($layer:expr),+) => {{
        let mut bit = 1_u32;
        let mut is_there = || {
            let there = $bits & bit != 0;
            bit <<= 1;
            there
        };
        allocations(ServiceBuilder::new()$(.option_layer(is_there().then(|| $layer)))+.service(Bare))
    }};
}

// One test, since the allocator counts for the whole process.
#[test]
fn no_set_of_layers_in_any_order_allocates() {
    let call = || DeadlineLayer::call(Duration::from_secs(8));
    let attempt = || DeadlineLayer::attempt(Duration::from_secs(3));
    let budget = BudgetLayer::default;
    let retry = || RetryLayer::new(Effect::Read);
    let (calls, attempts) = (|| breaker(Count::Calls), || breaker(Count::Attempts));
    let region = Region::new(ALLOCATOR);
    drop(Box::new(7));
    assert_eq!(region.change().allocations, 1, "the count counts");
    for bits in 0..1 << 5 {
        let orders = [
            stacked!(bits: calls(), call(), budget(), retry(), attempt()),
            stacked!(bits: attempts(), call(), budget(), retry(), attempt()),
            stacked!(bits: call(), calls(), budget(), retry(), attempt()),
            stacked!(bits: budget(), retry(), call(), attempts(), attempt()),
            stacked!(bits: retry(), budget(), retry(), calls(), call()),
            stacked!(bits: attempt(), retry(), attempts(), call(), budget()),
            stacked!(bits: call(), budget(), call(), retry(), calls()),
        ];
        assert_eq!(orders, [0; 7], "layers {bits:05b}");
    }
    let breaker = CircuitBreaker::builder;
    let presets = [
        breaker(),
        breaker().count(Count::Attempts),
        breaker().time_window(Duration::from_secs(30)),
        breaker().slow_calls(Duration::from_secs(1), 0.5),
    ];
    for (preset, breaker) in presets.into_iter().enumerate() {
        let breaker = breaker.probe_lease(Duration::from_secs(8)).build().unwrap();
        let stack = || Stack::builder(Effect::Read).breaker(breaker.clone());
        let stacks = [stack(), stack().observer(Arc::new(Silent))];
        let found = stacks.map(|stack| allocations(stack.build().unwrap().layer(Bare)));
        assert_eq!(found, [0; 2], "preset {preset}, unwatched and watched");
    }
}

struct Silent;

impl Observer for Silent {}
