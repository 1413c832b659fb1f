//! What an observer hears of a call: each event once, in the order of things, and nothing after its end.
#![cfg(all(not(loom), feature = "http"))]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of tests are tests too"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use support::{Script, Step};
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::circuit_breaker::Transition;
use tower_composure::{
    Attempt, AttemptFinished, Backoff, Budget, CallReport, CircuitBreaker, DeadlineExceeded,
    HttpPolicy, IdempotencyKeyLayer, Jitter, Observer, RetryScheduled, Stack, StopReason,
};

const MS: Duration = Duration::from_millis(1);

type Client = Script<Request<()>, Response<()>, &'static str>;

/// Writes everything down.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn push(&self, dependency: &str, event: String) {
        assert_eq!(dependency, "payments");
        self.0.lock().unwrap().push(event);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Log {
    fn attempt_started(&self, dependency: &str, attempt: &Attempt) {
        self.push(dependency, format!("attempt {} started", attempt.number()));
    }

    fn attempt_finished(&self, dependency: &str, finished: &AttemptFinished) {
        let (number, verdict) = (finished.attempt().number(), finished.verdict().as_str());
        let event = format!("attempt {number} {verdict} after {:?}", finished.elapsed());
        self.push(dependency, event);
    }

    fn retry_scheduled(&self, dependency: &str, retry: &RetryScheduled) {
        let (delay, by) = (retry.delay(), retry.delayed_by().as_str());
        let after = retry.after().number();
        self.push(
            dependency,
            format!("retry after {after} in {delay:?} by {by}"),
        );
    }

    fn retry_refused(&self, dependency: &str, attempt: &Attempt, reason: StopReason) {
        let (number, reason) = (attempt.number(), reason.as_str());
        self.push(dependency, format!("no retry after {number}: {reason}"));
    }

    fn call_finished(&self, dependency: &str, report: &CallReport) {
        let outcome = if report.is_cancelled() {
            "cancelled"
        } else {
            report.verdict().as_str()
        };
        let (attempts, backoff) = (report.attempts(), report.backoff());
        let elapsed = report.elapsed().unwrap();
        let event = format!("call {outcome}, attempts {attempts}, {backoff:?} of {elapsed:?}");
        self.push(dependency, event);
    }

    fn budget_deposited(&self, dependency: &str, balance: f64) {
        self.push(dependency, format!("deposit: {balance}"));
    }

    fn budget_withdrawn(&self, dependency: &str, balance: f64) {
        self.push(dependency, format!("withdrawal: {balance}"));
    }

    fn budget_exhausted(&self, dependency: &str, balance: f64) {
        self.push(dependency, format!("exhausted: {balance}"));
    }

    fn breaker_transition(&self, breaker: &str, transition: &Transition) {
        let (from, to) = (transition.from().as_str(), transition.to().as_str());
        self.push(breaker, format!("{from} to {to}"));
    }

    fn breaker_rejected(&self, breaker: &str, remaining: Duration) {
        self.push(breaker, format!("rejected for {remaining:?}"));
    }

    fn breaker_probe(&self, breaker: &str) {
        self.push(breaker, "probe".into());
    }

    fn deadline_exceeded(&self, dependency: &str, exceeded: &DeadlineExceeded) {
        let whose = if exceeded.is_call() {
            "call"
        } else {
            "attempt"
        };
        self.push(dependency, format!("deadline of the {whose}"));
    }

    fn key_minted(&self, dependency: &str) {
        self.push(dependency, "key minted".into());
    }

    fn key_kept(&self, dependency: &str) {
        self.push(dependency, "key kept".into());
    }
}

fn answer(status: StatusCode) -> Step<Response<()>, &'static str> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    Step::Ok(response)
}

fn throttled_for(seconds: u32) -> Step<Response<()>, &'static str> {
    let response = Response::builder()
        .status(StatusCode::TOO_MANY_REQUESTS)
        .header("retry-after", seconds)
        .body(())
        .unwrap();
    Step::Ok(response)
}

