//! The waits between attempts: their bounds, their randomness, and what no setting can make them do.
#![cfg(not(loom))]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test may; it reads tokio's paused clock"
)]

mod support;

use std::time::Duration;

use support::backoff::{Calls, attempts, exponential};
use support::{Script, Step};
use tokio::time::{Instant, advance};
use tower::{Layer, ServiceExt};
use tower_composure::{
    Backoff, Budget, BudgetLayer, CallReport, CircuitBreaker, CircuitBreakerLayer, CircuitState,
    Deadline, DeadlineLayer, Effect, Hint, Jitter, RetryLayer, StopReason, Verdict, policy_fn,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LOWEST: u64 = 0;
const HIGHEST: u64 = u64::MAX;

fn refusal(backoff: Backoff) -> String {
    let error = RetryLayer::builder(Effect::Read)
        .backoff(backoff)
        .build()
        .unwrap_err();
    assert_eq!(error.setting(), "backoff");
    error.to_string()
}

#[test]
fn case_020_exponents_saturate() {
    let backoff = exponential(1000, 30_000).jitter(Jitter::None);
    let mut before = Duration::ZERO;
    for retry in (1..=301).chain([u32::MAX - 1, u32::MAX]) {
        let wait = backoff.delay(retry, before, HIGHEST);
        assert!(wait >= before, "retry {retry}");
        assert_eq!(wait, SECOND * (1 << (retry - 1).min(10)).min(30));
        before = wait;
    }
    assert_eq!(backoff.ceiling(5), 16 * SECOND);
    assert_eq!(backoff.ceiling(6), 30 * SECOND);

    let uncapped = Backoff::exponential(SECOND, Duration::MAX).jitter(Jitter::None);
    assert_eq!(
        uncapped.ceiling(32),
        Duration::from_secs(2_147_483_648),
        "2^31"
    );
    let mut before = Duration::ZERO;
    for retry in (1..=301).chain([u32::MAX]) {
        let wait = uncapped.ceiling(retry);
        assert!(wait >= before, "retry {retry}");
        before = wait;
    }
    assert_eq!(before, Duration::MAX);
}

#[test]
fn case_022_float_overflow_is_the_cap() {
    let backoff = exponential(500, 20_000).factor(10.0).jitter(Jitter::None);
    assert_eq!(backoff.ceiling(400), 20 * SECOND);
    assert_eq!(backoff.ceiling(u32::MAX), 20 * SECOND);

    let constant = exponential(500, 20_000).factor(1.0).jitter(Jitter::None);
    for retry in [1, 2, 50, 400, u32::MAX] {
        assert_eq!(constant.ceiling(retry), 500 * MS);
    }
    let layer = RetryLayer::builder(Effect::Read).backoff(constant);
    assert!(layer.build().is_ok(), "1 is at least 1");
    for (factor, text) in [
        (0.0, "backoff: the factor 0 is not at least 1"),
        (0.999, "backoff: the factor 0.999 is not at least 1"),
        (-2.0, "backoff: the factor -2 is not at least 1"),
        (f64::NAN, "backoff: the factor NaN is not at least 1"),
        (f64::INFINITY, "backoff: the factor inf is not at least 1"),
    ] {
        assert_eq!(refusal(exponential(500, 20_000).factor(factor)), text);
    }
}

#[test]
fn a_constant_never_shrinks_by_rounding() {
    // Two thirds of a century and a nanosecond: a float cannot hold it.
    let wait = Duration::new(2_000_000_000, 1);
    let backoff = Backoff::constant(wait).jitter(Jitter::None);
    assert_eq!(backoff.ceiling(1), wait);
    assert_eq!(backoff.ceiling(2), wait);
}

#[tokio::test(start_paused = true)]
async fn case_024_no_limit_is_no_panic() {
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let breaker = CircuitBreaker::builder()
            .window(1)
            .open_time(endless)
            .build()
            .unwrap();
        let policy = || {
            policy_fn(|_, outcome: Result<&&str, &&str>| match outcome {
                Ok(_) => Verdict::Success,
                Err(_) => Verdict::UNKNOWN,
            })
            .with_effect(Effect::Read)
        };
        let script = Script::<(), &str, &str>::new([Step::Ok("fine"), Step::Err("down")]);
        let retry = RetryLayer::builder(policy())
            .max_hint(endless)
            .backoff(Backoff::exponential(MS, endless))
            .build()
            .unwrap();
        let service = DeadlineLayer::call(endless).layer(
            BudgetLayer::default().layer(
                retry.layer(
                    DeadlineLayer::attempt(endless)
                        .layer(script.clone())
                        .map_err(|error| {
                            if error.to_string() == "down" {
                                "down"
                            } else {
                                "other"
                            }
                        }),
                ),
            ),
        );
        let started = Instant::now();
        assert_eq!(service.oneshot(()).await.unwrap(), "fine");
        assert_eq!(started.elapsed(), Duration::ZERO);

        let guarded = CircuitBreakerLayer::new(breaker.clone(), policy()).layer(script);
        guarded.oneshot(()).await.unwrap_err();
        advance(Duration::from_secs(365 * 24 * 3600)).await;
        assert_eq!(breaker.state(), CircuitState::Open);
        // The second of the two is rounded up to what has no end.
        assert_eq!(breaker.metrics().remaining(), Duration::MAX);
    }
}

