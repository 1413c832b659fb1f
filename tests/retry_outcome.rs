//! The last outcome of a call: it goes up unchanged, and its report says what happened.
#![cfg(not(loom))]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use support::told::{Inner, SECOND, Said, Told, cases, stops, told};
use support::{Script, Step};
use tokio::time::sleep;
use tower::{Layer, ServiceExt};
use tower_composure::retry::Replay;
use tower_composure::{
    Attempt, Backoff, CallReport, Effect, Jitter, Observer, Policy, RetryLayer, StopReason,
    Verdict, policy_fn,
};

// The last outcome, and who holds it.

#[derive(Clone)]
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn case_065_the_losing_response_is_released_before_the_wait() {
    let flag = Arc::new(AtomicBool::new(false));
    let response = Arc::clone(&flag);
    let policy = policy_fn(
        |attempt: &Attempt, _: Result<&Dropped, &()>| match attempt.number() {
            1 => Verdict::REFUSED,
            _ => Verdict::Success,
        },
    );
    let layer = RetryLayer::builder(policy)
        .backoff(Backoff::constant(10 * SECOND).jitter(Jitter::None))
        .build()
        .unwrap();
    let service = layer.layer(tower::service_fn(move |_: u32| {
        let response = Dropped(Arc::clone(&response));
        async move { Ok::<_, ()>(response) }
    }));
    let call = tokio::spawn(service.oneshot(1));
    sleep(SECOND).await;
    assert!(
        flag.load(Ordering::Relaxed),
        "released while the retry sleeps"
    );
    assert!(!call.is_finished());
    call.abort();
}

type Texts = Script<u32, &'static str, &'static str>;

#[tokio::test(start_paused = true)]
async fn case_067_the_last_outcome_goes_up_unchanged() {
    let policy = policy_fn(|_: &Attempt, _: Result<&&str, &&str>| Verdict::REFUSED);
    let layer = cases(policy).max_attempts(2).build().unwrap();
    let service = layer.layer(Texts::new([
        Step::Ok("x-reason: db"),
        Step::Ok("x-reason: db2"),
    ]));
    assert_eq!(service.oneshot(1).await, Ok("x-reason: db2"));
    let service = layer.layer(Texts::new([Step::Err("E1"), Step::Err("E2")]));
    assert_eq!(service.oneshot(1).await, Err("E2"));
}

#[tokio::test(start_paused = true)]
async fn case_067_a_boxed_error_keeps_its_type() {
    let calls = Arc::new(AtomicUsize::new(0));
    let layer = cases(Effect::Read).max_attempts(2).build().unwrap();
    let service = layer.layer(tower::service_fn(move |_: u32| {
        let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        let verdict = if first {
            Verdict::UNKNOWN
        } else {
            Verdict::Fault
        };
        async move { Err::<u32, tower::BoxError>(Said(verdict).into()) }
    }));
    let error = service.oneshot(1).await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Said(Verdict::Fault)));
}

// Reports.

#[tokio::test(start_paused = true)]
async fn case_151_a_call_and_its_attempts_are_counted_apart() {
    let inner = Inner::new([Step::Err("a"), Step::Err("b"), Step::Ok(1)]);
    let service = cases(Effect::Read).build().unwrap().layer(inner);
    let (answer, report) = CallReport::of(service.oneshot(1)).await;
    let report = report.unwrap();
    assert_eq!(answer, Ok(1));
    assert_eq!((report.attempts(), report.backoff()), (3, SECOND * 3 / 10));
    assert_eq!(
        (report.verdict(), report.stop_reason()),
        (Verdict::Success, None)
    );
}

