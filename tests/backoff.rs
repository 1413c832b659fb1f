//! The waits between attempts: their bounds, their randomness, and what no setting can make them do.
#![cfg(not(loom))]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test may; it reads tokio's paused clock"
)]

mod support;

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;
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

type Calls = Script<(), (), &'static str>;

/// `SplitMix64`, written down a second time: the crate's seeded jitter is meant to be this sequence and no other.
fn words(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |n: u64| {
        let mut word = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    })
}

fn exponential(base_ms: u64, cap_ms: u64) -> Backoff {
    Backoff::exponential(
        Duration::from_millis(base_ms),
        Duration::from_millis(cap_ms),
    )
}

fn refusal(backoff: Backoff) -> String {
    let error = RetryLayer::builder(Effect::Read)
        .backoff(backoff)
        .build()
        .unwrap_err();
    assert_eq!(error.setting(), "backoff");
    error.to_string()
}

/// When the attempts at a call that always fails come, and the sum of its waits.
async fn attempts(backoff: Backoff, max: u32, seed: u64) -> (Vec<u128>, Duration) {
    let script = Calls::new([Step::Err("down")]);
    let layer = RetryLayer::builder(Effect::Read)
        .max_attempts(max)
        .backoff(backoff)
        .seed(seed)
        .build()
        .unwrap();
    let (_, report) = CallReport::of(layer.layer(script.clone()).oneshot(())).await;
    (script.times(), report.unwrap().backoff())
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
fn case_027_jitter_stays_under_the_cap() {
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        let backoff = exponential(100, 500).jitter(jitter);
        let mut before = Duration::ZERO;
        for word in words(27).take(10_000).chain([LOWEST, HIGHEST]) {
            before = backoff.delay(6, before, word);
            assert!(before <= 500 * MS, "{jitter:?}: {before:?}");
        }
        assert_eq!(backoff.delay(6, 500 * MS, HIGHEST), 500 * MS);
    }
}

#[test]
fn case_028_randomness_is_left_at_the_cap() {
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        let backoff = exponential(100, 500).jitter(jitter);
        for retry in 6..=50 {
            let waits: Vec<_> = words(u64::from(retry))
                .take(1000)
                .map(|word| backoff.delay(retry, 500 * MS, word))
                .collect();
            let at_cap = waits.iter().filter(|wait| **wait == 500 * MS).count();
            assert!(at_cap <= 50, "{jitter:?}: {at_cap} of 1000 at the cap");
            let distinct: HashSet<_> = waits.iter().map(Duration::as_millis).collect();
            assert!(distinct.len() >= 100, "{jitter:?}: {}", distinct.len());
        }
    }
}

/// The first wait of each of 200 clones of one service, all failing at the same instant, in milliseconds.
async fn first_waits(jitter: Jitter, seed: Option<u64>) -> Vec<u128> {
    let mut builder = RetryLayer::builder(Effect::Read)
        .max_attempts(2)
        .backoff(exponential(10_000, 60_000).jitter(jitter));
    if let Some(seed) = seed {
        builder = builder.seed(seed);
    }
    let layer = builder.build().unwrap();
    let mut calls = Vec::new();
    for _ in 0..200 {
        let script = Calls::new([Step::Err("down")]);
        let service = layer.layer(script.clone());
        calls.push((script, tokio::spawn(service.oneshot(()))));
    }
    let mut waits = Vec::new();
    for (script, call) in calls {
        call.await.unwrap().unwrap_err();
        waits.push(script.times()[1]);
    }
    waits
}

#[tokio::test(start_paused = true)]
async fn case_031_clones_draw_independently() {
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        let waits = first_waits(jitter, None).await;
        let distinct: HashSet<_> = waits.iter().collect();
        assert!(distinct.len() >= 150, "{jitter:?}: {}", distinct.len());
        assert_ne!(first_waits(jitter, None).await, waits, "two stacks");
    }
    let seeded = first_waits(Jitter::Full, Some(31)).await;
    assert_eq!(first_waits(Jitter::Full, Some(31)).await, seeded);
    assert_ne!(first_waits(Jitter::Full, Some(32)).await, seeded);
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
async fn seeded_full_jitter_is_this_sequence() {
    // The published test vector of SplitMix64 for this seed.
    let published = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ];
    let drawn: Vec<u64> = words(1_234_567).take(5).collect();
    assert_eq!(drawn, published);

    // Two words a retry: the backoff, and the spread over a hint that is not there.
    let (times, waited) = attempts(exponential(200, 2000), 4, 1_234_567).await;
    let parts = [
        Duration::from_nanos(70_015_908),
        Duration::from_nanos(212_882_921),
        Duration::from_nanos(711_623_592),
    ];
    assert_eq!(waited, parts.iter().sum());
    // tokio's timers round up to the next millisecond.
    assert_eq!(times, [0, 71, 284, 996]);
}

#[tokio::test(start_paused = true)]
async fn default_jitter_is_full_from_200_ms_to_2_s() {
    let default = Backoff::default();
    assert_eq!(default, exponential(200, 2000).jitter(Jitter::Full));
    let ceilings: Vec<_> = (1..=5).map(|n| default.ceiling(n).as_millis()).collect();
    assert_eq!(ceilings, [200, 400, 800, 1600, 2000]);
    assert_eq!(default.delay(3, SECOND, LOWEST), Duration::ZERO);
    assert_eq!(default.delay(3, SECOND, HIGHEST), 800 * MS);
}