#[tokio::test(start_paused = true)]
async fn case_024_a_wait_without_end_stays_pending() {
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let script = Calls::new([Step::Err("down")]);
        let layer = RetryLayer::builder(Effect::Read)
            .backoff(Backoff::constant(endless).jitter(Jitter::None))
            .build()
            .unwrap();
        let call = tokio::spawn(layer.layer(script.clone()).oneshot(()));
        tokio::task::yield_now().await;
        advance(Duration::from_secs(3600)).await;
        tokio::task::yield_now().await;
        assert!(!call.is_finished());
        assert_eq!(script.calls(), 1);
        call.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn case_025_zero_base_retries_at_once() {
    for backoff in [
        exponential(0, 10_000),
        exponential(0, 10_000).jitter(Jitter::Equal),
        exponential(0, 10_000).jitter(Jitter::None),
        Backoff::none(),
    ] {
        let budget = Budget::new(0.0, 5).unwrap();
        let script = Calls::new([Step::Err("down")]);
        let layer = RetryLayer::builder(Effect::Read)
            .max_attempts(3)
            .backoff(backoff)
            .build()
            .unwrap();
        let service = BudgetLayer::new(budget.clone()).layer(layer.layer(script.clone()));
        assert_eq!(service.oneshot(()).await.unwrap_err(), "down");
        assert_eq!(script.times(), [0, 0, 0]);
        assert_eq!(budget.balance().to_string(), "3");
    }
}

#[test]
fn case_025_zero_base_stays_zero_for_ever() {
    // Zero times infinity is no number, and must not become the cap.
    for retry in [1, 2, 100, 1024, 1025, 1026, u32::MAX] {
        assert_eq!(exponential(0, 10_000).ceiling(retry), Duration::ZERO);
    }
    assert_eq!(
        refusal(exponential(0, 10_000).jitter(Jitter::Decorrelated)),
        "backoff: a base of 0ns never grows with decorrelated jitter"
    );
}

#[tokio::test(start_paused = true)]
async fn case_026_no_jitter_is_exact() {
    let none = exponential(100, 10_000).jitter(Jitter::None);
    let (times, waited) = attempts(none, 4, 7).await;
    assert_eq!(times, [0, 100, 300, 700]);
    assert_eq!(waited, 700 * MS);

    for jitter in [
        Jitter::None,
        Jitter::Full,
        Jitter::Equal,
        Jitter::Decorrelated,
    ] {
        for word in [LOWEST, 1, HIGHEST / 2, HIGHEST] {
            let degenerate = Backoff::none().jitter(jitter);
            assert_eq!(degenerate.delay(3, Duration::ZERO, word), Duration::ZERO);
            // A minimum at the ceiling leaves nothing to chance.
            let pinned = Backoff::constant(SECOND).min(SECOND).jitter(jitter);
            assert_eq!(pinned.delay(3, SECOND, word), SECOND);
        }
    }
}

#[test]
fn case_032_minimum_above_maximum_is_an_error() {
    assert_eq!(
        refusal(Backoff::exponential(SECOND, SECOND).min(5 * SECOND)),
        "backoff: the minimum 5s is above the cap 1s"
    );
    assert_eq!(
        refusal(Backoff::exponential(5 * SECOND, SECOND)),
        "backoff: the base 5s is above the cap 1s"
    );
    // Unchecked, it still yields the one value and no panic.
    let odd = Backoff::exponential(SECOND, SECOND).min(5 * SECOND);
    for word in [LOWEST, HIGHEST] {
        assert_eq!(odd.delay(9, SECOND, word), 5 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_backoff_beyond_the_deadline_ends_the_call_at_once() {
    let script = Calls::new([Step::Err("down")]);
    let layer = RetryLayer::builder(Effect::Read)
        .backoff(Backoff::constant(5 * SECOND).jitter(Jitter::None))
        .build()
        .unwrap();
    for (limit, calls, stop) in [
        // A wait that ends with the deadline leaves no time for an attempt.
        (5 * SECOND, 1, StopReason::Deadline),
        (5 * SECOND + MS, 2, StopReason::Deadline),
    ] {
        let service =
            DeadlineLayer::until(Deadline::after(limit)).layer(layer.layer(script.clone()));
        let before = script.calls();
        let (outcome, report) = CallReport::of(service.oneshot(())).await;
        assert_eq!(outcome.unwrap_err().to_string(), "down");
        assert_eq!(script.calls() - before, calls);
        assert_eq!(report.unwrap().stop_reason(), Some(stop));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_is_exact_has_no_jitter_and_no_backoff() {
    let policy = policy_fn(|_, _: Result<&(), &&str>| {
        Verdict::THROTTLED.with_hint(Some(Hint::exactly(7 * MS)))
    });
    let script = Calls::new([Step::Err("busy")]);
    let layer = RetryLayer::builder(policy)
        .max_attempts(3)
        .backoff(Backoff::constant(SECOND))
        .build()
        .unwrap();
    layer.layer(script.clone()).oneshot(()).await.unwrap_err();
    assert_eq!(script.times(), [0, 7, 14]);
}
