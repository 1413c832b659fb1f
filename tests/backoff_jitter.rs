//! The randomness of waits: under the cap, left at the cap, different for each caller, and repeatable from a seed.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::HashSet;
use std::time::Duration;

use support::Step;
use support::backoff::{Calls, attempts, exponential};
use tower::{Layer, ServiceExt};
use tower_composure::{Backoff, Effect, Jitter, RetryLayer};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LOWEST: u64 = 0;
const HIGHEST: u64 = u64::MAX;

/// `SplitMix64`, written down a second time: the crate's seeded jitter is meant to be this sequence and no other.
fn words(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |n: u64| {
        let mut word = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    })
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
