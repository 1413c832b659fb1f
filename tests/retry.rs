//! What a user of the retry layer sees: attempts, reasons, waits, and an outcome that goes up unchanged.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::told::{Inner, SECOND, Said, Told, cases, stops, told};
use support::{Script, Step};
use tokio::time::{sleep, timeout};
use tower::{Layer, Service, ServiceExt};
use tower_composure::retry::replay_fn;
use tower_composure::{
    Attempt, Backoff, Budget, BudgetLayer, CallReport, CircuitBreaker, CircuitBreakerLayer, Count,
    DeadlineLayer, Effect, Hint, Observer, Policy, RetryLayer, RetryMode, StopReason, Verdict,
    policy_fn,
};

// Counting attempts.

#[tokio::test(start_paused = true)]
async fn case_034_attempts_include_the_first() {
    for (max, calls, answer) in [(1, 1, Err("503")), (2, 2, Ok(200))] {
        let inner = Inner::new([Step::Err("503"), Step::Ok(200)]);
        let layer = cases(Effect::Read).max_attempts(max).build().unwrap();
        assert_eq!(layer.layer(inner.clone()).oneshot(1).await, answer);
        assert_eq!(inner.calls(), calls);
    }
    let numbers = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&numbers);
    let service = cases(Effect::Read)
        .build()
        .unwrap()
        .layer(tower::service_fn(move |_: u32| {
            log.lock()
                .unwrap()
                .push(Attempt::current().unwrap().number());
            async { Err::<u32, _>("503") }
        }));
    service.oneshot(1).await.unwrap_err();
    assert_eq!(*numbers.lock().unwrap(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn case_035_zero_attempts_are_an_error_and_unlimited_ones_explicit() {
    let error = cases(Effect::Read).max_attempts(0).build().unwrap_err();
    assert_eq!(error.setting(), "max_attempts");
    let inner = Inner::new([Step::Err("503")]);
    let layer = cases(Effect::Read).unlimited_attempts().build().unwrap();
    let budget = Budget::new(0.0, 3).unwrap();
    let service = BudgetLayer::new(budget).layer(layer.layer(inner.clone()));
    assert_eq!(stops(service).await, (4, Some(StopReason::BudgetExhausted)));
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn case_036_a_layer_inside_of_another_one_makes_one_attempt() {
    let inner = Inner::new([Step::Err("503")]);
    let layer = || cases(Effect::Read).build().unwrap();
    layer()
        .layer(layer().layer(inner.clone()))
        .oneshot(1)
        .await
        .unwrap_err();
    assert_eq!(inner.calls(), 3);

    let inner = Inner::new([Step::Err("503")]);
    let nested = cases(Effect::Read).nested(true).build().unwrap();
    layer()
        .layer(nested.layer(inner.clone()))
        .oneshot(1)
        .await
        .unwrap_err();
    assert_eq!(inner.calls(), 9, "without coordination they multiply");

    let inner = Inner::new([Step::Err("503")]);
    let budget = BudgetLayer::new(Budget::new(0.0, 2).unwrap());
    let inside = budget.layer(layer().layer(inner.clone()));
    budget
        .layer(layer().layer(inside))
        .oneshot(1)
        .await
        .unwrap_err();
    assert_eq!(inner.calls(), 3, "at most two tokens more than the first");
}

// What stops a retry, in the order in which it is asked.

#[tokio::test(start_paused = true)]
async fn each_reason_is_seen_and_the_first_that_applies_is_told() {
    let unknown = || Told::new([Step::Err(Said(Verdict::UNKNOWN))]);
    let read = || cases(told(Effect::Read));
    let write = || cases(told(Effect::Write));
    let copies_nothing = || replay_fn(|_: &u32| None);
    let nested = read().build().unwrap().layer(unknown());
    let outer = RetryLayer::builder(told(Effect::Read))
        .max_attempts(2)
        .backoff(Backoff::none());
    let seen = Arc::new(Reasons::default());
    let inside = write()
        .replay(copies_nothing())
        .observer(Arc::clone(&seen) as Arc<dyn Observer>)
        .build()
        .unwrap()
        .layer(unknown());
    outer
        .build()
        .unwrap()
        .layer(inside)
        .oneshot(1)
        .await
        .unwrap_err();
    assert_eq!(seen.all(), ["nested", "nested"]);
    assert_eq!(stops(nested).await, (3, Some(StopReason::Attempts)));

    let one = write()
        .max_attempts(1)
        .replay(copies_nothing())
        .build()
        .unwrap();
    assert_eq!(
        stops(off(one).layer(unknown())).await,
        (1, Some(StopReason::Attempts))
    );

    let unsafe_ = write().replay(copies_nothing()).build().unwrap();
    assert_eq!(
        stops(unsafe_.layer(unknown())).await,
        (1, Some(StopReason::OutcomeUnknown))
    );

    let no_copy = read().replay(copies_nothing()).build().unwrap();
    assert_eq!(
        stops(no_copy.layer(unknown())).await,
        (1, Some(StopReason::NotReplayable))
    );
}

#[tokio::test(start_paused = true)]
async fn each_reason_beside_the_call_is_seen_in_its_order() {
    let unknown = || Told::new([Step::Err(Said(Verdict::UNKNOWN))]);
    let read = || cases(told(Effect::Read));

    let switched_off = off(read().build().unwrap());
    let far = Told::new([Step::Err(Said(
        Verdict::UNKNOWN.with_hint(Some(Hint::never())),
    ))]);
    assert_eq!(
        stops(switched_off.layer(far.clone())).await,
        (1, Some(StopReason::SwitchedOff))
    );

    let limited = DeadlineLayer::call(SECOND / 100).layer(read().build().unwrap().layer(far));
    assert_eq!(
        stops(limited).await,
        (1, Some(StopReason::HintExceedsLimit))
    );

    let empty = BudgetLayer::new(Budget::builder().starting_empty().build().unwrap());
    let late = DeadlineLayer::call(SECOND / 100);
    let service = late.layer(empty.layer(read().build().unwrap().layer(unknown())));
    assert_eq!(stops(service).await, (1, Some(StopReason::Deadline)));

    let service = empty.layer(read().build().unwrap().layer(unknown()));
    assert_eq!(stops(service).await, (1, Some(StopReason::BudgetExhausted)));

    let observed = read().build().unwrap();
    observed.switch().set(RetryMode::ObserveOnly);
    assert_eq!(
        stops(observed.layer(unknown())).await,
        (1, Some(StopReason::ObserveOnly))
    );
}

fn off<P, R>(layer: RetryLayer<P, R>) -> RetryLayer<P, R> {
    layer.switch().set(RetryMode::Off);
    layer
}

#[derive(Default)]
struct Reasons(Mutex<Vec<&'static str>>);

impl Reasons {
    fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Reasons {
    fn call_finished(&self, _: &str, report: &CallReport) {
        let reason = report.stop_reason().map_or("none", StopReason::as_str);
        self.0.lock().unwrap().push(reason);
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_has_opened_and_a_probe_stop_retries() {
    let stack = |count| {
        let breaker = CircuitBreaker::builder()
            .consecutive_failures(1)
            .count(count)
            .probes(1)
            .open_time(SECOND)
            .open_jitter(0.0)
            .build()
            .unwrap();
        let retry = cases(Effect::Read).build().unwrap();
        CircuitBreakerLayer::new(breaker, Effect::Read).layer(retry.layer(Refuses))
    };
    let service = stack(Count::Attempts);
    let opened_by_its_own_attempt = (1, Some(StopReason::BreakerOpen));
    assert_eq!(stops(service).await, opened_by_its_own_attempt);

    let service = stack(Count::Calls);
    assert_eq!(
        stops(service.clone()).await,
        (3, Some(StopReason::Attempts))
    );
    sleep(SECOND).await;
    assert_eq!(stops(service).await, (1, Some(StopReason::Probe)));
}

/// Fails with an error that fits a box.
#[derive(Clone)]
struct Refuses;

impl Service<u32> for Refuses {
    type Response = u32;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<u32, std::io::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), std::io::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u32) -> Self::Future {
        std::future::ready(Err(std::io::ErrorKind::ConnectionRefused.into()))
    }
}

#[tokio::test(start_paused = true)]
async fn the_verdict_and_the_effect_decide_as_the_table_says() {
    for effect in [Effect::Read, Effect::IdempotentWrite, Effect::Write] {
        for (verdict, calls) in [
            (Verdict::THROTTLED, 3),
            (Verdict::REFUSED, 3),
            (
                Verdict::UNKNOWN,
                if effect == Effect::Write { 1 } else { 3 },
            ),
            (Verdict::Fault, 1),
            (Verdict::Rejected, 1),
        ] {
            let inner = Told::new([Step::Err(Said(verdict))]);
            let service = cases(told(effect)).build().unwrap().layer(inner.clone());
            assert_eq!(service.oneshot(1).await, Err(Said(verdict)));
            assert_eq!(inner.calls(), calls, "{verdict:?} of {effect:?}");
        }
    }
}

// No copy of a request where no retry can be made.

struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_copied_only_where_a_retry_can_be_made() {
    let copies = async |layer: RetryLayer<Effect>| {
        let count = Arc::new(AtomicUsize::new(0));
        let inner = Script::<Counted, (), &str>::new([Step::Err("a")]);
        let request = Counted(Arc::clone(&count));
        layer.layer(inner).oneshot(request).await.unwrap_err();
        count.load(Ordering::Relaxed)
    };
    let off = cases(Effect::Read).build().unwrap();
    off.switch().set(RetryMode::Off);
    assert_eq!(copies(off).await, 0);
    assert_eq!(
        copies(cases(Effect::Read).max_attempts(1).build().unwrap()).await,
        0
    );
    assert_eq!(
        copies(cases(Effect::Read).build().unwrap()).await,
        2,
        "the last takes the request"
    );

    let count = Arc::new(AtomicUsize::new(0));
    let inner = Script::<Counted, (), &str>::new([Step::Err("a")]);
    let layer = || cases(Effect::Read).build().unwrap();
    let nested = layer().layer(layer().layer(inner));
    nested
        .oneshot(Counted(Arc::clone(&count)))
        .await
        .unwrap_err();
    assert_eq!(count.load(Ordering::Relaxed), 2, "only the owner copies");
}

#[tokio::test(start_paused = true)]
async fn switched_on_again_in_the_middle_of_a_call_nothing_hangs() {
    let inner = Inner::new([Step::Err("a").after(SECOND)]);
    let layer = cases(Effect::Read).build().unwrap();
    let switch = layer.switch();
    switch.set(RetryMode::Off);
    let call = tokio::spawn(layer.layer(inner.clone()).oneshot(1));
    sleep(SECOND / 2).await;
    switch.set(RetryMode::On);
    assert_eq!(timeout(10 * SECOND, call).await.unwrap().unwrap(), Err("a"));
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn observing_takes_no_token_and_sends_nothing() {
    let budget = Budget::new(0.0, 5).unwrap();
    let layer = cases(Effect::Read).build().unwrap();
    layer.switch().set(RetryMode::ObserveOnly);
    let inner = Inner::new([Step::Err("a")]);
    let service = BudgetLayer::new(budget.clone()).layer(layer.layer(inner.clone()));
    assert_eq!(stops(service).await, (1, Some(StopReason::ObserveOnly)));
    assert!(budget.is_full());
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_077_a_request_that_cannot_be_copied_is_told_once_and_only_after_a_failure() {
    for (step, told) in [(Step::Err("a"), "not_replayable"), (Step::Ok(1), "none")] {
        let seen = Arc::new(Reasons::default());
        let inner = Inner::new([step]);
        let layer = cases(Effect::Read)
            .replay(replay_fn(|_: &u32| None))
            .observer(Arc::clone(&seen) as Arc<dyn Observer>)
            .build()
            .unwrap();
        let _ = layer.layer(inner.clone()).oneshot(1).await;
        assert_eq!(seen.all(), [told]);
        assert_eq!(inner.calls(), 1);
    }
}

#[test]
fn a_policy_that_says_nothing_of_keys_sees_none() {
    let closure = || policy_fn(|_: &Attempt, _: Result<&(), &()>| Verdict::Success);
    let constant = closure().with_effect(Effect::Write);
    let by_request = closure().with_effect_fn(|(): &()| Effect::Write);
    let policies: [&dyn Policy<(), (), ()>; 3] = [&Effect::Write, &constant, &by_request];
    for policy in policies {
        assert!(!policy.keyed(&()));
        assert_eq!(policy.effect(&()), Effect::Write);
    }
    assert_eq!(format!("{constant:?}"), "PolicyFn { .. }");
}
