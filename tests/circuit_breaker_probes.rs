//! Half-open: how many probes there are, whose place is whose, and when the breaker closes.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::task::{Context, Waker};
use std::time::Duration;

use support::Readiness;
use support::breaker::{
    Dependency, Outcome, SECOND, Says, Script, Step, call, calls, cases, counts, failure, seen,
    success,
};
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};
use tokio_test::task::spawn;
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::circuit_breaker::CircuitBreakerBuilder;
use tower_composure::{
    BreakerOpen, CircuitBreaker, CircuitBreakerLayer, CircuitState, Effect, Hint, RetryLayer,
    Verdict,
};

use CircuitState::{Closed, HalfOpen, Open};

/// Half-open from now on.
async fn half_open(told: CircuitBreakerBuilder) -> CircuitBreaker {
    let breaker = told.build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    assert_eq!(breaker.state(), Open);
    advance(30 * SECOND).await;
    assert_eq!(breaker.state(), HalfOpen);
    breaker
}

/// A call that is under way for this long.
fn under_way(
    breaker: &CircuitBreaker,
    outcome: Outcome,
    takes: Duration,
) -> JoinHandle<Result<Verdict, BoxError>> {
    let step = match outcome {
        Ok(verdict) => Step::Ok(verdict),
        Err(verdict) => Step::Err(Says(verdict)),
    };
    tokio::spawn(Dependency::of(breaker, [step.after(takes)]).oneshot(1))
}

fn is_refused(outcome: &Result<Verdict, BoxError>) -> bool {
    let error = outcome.as_ref().err();
    error.is_some_and(|error| BreakerOpen::find(&**error).is_some())
}

#[tokio::test(start_paused = true)]
async fn with_every_place_taken_there_is_nothing_to_be_ready_for() {
    let breaker = half_open(cases()).await;
    let mut cx = Context::from_waker(Waker::noop());
    let never = || Script::new([Step::Hang]).readiness([Readiness::Never]);
    let mut waiting = Dependency::around(&breaker, never());
    assert!(waiting.poll_ready(&mut cx).is_pending(), "a place is free");

    let probe = under_way(&breaker, success(), SECOND);
    tokio::task::yield_now().await;
    let mut refused = Dependency::around(&breaker, never());
    assert!(refused.poll_ready(&mut cx).is_ready());
    assert!(is_refused(&refused.call(1).await));
    assert_eq!(probe.await.unwrap().unwrap(), Verdict::Success);
}

