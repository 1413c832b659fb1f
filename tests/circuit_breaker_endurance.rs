//! A breaker that has been through a great deal of time and of transitions works as on its first day.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod support;

use std::time::Duration;

use support::{Script, Step};
use tokio::time::advance;
use tower::{Layer, ServiceExt};
use tower_composure::circuit_breaker::CircuitBreakerBuilder;
use tower_composure::{BreakerOpen, CircuitBreaker, CircuitBreakerLayer, CircuitState, Effect};

const SECOND: Duration = Duration::from_secs(1);

fn builder() -> CircuitBreakerBuilder {
    CircuitBreaker::builder()
        .window(10)
        .minimum_calls(5)
        .open_time(SECOND)
        .max_open_time(SECOND)
        .open_jitter(0.0)
        .probes(2)
}

/// One call with this outcome; whether it was let through.
async fn call(breaker: &CircuitBreaker, fine: bool) -> bool {
    let step = if fine {
        Step::Ok(())
    } else {
        Step::Err("down")
    };
    let service =
        CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(Script::new([step]));
    match service.oneshot(()).await {
        Ok(()) => true,
        Err(error) => BreakerOpen::find(&*error).is_none(),
    }
}

async fn opens_on_the_fifth_failure(breaker: &CircuitBreaker) {
    for failures in 1..=5 {
        assert_eq!(breaker.state(), CircuitState::Closed);
        assert!(call(breaker, false).await);
        let recorded = if failures == 5 { 0 } else { failures };
        assert_eq!(breaker.metrics().recorded(), recorded);
    }
    assert_eq!(breaker.state(), CircuitState::Open);
}

async fn closes_after_both_probes(breaker: &CircuitBreaker) {
    for _ in 0..2 {
        assert_eq!(breaker.state(), CircuitState::HalfOpen);
        assert!(call(breaker, true).await);
    }
    assert_eq!(breaker.state(), CircuitState::Closed);
}

/// Every count of transitions at which a tag of 12 or of 16 bits could be mistaken for one to come.
const RESETS: [u32; 6] = [2_049, 3_000, 4_095, 32_769, 40_000, 65_535];

/// It opens and closes as a new one does after each of these.
async fn counts_after_any_number_of_resets(builder: CircuitBreakerBuilder) {
    for resets in RESETS {
        let breaker = builder.clone().build().unwrap();
        call(&breaker, false).await;
        (0..resets).for_each(|_| breaker.reset());
        opens_on_the_fifth_failure(&breaker).await;
        advance(SECOND).await;
        closes_after_both_probes(&breaker).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_count_window_counts_after_any_number_of_resets() {
    counts_after_any_number_of_resets(builder()).await;
}

#[tokio::test(start_paused = true)]
async fn a_time_window_counts_after_any_number_of_resets() {
    counts_after_any_number_of_resets(builder().time_window(10 * SECOND)).await;
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_count_after_any_number_of_resets() {
    let in_a_row = builder().no_failure_rate().consecutive_failures(5);
    counts_after_any_number_of_resets(in_a_row).await;
}

#[tokio::test(start_paused = true)]
async fn every_place_for_a_probe_is_usable_after_a_long_outage() {
    // The first probe of each period fails, so that the second place is not touched in all that time.
    for reopenings in [1_100_u32, 2_000, 17_000, 20_000] {
        let breaker = builder().build().unwrap();
        opens_on_the_fifth_failure(&breaker).await;
        for _ in 0..reopenings {
            advance(SECOND).await;
            assert!(call(&breaker, false).await);
        }
        assert_eq!(
            breaker.metrics().generation(),
            u64::from(2 * reopenings) + 2
        );
        advance(SECOND).await;
        closes_after_both_probes(&breaker).await;
        opens_on_the_fifth_failure(&breaker).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_window_counts_after_months() {
    // The steps of the shortest window come round after 1,342,177.28 s, fifteen and a half days.
    for seconds in [671_088, 1_342_177, 2_684_354, 31_536_000] {
        for pause in [1, 2, 3_600, 691_200] {
            let breaker = builder()
                .time_window(Duration::from_millis(100))
                .build()
                .unwrap();
            advance(SECOND * seconds).await;
            for _ in 0..20 {
                assert!(call(&breaker, true).await);
                advance(Duration::from_millis(5)).await;
            }
            advance(SECOND * pause).await;
            opens_on_the_fifth_failure(&breaker).await;
        }
    }
}