fn request(method: Method) -> Request<()> {
    Request::builder().method(method).uri("/").body(()).unwrap()
}

/// Three attempts with waits of 100 ms, two tokens, a breaker that opens after two failed calls for a second.
fn stack(log: &Arc<Log>) -> Stack<HttpPolicy, IdempotencyKeyLayer> {
    let observer = || Arc::clone(log) as Arc<dyn Observer>;
    let breaker = CircuitBreaker::builder()
        .name("payments")
        .consecutive_failures(2)
        .open_time(Duration::from_secs(1))
        .open_jitter(0.0)
        .probes(1)
        .observer(observer())
        .build()
        .unwrap();
    Stack::builder(HttpPolicy::new().server_honours_keys(true))
        .dependency("payments")
        .observer(observer())
        .breaker(breaker)
        .budget(Budget::new(0.5, 2).unwrap())
        .backoff(Backoff::constant(100 * MS).jitter(Jitter::None))
        .max_attempts(3)
        .attempt_deadline(Duration::from_secs(1))
        .call_deadline(Duration::from_secs(5))
        .idempotency_key(IdempotencyKeyLayer::new())
        .seed(1)
        .build()
        .unwrap()
}

async fn call(
    service: &mut (impl Service<Request<()>, Response = Response<()>, Error = BoxError> + Send),
    method: Method,
) -> Result<StatusCode, BoxError> {
    let outcome = service.ready().await?.call(request(method)).await;
    outcome.map(|response| response.status())
}

