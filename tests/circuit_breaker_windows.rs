//! What a breaker remembers: sliding count windows, time windows, and slow calls.
#![cfg(not(loom))]

mod support;

use std::time::Duration;

use support::breaker::{
    Dependency, SECOND, Says, Script, Step, call, calls, cases, counts, failure, success,
};
use tokio::time::{advance, sleep};
use tower::{Layer, Service, ServiceExt};
use tower_composure::{
    CircuitBreaker, CircuitBreakerLayer, CircuitState, DeadlineLayer, Effect, Verdict,
};

#[tokio::test(start_paused = true)]
async fn a_window_slides_whatever_came_before() {
    for before in [0, 100, 1000, 100_000] {
        let breaker = CircuitBreaker::builder().build().unwrap();
        let mut service = Dependency::of(&breaker, [Step::Ok(Verdict::Success)]);
        for number in 0..before {
            service.ready().await.unwrap().call(number).await.unwrap();
        }
        let needed = if before == 0 { 20 } else { 50 };
        calls(&breaker, &vec![failure(); needed - 1]).await;
        assert_eq!(
            breaker.state(),
            CircuitState::Closed,
            "after {before} successes"
        );
        call(&breaker, failure()).await;
        assert_eq!(
            breaker.state(),
            CircuitState::Open,
            "after {before} successes"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_oldest_outcome_leaves_a_count_window_first() {
    let breaker = cases().failure_rate(1.0).build().unwrap();
    calls(&breaker, &[failure(), failure(), success()]).await;
    calls(&breaker, &[success(); 7]).await;
    assert_eq!(counts(&breaker), (10, 2));
    call(&breaker, success()).await;
    assert_eq!(counts(&breaker), (10, 1));
    calls(&breaker, &[success(); 3]).await;
    assert_eq!(counts(&breaker), (10, 0));
}

// Time windows.

#[tokio::test(start_paused = true)]
async fn case_122_a_time_window_forgets_by_time_alone() {
    let breaker = cases()
        .time_window(30 * SECOND)
        .minimum_calls(5)
        .build()
        .unwrap();
    calls(&breaker, &[failure(); 4]).await;
    sleep(60 * SECOND).await;
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), CircuitState::Closed);
    assert_eq!(breaker.metrics().recorded(), 1);
    // An outcome exactly as old as the window is out of it.
    for (age, recorded) in [(29_999, 1), (30_000, 0), (30_001, 0)] {
        let breaker = cases().time_window(30 * SECOND).build().unwrap();
        call(&breaker, failure()).await;
        advance(Duration::from_millis(age)).await;
        assert_eq!(
            breaker.metrics().recorded(),
            recorded,
            "after {age} ms, without traffic"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn case_125_the_rate_has_no_bias_at_an_edge() {
    let breaker = cases()
        .time_window(10 * SECOND)
        .minimum_calls(5)
        .build()
        .unwrap();
    let tick = SECOND / 100;
    for _ in 0..1000 {
        call(&breaker, success()).await;
        advance(tick).await;
    }
    for number in 0..100 {
        let outcome = if number % 10 == 0 {
            success()
        } else {
            failure()
        };
        call(&breaker, outcome).await;
        advance(tick).await;
    }
    assert_eq!(breaker.state(), CircuitState::Closed);
    let rate = breaker.metrics().failure_rate().unwrap();
    assert!((0.08..0.10).contains(&rate), "{rate}");
}

#[tokio::test(start_paused = true)]
async fn a_time_window_opens_by_its_rate_too() {
    let breaker = cases()
        .time_window(10 * SECOND)
        .minimum_calls(4)
        .build()
        .unwrap();
    calls(&breaker, &[success(), success(), failure()]).await;
    assert_eq!(breaker.state(), CircuitState::Closed);
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn case_024_times_without_end_are_survived() {
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let breaker = cases()
            .open_time(endless)
            .max_open_time(endless)
            .time_window(endless)
            .build()
            .unwrap();
        calls(&breaker, &[failure(); 5]).await;
        advance(365 * 24 * 3600 * SECOND).await;
        assert_eq!(breaker.state(), CircuitState::Open);
        assert_eq!(breaker.metrics().remaining(), Duration::MAX);
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_that_makes_the_minimum_full_opens_either_window() {
    for builder in [cases(), cases().time_window(10 * SECOND)] {
        let breaker = builder.minimum_calls(4).build().unwrap();
        calls(&breaker, &[failure(), failure(), success()]).await;
        assert_eq!(breaker.state(), CircuitState::Closed);
        call(&breaker, success()).await;
        assert_eq!(breaker.state(), CircuitState::Open);
    }
}

// Slow calls.

#[tokio::test(start_paused = true)]
async fn a_slow_outcome_leaves_a_count_window_like_a_failure() {
    let breaker = cases()
        .window(4)
        .minimum_calls(4)
        .failure_rate(1.0)
        .slow_calls(SECOND, 1.0)
        .build()
        .unwrap();
    let fine = Step::Ok(Verdict::Success);
    let failed = Step::Err(Says(Verdict::UNKNOWN));
    let mut seen = Vec::new();
    for step in [
        fine.clone().after(2 * SECOND),
        failed.clone().after(SECOND),
        failed,
        fine.clone(),
        fine.clone(),
        fine.clone(),
        fine.clone(),
        fine.clone().after(SECOND),
    ] {
        let _ = Dependency::of(&breaker, [step]).oneshot(1).await;
        let metrics = breaker.metrics();
        seen.push((metrics.recorded(), metrics.failures(), metrics.slow()));
    }
    let expected = [
        (1, 0, 1),
        (2, 1, 2),
        (3, 2, 2),
        (4, 2, 2),
        (4, 2, 1),
        (4, 1, 0),
        (4, 0, 0),
        (4, 0, 1),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn case_132_slow_successes_count_and_a_call_cut_off_counts_once() {
    let slow = || cases().window(10).minimum_calls(4).slow_calls(SECOND, 0.5);
    let breaker = slow().build().unwrap();
    let mut service = Dependency::of(&breaker, [Step::Ok(Verdict::Success).after(2 * SECOND)]);
    for number in 0..3 {
        service.ready().await.unwrap().call(number).await.unwrap();
    }
    assert_eq!(breaker.state(), CircuitState::Closed);
    assert_eq!(breaker.metrics().slow_rate(), Some(1.0));
    service.ready().await.unwrap().call(3).await.unwrap();
    assert_eq!(breaker.state(), CircuitState::Open);

    let breaker = slow().failure_rate(1.0).build().unwrap();
    let cut = DeadlineLayer::call(1500 * SECOND / 1000).layer(Script::new([Step::Hang]));
    let service = CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(
        cut.map_response(|_: Verdict| ())
            .map_request(|number: u32| number),
    );
    for number in 0..3 {
        service.clone().oneshot(number).await.unwrap_err();
    }
    let metrics = breaker.metrics();
    assert_eq!(
        (metrics.recorded(), metrics.failures(), metrics.slow()),
        (3, 3, 3)
    );
    service.oneshot(3).await.unwrap_err();
    assert_eq!(breaker.state(), CircuitState::Open);

    // With the deadline above, every hang is a drop, which counts as nothing: the builder's docs say so.
    let breaker = slow().build().unwrap();
    let service = Dependency::of(&breaker, [Step::Hang]);
    let above = DeadlineLayer::call(1500 * SECOND / 1000).layer(service);
    for number in 0..10 {
        above.clone().oneshot(number).await.unwrap_err();
    }
    assert_eq!(
        (breaker.state(), counts(&breaker)),
        (CircuitState::Closed, (0, 0))
    );
}