#[tokio::test(start_paused = true)]
async fn uncertainty_is_kept_until_an_attempt_succeeds() {
    let script = [
        Step::Err(Said(Verdict::UNKNOWN)),
        Step::Err(Said(Verdict::REFUSED)),
    ];
    let service = cases(told(Effect::IdempotentWrite)).build().unwrap();
    let (_, report) = CallReport::of(service.layer(Told::new(script)).oneshot(1)).await;
    let report = report.unwrap();
    assert_eq!(report.verdict(), Verdict::REFUSED);
    assert!(
        report.outcome_unknown(),
        "the first attempt may have done it"
    );

    let script = [Step::Err(Said(Verdict::UNKNOWN)), Step::Ok(1)];
    let (_, report) = CallReport::of(service.layer(Told::new(script)).oneshot(1)).await;
    assert!(!report.unwrap().outcome_unknown());

    let read = cases(told(Effect::Read)).build().unwrap();
    let (_, report) = CallReport::of(
        read.layer(Told::new([Step::Err(Said(Verdict::UNKNOWN))]))
            .oneshot(1),
    )
    .await;
    assert!(!report.unwrap().outcome_unknown(), "a read changes nothing");
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_of_each_call_once_and_its_panic_breaks_nothing() {
    struct Panics(AtomicUsize);
    impl Observer for Panics {
        fn call_finished(&self, dependency: &str, report: &CallReport) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert_eq!(dependency, "payments");
            assert_eq!(report.elapsed(), Some(Duration::from_millis(300)));
            panic!("an observer's own");
        }
    }
    let observer = Arc::new(Panics(AtomicUsize::new(0)));
    let layer = cases(Effect::Read)
        .dependency("payments")
        .observer(Arc::clone(&observer) as Arc<dyn Observer>)
        .build()
        .unwrap();
    let inner = Inner::new([Step::Err("a"), Step::Err("b"), Step::Ok(1)]);
    assert_eq!(layer.layer(inner).oneshot(1).await, Ok(1));
    assert_eq!(observer.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_retry_below_does_not_know_stays_unknown() {
    // The same error, read by two policies: below it may have had its effect, above it is a fault.
    let below = |outcome| Script::<u32, u32, Said>::new([outcome]);
    let fault = policy_fn(|_: &Attempt, outcome: Result<&u32, &Said>| match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Fault,
    })
    .with_effect(Effect::Write);
    for (said, unknown) in [(Verdict::UNKNOWN, true), (Verdict::Rejected, false)] {
        let inner = cases(told(Effect::Write)).build().unwrap();
        let outer = cases(fault).build().unwrap();
        let service = outer.layer(inner.layer(below(Step::Err(Said(said)))));
        let (outcome, report) = CallReport::of(service.oneshot(1)).await;
        assert_eq!(outcome, Err(Said(said)));
        let report = report.unwrap();
        assert_eq!(
            (report.verdict(), report.outcome_unknown()),
            (Verdict::Fault, unknown)
        );
    }
}

/// Writes the number of attempts into each response that there is a report on.
struct Reporting;

impl Policy<u32, u32, &'static str> for Reporting {
    fn effect(&self, _: &u32) -> Effect {
        Effect::Read
    }

    fn classify(&self, _: &Attempt, outcome: Result<&u32, &&'static str>) -> Verdict {
        outcome.map_or(Verdict::UNKNOWN, |_| Verdict::Success)
    }

    fn report(&self, response: &mut u32, report: &CallReport) {
        *response = report.attempts();
    }
}

struct Silent;

impl Observer for Silent {}

#[tokio::test(start_paused = true)]
async fn a_first_success_has_no_report_on_it_also_where_somebody_watches() {
    for watched in [false, true] {
        let report = async |steps: Vec<_>| {
            let mut retry = cases(Reporting);
            if watched {
                retry = retry.observer(Arc::new(Silent));
            }
            let service = retry.build().unwrap().layer(Inner::new(steps));
            service.oneshot(1).await.unwrap()
        };
        assert_eq!(report(vec![Step::Ok(200)]).await, 200);
        assert_eq!(report(vec![Step::Err("503"), Step::Ok(200)]).await, 2);
    }
}

/// Its copies cannot be sent any more when they are wanted, like those of a body that was read.
struct Spoiled;

impl Replay<u32> for Spoiled {
    fn replay(&self, request: &u32) -> Option<u32> {
        Some(*request)
    }

    fn is_replayable(&self, _: &u32) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_cannot_be_sent_when_it_is_wanted_is_not() {
    for backoff in [Backoff::none(), Backoff::constant(SECOND)] {
        let inner = Told::new([Step::Err(Said(Verdict::REFUSED))]);
        let layer = cases(told(Effect::Read)).backoff(backoff).replay(Spoiled);
        let service = layer.build().unwrap().layer(inner.clone());
        let stopped = Some(StopReason::NotReplayable);
        assert_eq!(stops(service).await, (1, stopped));
        assert_eq!(inner.calls(), 1);
    }
}
