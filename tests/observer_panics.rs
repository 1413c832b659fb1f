//! An observer that panics whatever it hears changes no outcome and wedges nothing.
#![cfg(all(not(loom), feature = "http"))]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of tests are tests too"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use support::{Script, Step};
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::circuit_breaker::Transition;
use tower_composure::{
    Attempt, AttemptFinished, Backoff, Budget, CallReport, CircuitBreaker, DeadlineExceeded,
    Effect, HttpPolicy, IdempotencyKeyLayer, Jitter, Observer, RetryLayer, RetryScheduled, Stack,
    StopReason,
};

const MS: Duration = Duration::from_millis(1);

type Client = Script<Request<()>, Response<()>, &'static str>;

fn answer(status: StatusCode) -> Step<Response<()>, &'static str> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    Step::Ok(response)
}

async fn call(
    service: &mut (impl Service<Request<()>, Response = Response<()>, Error = BoxError> + Send),
) -> Result<StatusCode, BoxError> {
    let request = Request::builder()
        .method(Method::POST)
        .uri("/")
        .body(())
        .unwrap();
    let outcome = service.ready().await?.call(request).await;
    outcome.map(|response| response.status())
}

/// Panics whatever it hears.
struct Panics;

impl Observer for Panics {
    fn attempt_started(&self, _: &str, _: &Attempt) {
        panic!("an observer's own")
    }
    fn attempt_finished(&self, _: &str, _: &AttemptFinished) {
        panic!("an observer's own")
    }
    fn retry_scheduled(&self, _: &str, _: &RetryScheduled) {
        panic!("an observer's own")
    }
    fn retry_refused(&self, _: &str, _: &Attempt, _: StopReason) {
        panic!("an observer's own")
    }
    fn call_finished(&self, _: &str, _: &CallReport) {
        panic!("an observer's own")
    }
    fn budget_deposited(&self, _: &str, _: f64) {
        panic!("an observer's own")
    }
    fn budget_withdrawn(&self, _: &str, _: f64) {
        panic!("an observer's own")
    }
    fn budget_exhausted(&self, _: &str, _: f64) {
        panic!("an observer's own")
    }
    fn breaker_transition(&self, _: &str, _: &Transition) {
        panic!("an observer's own")
    }
    fn breaker_rejected(&self, _: &str, _: Duration) {
        panic!("an observer's own")
    }
    fn breaker_probe(&self, _: &str) {
        panic!("an observer's own")
    }
    fn deadline_exceeded(&self, _: &str, _: &DeadlineExceeded) {
        panic!("an observer's own")
    }
    fn key_minted(&self, _: &str) {
        panic!("an observer's own")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_an_observer_breaks_nothing() {
    let run = |observer: Option<Arc<dyn Observer>>| {
        let breaker = CircuitBreaker::builder()
            .consecutive_failures(2)
            .open_time(Duration::from_secs(1));
        let breaker = match &observer {
            Some(observer) => breaker.observer(Arc::clone(observer)),
            None => breaker,
        };
        let mut builder = Stack::builder(HttpPolicy::new())
            .breaker(breaker.build().unwrap())
            .budget(Budget::new(0.5, 2).unwrap())
            .attempt_deadline(Duration::from_secs(1))
            .call_deadline(Duration::from_secs(5))
            .backoff(Backoff::constant(MS).jitter(Jitter::None))
            .idempotency_key(IdempotencyKeyLayer::new());
        if let Some(observer) = observer {
            builder = builder.observer(observer);
        }
        let script = Client::new([
            answer(StatusCode::SERVICE_UNAVAILABLE),
            answer(StatusCode::OK),
            Step::Hang,
        ]);
        let mut service = builder.build().unwrap().layer(script);
        async move {
            let mut outcomes = Vec::new();
            for _ in 0..5 {
                let outcome = call(&mut service).await;
                outcomes.push(outcome.map_err(|error| error.to_string()));
            }
            outcomes
        }
    };
    let quiet = run(None).await;
    assert_eq!(run(Some(Arc::new(Panics))).await, quiet);
}

/// Counts the calls that it hears of.
#[derive(Default)]
struct Finished(AtomicU32);

impl Observer for Finished {
    fn call_finished(&self, dependency: &str, _: &CallReport) {
        assert_eq!(dependency, "payments");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn the_panic_of_one_observer_is_not_the_silence_of_the_next() {
    let finished = Arc::new(Finished::default());
    let listeners: Vec<Arc<dyn Observer>> = vec![
        Arc::new(Panics),
        Arc::new((Panics, Arc::clone(&finished))),
        Arc::clone(&finished) as _,
    ];
    let layer = RetryLayer::builder(Effect::Read)
        .dependency("payments")
        .observer(Arc::new(listeners));
    let service = layer.build().unwrap().layer(Script::new([Step::Ok(1)]));
    let answer: Result<u32, &'static str> = service.oneshot(7).await;
    assert_eq!(answer, Ok(1));
    assert_eq!(finished.0.load(Ordering::Relaxed), 2);
}
