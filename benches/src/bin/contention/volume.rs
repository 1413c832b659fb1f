//! A call in a time window costs the same at a hundred thousand records as at a hundred.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use composure_benches::{Bare, Never, call};
use tower::{Layer, Service};
use tower_composure::{BoxError, CircuitBreaker, CircuitBreakerLayer, Effect};

use crate::report::met;

const FEW: u64 = 100;
const MANY: u64 = 100_000;
/// So many calls are timed at once; they are records too, so few must stay few.
const TIMED: u64 = 50;
const ROUNDS: usize = 2001;
const MOST: f64 = 1.2;

/// Fails the first time it is asked for zero.
#[derive(Clone)]
struct FailsOnce;

impl Service<u64> for FailsOnce {
    type Response = u64;
    type Error = Never;
    type Future = std::future::Ready<Result<u64, Never>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u64) -> Self::Future {
        std::future::ready(Err(Never))
    }
}

/// A breaker whose window holds so many records, with one failure among them or none.
fn filled(records: u64, failure: bool) -> impl Service<u64, Response = u64, Error = BoxError> {
    let breaker = CircuitBreaker::builder()
        .time_window(Duration::from_secs(3600))
        .build()
        .expect("settings that work");
    let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
    let mut service = layer.layer(Bare);
    let successes = records - u64::from(failure);
    (0..successes).for_each(|number| call(&mut service, number));
    if failure {
        fail(layer.layer(FailsOnce));
    }
    assert_eq!(u64::from(breaker.metrics().recorded()), records);
    service
}

fn fail(mut service: impl Service<u64>) {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let _ = service.poll_ready(&mut cx);
    let _ = std::pin::pin!(service.call(0)).poll(&mut cx);
}

/// Nanoseconds a call.
fn timed(service: &mut impl Service<u64>) -> f64 {
    let start = Instant::now();
    (0..TIMED).for_each(|number| call(service, number));
    start.elapsed().as_secs_f64() * 1e9 / TIMED as f64
}

/// Few and many in turn, so that a slow spell of the machine meets both.
pub fn check(failure: bool) {
    let mut many = filled(MANY, failure);
    let (mut at_few, mut at_many) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut few = filled(FEW, failure);
        at_few.push(timed(&mut few));
        // The first ones find their lines cold, which the few have just touched.
        timed(&mut many);
        timed(&mut many);
        at_many.push(timed(&mut many));
    }
    let [few, many] = [at_few, at_many].map(median);
    let what = if failure {
        "one failure among the records"
    } else {
        "successes only"
    };
    println!(
        "{}: a call in a time window at {MANY} records to one at {FEW}, {what}: {:.2} times, goal at most {MOST}; {many:.0} and {few:.0} ns",
        met(many / few <= MOST),
        many / few
    );
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}
