//! Whatever a layer accepts for a backoff, no wait leaves its bounds.
#![cfg(not(loom))]

use std::time::Duration;

use proptest::prelude::*;
use tower_composure::{Backoff, Effect, Jitter, RetryLayer};

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
