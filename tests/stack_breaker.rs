//! The preset: its breaker leaves the calls that it has let through to the retry, which has it at hand. Nobody can tell:
//! whatever comes of a call is counted, once, also where a window is full of successes and one more changes nothing.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/says.rs"]
mod says;
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use says::{Dependency, Says, breaker_open, exceeded, recorded};
use support::{Script, Step};
use tokio_test::{assert_pending, task};
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::stack::StackBuilder;
use tower_composure::{
    Attempt, Backoff, CallReport, CircuitBreaker, Effect, Observer, Stack, StopReason, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: u32 = 10;
const OK: Step<Verdict, says::Failed> = Step::Ok(Verdict::Success);
const FAULT: Step<Verdict, says::Failed> = Step::Ok(Verdict::Fault);
const REFUSED: Step<Verdict, says::Failed> = Step::Ok(Verdict::REFUSED);

/// Opens on its second failure.
fn breaker() -> CircuitBreaker {
    CircuitBreaker::builder()
        .window(WINDOW)
        .minimum_calls(1)
        .failure_rate(0.2)
        .probe_lease(2 * SECOND)
        .build()
        .unwrap()
}

fn stack(breaker: &CircuitBreaker) -> StackBuilder<Says> {
    Stack::builder(Says(Effect::Read))
        .backoff(Backoff::constant(SECOND / 10))
        .breaker(breaker.clone())
        .attempt_deadline(SECOND)
        .call_deadline(SECOND)
        .max_attempts(2)
}

/// A breaker whose window is full of successes, and a service whose next outcomes are these.
async fn full(
    steps: impl IntoIterator<Item = Step<Verdict, says::Failed>>,
) -> (
    CircuitBreaker,
    impl Service<u32, Response = Verdict, Error = BoxError, Future: Send> + Clone,
) {
    let breaker = breaker();
    let before = (0..WINDOW).map(|_| OK);
    let script: Dependency = Script::new(before.chain(steps));
    let service = stack(&breaker).build().unwrap().layer(script);
    for number in 1..=WINDOW {
        assert!(service.clone().oneshot(number).await.is_ok());
        assert_eq!(recorded(&breaker), (number, 0));
    }
    (breaker, service)
}

#[tokio::test(start_paused = true)]
async fn each_outcome_is_counted_once() {
    for (steps, failures) in [
        (vec![OK, OK], 0),
        (vec![FAULT, OK], 1),
        (vec![OK, FAULT], 1),
        (vec![OK.after(SECOND / 2), FAULT.after(SECOND / 2)], 1),
        (vec![REFUSED, OK, OK], 0),
        (vec![REFUSED, FAULT, OK.after(SECOND / 2)], 1),
    ] {
        let (breaker, service) = full(steps).await;
        for number in 0..2 {
            assert!(service.clone().oneshot(number).await.is_ok());
        }
        assert_eq!(recorded(&breaker), (WINDOW, failures));
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_from_a_deadline_is_counted() {
    let (breaker, service) = full([Step::Hang]).await;
    let error = service.clone().oneshot(1).await.unwrap_err();
    assert!(exceeded(&error).report().is_none());
    assert_eq!(recorded(&breaker), (WINDOW, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_counts_nothing() {
    let (breaker, service) = full([Step::Hang]).await;
    let mut call = task::spawn(service.clone().oneshot(1));
    assert_pending!(call.poll());
    drop(call);
    assert_eq!(recorded(&breaker), (WINDOW, 0));
}

/// How retries were refused, and how calls ended.
#[derive(Default)]
struct Ends(Mutex<Vec<(Option<StopReason>, bool)>>);

impl Observer for Ends {
    fn retry_refused(&self, _: &str, _: &Attempt, reason: StopReason) {
        self.0.lock().unwrap().push((Some(reason), false));
    }

    fn call_finished(&self, _: &str, report: &CallReport) {
        let end = (report.stop_reason(), report.is_cancelled());
        self.0.lock().unwrap().push(end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_under_way_stops_where_the_breaker_opens() {
    let (breaker, ends) = (breaker(), Arc::new(Ends::default()));
    let stack = stack(&breaker).observer(Arc::clone(&ends) as Arc<dyn Observer>);
    let stack = stack.build().unwrap();
    let script: Dependency = Script::new([REFUSED, FAULT]);
    let mut retrying = task::spawn(CallReport::of(stack.layer(script.clone()).oneshot(1)));
    assert_pending!(retrying.poll(), "between two attempts");
    breaker.force_open();
    let (outcome, report) = retrying.await;
    assert!(!breaker_open(&outcome.unwrap_err()).remaining().is_zero());
    assert_eq!(report.unwrap().stop_reason(), Some(StopReason::BreakerOpen));
    assert_eq!(script.calls(), 1);
    let end = (Some(StopReason::BreakerOpen), false);
    assert_eq!(*ends.0.lock().unwrap(), [end, end]);
}

#[tokio::test(start_paused = true)]
async fn what_came_of_an_older_window_counts_in_no_newer_one() {
    let (breaker, service) = full([FAULT.after(SECOND / 2), OK]).await;
    let mut call = task::spawn(service.clone().oneshot(1));
    assert_pending!(call.poll());
    breaker.reset();
    assert!(service.clone().oneshot(2).await.is_ok());
    assert!(call.await.is_ok());
    assert_eq!(recorded(&breaker), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stack_in_a_stack_counts_into_its_own_breaker() {
    let outer = breaker();
    let (inner, service) = full([OK, FAULT.after(SECOND / 2), OK]).await;
    let service = stack(&outer).build().unwrap().layer(service);
    let healthy = stack(&outer).build().unwrap().layer(Dependency::new([OK]));
    for number in 1..=WINDOW {
        assert!(healthy.clone().oneshot(number).await.is_ok());
    }
    for failures in [0, 1, 1] {
        assert!(service.clone().oneshot(0).await.is_ok());
        assert_eq!(recorded(&outer), (WINDOW, failures));
        assert_eq!(recorded(&inner), (WINDOW, failures));
    }
}