#[test]
fn equal_jitter_keeps_half_the_ceiling() {
    let equal = exponential(200, 2000).jitter(Jitter::Equal);
    assert_eq!(equal.delay(1, Duration::ZERO, LOWEST), 100 * MS);
    assert_eq!(equal.delay(1, Duration::ZERO, HIGHEST), 200 * MS);
    assert_eq!(equal.delay(4, SECOND, LOWEST), 800 * MS);
    assert_eq!(equal.delay(4, SECOND, HIGHEST), 1600 * MS);
}

#[test]
fn decorrelated_jitter_grows_from_the_wait_before() {
    let backoff = exponential(200, 2000).jitter(Jitter::Decorrelated);
    // Before the first retry there is no wait, and the base stands for it.
    assert_eq!(backoff.delay(1, Duration::ZERO, LOWEST), 200 * MS);
    assert_eq!(backoff.delay(1, Duration::ZERO, HIGHEST), 600 * MS);
    assert_eq!(backoff.delay(2, 300 * MS, LOWEST), 200 * MS);
    assert_eq!(backoff.delay(2, 300 * MS, HIGHEST), 900 * MS);
    assert_eq!(backoff.delay(3, 900 * MS, HIGHEST), 2000 * MS);
    assert_eq!(backoff.delay(u32::MAX, Duration::MAX, HIGHEST), 2000 * MS);
    assert_eq!(backoff.delay(u32::MAX, Duration::MAX, LOWEST), 200 * MS);
}

#[test]
fn minimum_is_a_floor_under_every_jitter() {
    for jitter in [
        Jitter::None,
        Jitter::Full,
        Jitter::Equal,
        Jitter::Decorrelated,
    ] {
        let backoff = exponential(100, 1000).min(150 * MS).jitter(jitter);
        assert_eq!(backoff.delay(1, Duration::ZERO, LOWEST), 150 * MS);
        assert_eq!(backoff.ceiling(1), 150 * MS);
        for word in words(5).take(200) {
            let wait = backoff.delay(4, 400 * MS, word);
            assert!((150 * MS..=SECOND).contains(&wait), "{jitter:?}: {wait:?}");
        }
    }
    let full = exponential(100, 1000).min(150 * MS);
    assert_eq!(full.delay(4, SECOND, LOWEST), 150 * MS);
    assert_eq!(full.delay(4, SECOND, HIGHEST), 800 * MS);
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

fn any_jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
    ]
}

/// Any duration, the extremes and the very short included.
fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..100_u64).prop_map(Duration::from_nanos),
        (0..100_000_u64).prop_map(Duration::from_millis),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
    ]
}

/// Any backoff that a layer accepts.
fn any_backoff() -> impl Strategy<Value = Backoff> {
    let durations = (any_duration(), any_duration(), any_duration());
    let factor = prop_oneof![Just(1.0), Just(2.0), 1.0..20.0_f64, Just(f64::MAX)];
    (durations, factor, any_jitter())
        .prop_map(|((base, cap, min), factor, jitter)| {
            let cap = cap.max(base);
            Backoff::exponential(base, cap)
                .min(min.min(cap))
                .factor(factor)
                .jitter(jitter)
        })
        .prop_filter("accepted by the builder", |backoff| {
            RetryLayer::builder(Effect::Read)
                .backoff(*backoff)
                .build()
                .is_ok()
        })
}

proptest! {
    #[test]
    fn ceilings_never_shrink(backoff in any_backoff(), retry in any::<u32>(), more in any::<u32>()) {
        prop_assert!(backoff.ceiling(retry) <= backoff.ceiling(retry.saturating_add(1)));
        prop_assert!(backoff.ceiling(retry) <= backoff.ceiling(retry.saturating_add(more)));
    }

    #[test]
    fn first_ceilings_never_shrink(backoff in any_backoff()) {
        for retry in 0..40 {
            prop_assert!(backoff.ceiling(retry) <= backoff.ceiling(retry + 1));
        }
    }

    #[test]
    fn waits_stay_in_bounds(
        base in any_duration(), cap in any_duration(), min in any_duration(), jitter in any_jitter(),
        retry in any::<u32>(), before in any_duration(), word in any::<u64>(),
    ) {
        let cap = cap.max(base);
        let min = min.min(cap);
        let backoff = Backoff::exponential(base, cap).min(min).jitter(jitter);
        let wait = backoff.delay(retry, before, word);
        prop_assert!(min <= wait && wait <= cap, "{wait:?}");
        match jitter {
            Jitter::None => prop_assert_eq!(wait, backoff.ceiling(retry)),
            Jitter::Full => prop_assert!(wait <= backoff.ceiling(retry)),
            Jitter::Equal => {
                let ceiling = backoff.ceiling(retry);
                prop_assert!(ceiling / 2 <= wait && wait <= ceiling);
            }
            Jitter::Decorrelated => {
                prop_assert!(base <= wait && wait <= before.max(base).max(min).saturating_mul(3));
            }
        }
    }

    #[test]
    fn a_larger_word_never_waits_less(
        backoff in any_backoff(), retry in any::<u32>(), before in any_duration(),
        low in any::<u64>(), high in any::<u64>(),
    ) {
        let (low, high) = (low.min(high), low.max(high));
        prop_assert!(backoff.delay(retry, before, low) <= backoff.delay(retry, before, high));
    }
}