#[tokio::test(start_paused = true)]
async fn case_104_as_many_are_admitted_as_there_are_probes() {
    for probes in [1, 3] {
        let breaker = half_open(cases().probes(probes)).await;
        let script = Script::new([Step::Ok(Verdict::Success).after(5 * SECOND)]);
        let service = Dependency::around(&breaker, script.clone());
        let calls: Vec<_> = (0..50)
            .map(|number| tokio::spawn(service.clone().oneshot(number)))
            .collect();
        sleep(SECOND).await;
        let refused = calls.iter().filter(|call| call.is_finished()).count();
        assert_eq!(
            (script.calls(), refused),
            (probes as usize, 50 - probes as usize)
        );
        for call in calls {
            let outcome = call.await.unwrap();
            assert!(outcome.is_ok() || is_refused(&outcome));
        }
        assert_eq!(breaker.state(), Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn case_108_a_neutral_outcome_gives_its_place_back() {
    let breaker = half_open(cases()).await;
    calls(&breaker, &[Ok(Verdict::THROTTLED); 100]).await;
    assert_eq!(
        breaker.state(),
        HalfOpen,
        "neither closed nor opened nor stuck"
    );
    call(&breaker, success()).await;
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn case_109_a_rejection_shows_that_somebody_is_there() {
    let breaker = half_open(cases()).await;
    call(&breaker, Ok(Verdict::Rejected)).await;
    assert_eq!(breaker.state(), Closed, "a response proves that it answers");
    let breaker = half_open(cases()).await;
    call(&breaker, Err(Verdict::Rejected)).await;
    assert_eq!(breaker.state(), HalfOpen, "a local error proves nothing");
    call(&breaker, success()).await;
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn case_116_only_the_rules_for_probes_apply() {
    let breaker = cases().window(100).minimum_calls(10).build().unwrap();
    calls(&breaker, &[failure(); 10]).await;
    advance(30 * SECOND).await;
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), Open);
    assert_eq!(
        breaker.metrics().remaining(),
        30 * SECOND,
        "a full open time anew"
    );
    advance(30 * SECOND).await;
    call(&breaker, success()).await;
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn case_117_a_failed_probe_is_not_forgotten() {
    let breaker = half_open(cases().probes(4)).await;
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), Open);
    for _ in 0..3 {
        assert!(is_refused(&seen(&breaker, success()).await));
    }
    let breaker = half_open(cases().probes(4).probe_failure_rate(0.5)).await;
    calls(&breaker, &[failure(), success(), success()]).await;
    assert_eq!(breaker.state(), HalfOpen, "all four decide");
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), Open, "half of them have failed");
    let breaker = half_open(cases().probes(4).probe_failure_rate(0.5)).await;
    calls(&breaker, &[failure(), success(), success(), success()]).await;
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn case_121_a_result_counts_only_in_its_own_generation() {
    let breaker = cases().build().unwrap();
    let early_success = under_way(&breaker, success(), 35 * SECOND);
    let early_failure = under_way(&breaker, failure(), 36 * SECOND);
    sleep(SECOND).await;
    calls(&breaker, &[failure(); 5]).await;
    sleep(30 * SECOND).await;
    let probe = under_way(&breaker, success(), 10 * SECOND);
    sleep(SECOND).await;
    assert_eq!(breaker.state(), HalfOpen);
    early_success.await.unwrap().unwrap();
    assert_eq!(breaker.state(), HalfOpen, "it was not the probe's");
    assert!(
        is_refused(&seen(&breaker, success()).await),
        "and gave no place away"
    );
    early_failure.await.unwrap().unwrap_err();
    assert_eq!(breaker.state(), HalfOpen);
    probe.await.unwrap().unwrap();
    assert_eq!((breaker.state(), counts(&breaker)), (Closed, (0, 0)));

    // A probe of one half-open period that ends in the next.
    let breaker = half_open(cases().probes(2)).await;
    let late = under_way(&breaker, success(), 40 * SECOND);
    sleep(SECOND).await;
    call(&breaker, failure()).await;
    sleep(31 * SECOND).await;
    call(&breaker, success()).await;
    late.await.unwrap().unwrap();
    assert_eq!(breaker.state(), HalfOpen, "one success of two");
    call(&breaker, success()).await;
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn case_124_looking_takes_no_place() {
    let breaker = cases().build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    sleep(60 * SECOND).await;
    let mut service = Dependency::of(&breaker, [Step::Ok(Verdict::Success)]);
    for _ in 0..1000 {
        assert_eq!(breaker.state(), HalfOpen, "without a call");
        service.ready().await.unwrap();
    }
    service.call(1).await.unwrap();
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn case_134_it_may_stay_half_open_for_as_long_as_probes_are_admitted() {
    let breaker = half_open(cases().probes(3)).await;
    for _ in 0..2 {
        seen(&breaker, success()).await.unwrap();
        sleep(3600 * SECOND).await;
        assert_eq!(breaker.state(), HalfOpen);
    }
    seen(&breaker, success()).await.unwrap();
    assert_eq!(breaker.state(), Closed);

    for (probe, after) in [(Some(success()), Closed), (None, Open)] {
        let breaker = half_open(cases().probes(3).max_half_open(60 * SECOND)).await;
        if let Some(outcome) = probe {
            call(&breaker, outcome).await;
        }
        advance(Duration::from_millis(59_999)).await;
        assert_eq!(breaker.state(), HalfOpen);
        advance(Duration::from_millis(1)).await;
        assert_eq!(breaker.state(), after, "the probes that there were decide");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_loses_its_place_with_its_lease() {
    let breaker = half_open(cases()).await;
    let hanging = under_way(&breaker, success(), 3600 * SECOND);
    sleep(59 * SECOND).await;
    assert!(is_refused(&seen(&breaker, success()).await));
    sleep(SECOND).await;
    seen(&breaker, success()).await.unwrap();
    assert_eq!(breaker.state(), Closed);
    hanging.abort();

    // Its result still counts while nothing else has been decided.
    let breaker = half_open(cases()).await;
    let late = under_way(&breaker, success(), 90 * SECOND);
    sleep(61 * SECOND).await;
    let second = under_way(&breaker, success(), 3600 * SECOND);
    late.await.unwrap().unwrap();
    assert_eq!(breaker.state(), Closed);
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_late_drop_does_not_give_away_the_place_of_another() {
    let breaker = half_open(cases()).await;
    let mut first = spawn(Dependency::of(&breaker, [Step::Hang]).oneshot(1));
    assert!(first.poll().is_pending());
    advance(61 * SECOND).await;
    let mut second = spawn(Dependency::of(&breaker, [Step::Hang]).oneshot(1));
    assert!(second.poll().is_pending());
    drop(first);
    assert!(is_refused(&seen(&breaker, success()).await));
    drop(second);
    seen(&breaker, success()).await.unwrap();
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn a_probe_makes_one_attempt() {
    let breaker = half_open(cases()).await;
    let script = Script::new([Step::Err(Says(Verdict::UNKNOWN))]);
    let service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read)
        .layer(RetryLayer::new(Effect::Read).layer(script.clone()));
    service.oneshot(1).await.unwrap_err();
    assert_eq!((script.calls(), breaker.state()), (1, Open));
}

// The open time.

#[tokio::test(start_paused = true)]
async fn the_open_time_grows_with_each_reopening_and_starts_anew_after_a_close() {
    let told = cases().open_time(5 * SECOND).max_open_time(60 * SECOND);
    let breaker = told.build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    let mut times = Vec::new();
    for _ in 0..6 {
        let remaining = breaker.metrics().remaining();
        times.push(remaining.as_secs());
        advance(remaining).await;
        call(&breaker, failure()).await;
    }
    assert_eq!(times, [5, 10, 20, 40, 60, 60]);
    advance(60 * SECOND).await;
    call(&breaker, success()).await;
    calls(&breaker, &[failure(); 5]).await;
    assert_eq!(breaker.metrics().remaining(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn jitter_shortens_the_open_time_and_is_there_at_the_cap() {
    let mut times = Vec::new();
    for seed in 0..100 {
        let breaker = cases().open_jitter(0.2).seed(seed).build().unwrap();
        calls(&breaker, &[failure(); 5]).await;
        times.push(breaker.metrics().remaining());
    }
    assert!(
        times
            .iter()
            .all(|time| (24 * SECOND..=30 * SECOND).contains(time))
    );
    times.sort();
    times.dedup();
    assert!(times.len() > 90, "{} different times", times.len());
}

#[tokio::test(start_paused = true)]
async fn a_hint_extends_the_open_time_where_it_is_let() {
    let hinted =
        |verdict: Verdict, seconds: u32| verdict.with_hint(Some(Hint::after(SECOND * seconds)));
    let let_ = || cases().max_open_hint(100 * SECOND);

    // Of the failure that opens it.
    let breaker = let_().build().unwrap();
    calls(&breaker, &[Err(hinted(Verdict::UNKNOWN, 80)); 5]).await;
    assert_eq!(breaker.metrics().remaining(), 80 * SECOND);
    let breaker = let_().build().unwrap();
    calls(&breaker, &[Err(hinted(Verdict::UNKNOWN, 1000)); 5]).await;
    assert_eq!(
        breaker.metrics().remaining(),
        100 * SECOND,
        "by no more than it was told"
    );
    let breaker = cases().build().unwrap();
    calls(&breaker, &[Err(hinted(Verdict::UNKNOWN, 80)); 5]).await;
    assert_eq!(breaker.metrics().remaining(), 30 * SECOND, "off by default");

    // Of a probe that is told to come back later.
    let breaker = half_open(let_()).await;
    call(&breaker, Ok(hinted(Verdict::THROTTLED, 7))).await;
    let told = (breaker.state(), breaker.metrics().remaining());
    assert_eq!(
        told,
        (Open, 7 * SECOND),
        "no earlier probe would learn more"
    );

    // Of a call that was inside when it opened.
    let breaker = let_().build().unwrap();
    let inside = under_way(&breaker, Ok(hinted(Verdict::THROTTLED, 90)), 10 * SECOND);
    sleep(SECOND).await;
    calls(&breaker, &[failure(); 5]).await;
    inside.await.unwrap().unwrap();
    assert_eq!(breaker.metrics().remaining(), 90 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn case_128_time_is_monotonic_and_saturates() {
    let breaker = cases().build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    assert_eq!(breaker.metrics().remaining(), 30 * SECOND);
    advance(Duration::from_millis(29_999)).await;
    assert_eq!(
        (breaker.state(), breaker.metrics().remaining()),
        (Open, SECOND / 1000)
    );
    advance(3600 * SECOND).await;
    assert_eq!(
        (breaker.state(), breaker.metrics().remaining()),
        (HalfOpen, Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn case_153_everything_moves_with_tokios_clock() {
    let breaker = cases().build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    assert!(is_refused(&seen(&breaker, success()).await));
    advance(31 * SECOND).await;
    seen(&breaker, success()).await.unwrap();
}