#[tokio::test(start_paused = true)]
async fn case_151_calls_and_attempts_are_counted_apart() {
    let log = Arc::new(Log::default());
    let unavailable = || answer(StatusCode::SERVICE_UNAVAILABLE);
    let script = Client::new([unavailable(), unavailable(), answer(StatusCode::OK)]);
    let mut service = stack(&log).layer(script);
    assert_eq!(call(&mut service, Method::POST).await.unwrap(), 200);
    assert_eq!(
        log.take(),
        [
            "key minted",
            "attempt 1 started",
            "attempt 1 unknown after 0ns",
            "withdrawal: 1",
            "retry after 1 in 100ms by backoff",
            "attempt 2 started",
            "attempt 2 unknown after 0ns",
            "withdrawal: 0",
            "retry after 2 in 100ms by backoff",
            "attempt 3 started",
            "attempt 3 success after 0ns",
            "deposit: 0.5",
            "call success, attempts 3, 200ms of 200ms",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_told_of_once() {
    let log = Arc::new(Log::default());
    let mut service = stack(&log).layer(Client::new([Step::Hang]));
    let pending = service.ready().await.unwrap().call(request(Method::GET));
    tokio::select! {
        biased;
        _ = pending => panic!("it hangs"),
        () = tokio::time::sleep(50 * MS) => {}
    }
    assert_eq!(
        log.take(),
        [
            "attempt 1 started",
            "call cancelled, attempts 1, 0ns of 50ms"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn deadlines_hints_and_an_empty_budget_are_told_of() {
    let log = Arc::new(Log::default());
    let mut service = stack(&log).layer(Client::new([throttled_for(2), Step::Hang]));
    let error = call(&mut service, Method::GET).await.unwrap_err();
    assert!(DeadlineExceeded::find(&*error).unwrap().is_attempt());
    let mut events = log.take();
    // Two seconds and the jitter on top of them.
    let scheduled = events.remove(3);
    assert!(scheduled.starts_with("retry after 1 in 2."), "{scheduled}");
    assert!(scheduled.ends_with("s by hint"), "{scheduled}");
    let second = events.remove(6);
    assert_eq!(second, "withdrawal: 0");
    assert_eq!(
        events[..6],
        [
            "attempt 1 started",
            "attempt 1 throttled after 0ns",
            "withdrawal: 1",
            "attempt 2 started",
            "deadline of the attempt",
            "attempt 2 unknown after 1s",
        ]
    );
    assert_eq!(
        events[6..9],
        [
            "retry after 2 in 100ms by backoff",
            "attempt 3 started",
            "deadline of the attempt",
        ]
    );
    assert_eq!(
        events[9..11],
        ["attempt 3 unknown after 1s", "no retry after 3: attempts"]
    );
    assert!(
        events[11].starts_with("call unknown, attempts 3, "),
        "{}",
        events[11]
    );
    assert_eq!(events.len(), 12);

    // Nothing is left of the two tokens.
    call(&mut service, Method::GET).await.unwrap_err();
    assert_eq!(
        log.take(),
        [
            "attempt 1 started",
            "deadline of the attempt",
            "attempt 1 unknown after 1s",
            "exhausted: 0",
            "no retry after 1: budget_exhausted",
            "call unknown, attempts 1, 0ns of 1s",
            "closed to open",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_breaker_is_told_of_by_its_name() {
    let log = Arc::new(Log::default());
    let mut service = stack(&log).layer(Client::new([Step::Err("down")]));
    for _ in 0..2 {
        call(&mut service, Method::POST).await.unwrap_err();
    }
    assert_eq!(log.take().last().unwrap(), "closed to open");
    call(&mut service, Method::POST).await.unwrap_err();
    assert_eq!(log.take(), ["rejected for 1s"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    call(&mut service, Method::POST).await.unwrap_err();
    assert_eq!(
        log.take(),
        [
            "open to half_open",
            "probe",
            "key minted",
            "attempt 1 started",
            "attempt 1 unknown after 0ns",
            "no retry after 1: probe",
            "call unknown, attempts 1, 0ns of 0ns",
            "half_open to open",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_the_breaker_stops_is_told_of() {
    let log = Arc::new(Log::default());
    let script = Client::new([Step::Err("down")]);
    let service = stack(&log).layer(script);
    let calls = (0..3).map(|_| {
        let mut service = service.clone();
        async move { call(&mut service, Method::GET).await }
    });
    // Two of them fail for good and open it while the third one waits.
    let outcomes = join_all(calls).await;
    assert!(outcomes.iter().all(Result::is_err));
    let events = log.take();
    let finished = events
        .iter()
        .filter(|event| event.starts_with("call "))
        .count();
    assert_eq!(finished, 3, "{events:?}");
    let started = events
        .iter()
        .filter(|event| event.ends_with("started"))
        .count();
    let ended = events
        .iter()
        .filter(|event| event.starts_with("attempt ") && event.contains("unknown"))
        .count();
    assert_eq!(started, ended);
}

/// Runs futures side by side.
async fn join_all<F: Future<Output = Result<StatusCode, BoxError>>>(
    calls: impl Iterator<Item = F>,
) -> Vec<Result<StatusCode, BoxError>> {
    let mut calls: Vec<_> = calls.map(|call| (Box::pin(call), None)).collect();
    std::future::poll_fn(|cx| {
        for (call, outcome) in &mut calls {
            if outcome.is_none() {
                if let std::task::Poll::Ready(done) = call.as_mut().poll(cx) {
                    *outcome = Some(done);
                }
            }
        }
        if calls.iter().all(|(_, outcome)| outcome.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    calls
        .into_iter()
        .filter_map(|(_, outcome)| outcome)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_callers_is_kept() {
    let log = Arc::new(Log::default());
    let mut service = stack(&log).layer(Client::new([answer(StatusCode::OK)]));
    let mut keyed = request(Method::POST);
    keyed
        .headers_mut()
        .insert("idempotency-key", "mine".parse().unwrap());
    service.ready().await.unwrap().call(keyed).await.unwrap();
    assert_eq!(log.take()[0], "key kept");
    call(&mut service, Method::GET).await.unwrap();
    assert_eq!(log.take()[0], "attempt 1 started");
}
