//! How long a retry waits, where the server said it, and what runs in between.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::task::Poll;
use std::time::Duration;

use support::Step;
use support::told::{Inner, SECOND, Said, Told, cases, stops, told};
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, DeadlineExceeded, DeadlineLayer, Effect, Hint, Jitter, RetryLayer, StopReason, Verdict,
};

// How long a retry waits, where the server said it.

/// When the second attempt comes after this hint, in milliseconds, for each of 100 seeds.
async fn seconds_after(hint: Hint, limit: Duration) -> Vec<u128> {
    let mut seconds = Vec::new();
    for seed in 0..100 {
        let verdict = Verdict::THROTTLED.with_hint(Some(hint));
        let inner = Told::new([Step::Err(Said(verdict)), Step::Ok(1)]);
        let layer = cases(told(Effect::Write)).seed(seed).build().unwrap();
        let service = DeadlineLayer::call(limit).layer(layer.layer(inner.clone()));
        assert_eq!(service.oneshot(1).await.unwrap(), 1);
        seconds.push(inner.times()[1]);
    }
    seconds.sort_unstable();
    seconds.dedup();
    seconds
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_a_floor_and_its_spread_is_trimmed_to_the_deadline() {
    let free = seconds_after(Hint::after(5 * SECOND), Duration::MAX).await;
    assert!(free[0] >= 5000 && free[free.len() - 1] <= 6250, "{free:?}");
    assert!(free.len() > 50, "spread out: {free:?}");

    let trimmed = seconds_after(Hint::after(5 * SECOND), 5100 * SECOND / 1000).await;
    assert!(trimmed[0] >= 5000, "the hint itself never is: {trimmed:?}");
    assert_eq!(trimmed[trimmed.len() - 1], 5099);

    // The least spread is the base, and the backoff stands where it is longer.
    let short = seconds_after(Hint::after(SECOND / 20), Duration::MAX).await;
    assert!(
        short[0] == 100 && short[short.len() - 1] <= 150,
        "{short:?}"
    );
    assert!(short.len() > 20, "spread out: {short:?}");
    let nothing = seconds_after(Hint::after(Duration::ZERO), Duration::MAX).await;
    assert_eq!(nothing, [100]);

    let exact = seconds_after(Hint::exactly(SECOND / 20), Duration::MAX).await;
    assert_eq!(exact, [50]);
}

#[tokio::test(start_paused = true)]
async fn an_exact_wait_of_nothing_is_a_backoff_where_attempts_are_unlimited() {
    let at_once = Verdict::THROTTLED.with_hint(Some(Hint::exactly(Duration::ZERO)));
    let steps = || {
        let at_once = Step::Err(Said(at_once));
        [at_once.clone(), at_once, Step::Ok(1)]
    };
    let limited = Told::new(steps());
    let layer = cases(told(Effect::Write)).build().unwrap();
    layer.layer(limited.clone()).oneshot(1).await.unwrap();
    assert_eq!(limited.times(), [0, 0, 0], "as gRPC has it");

    let unlimited = Told::new(steps());
    let layer = cases(told(Effect::Write)).unlimited_attempts();
    let service = layer.build().unwrap().layer(unlimited.clone());
    service.oneshot(1).await.unwrap();
    assert_eq!(unlimited.times(), [0, 100, 300], "no busy loop");
}

#[tokio::test(start_paused = true)]
async fn a_hint_for_once_is_followed_once() {
    for wait in [SECOND, Duration::ZERO] {
        let once = Verdict::THROTTLED.with_hint(Some(Hint::exactly(wait).once()));
        let (again, other) = (Step::Err(Said(once)), Step::Err(Said(Verdict::REFUSED)));
        for (steps, attempts) in [(vec![again.clone()], 2), (vec![again, other], 3)] {
            let layer = cases(told(Effect::Write)).build().unwrap();
            let service = layer.layer(Told::new(steps));
            assert_eq!(stops(service).await, (attempts, Some(StopReason::Attempts)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_at_the_limit_is_waited_for_and_one_beyond_it_is_not() {
    for (millis, attempts, stop) in [
        (2000, 2, None),
        (2001, 1, Some(StopReason::HintExceedsLimit)),
    ] {
        let hint = Hint::exactly(Duration::from_millis(millis));
        let verdict = Verdict::REFUSED.with_hint(Some(hint));
        let inner = Told::new([Step::Err(Said(verdict)), Step::Ok(1)]);
        let layer = cases(told(Effect::Read))
            .max_hint(2 * SECOND)
            .build()
            .unwrap();
        assert_eq!(stops(layer.layer(inner)).await, (attempts, stop));
    }
}

#[tokio::test(start_paused = true)]
async fn case_062_layers_below_run_once_an_attempt_and_layers_above_once_a_call() {
    let start = tokio::time::Instant::from_std(now());
    let signed_at = move || u32::try_from((tokio_now() - start).as_millis()).unwrap();
    let inner = Inner::new([Step::Err("a"), Step::Err("b"), Step::Ok(1)]);
    let sign = move |_: u32| signed_at();
    let service = ServiceBuilder::new()
        .layer(cases(Effect::Read).build().unwrap())
        .map_request(sign)
        .service(inner.clone());
    service.oneshot(7).await.unwrap();
    let stamps = |inner: &Inner| {
        inner
            .seen()
            .iter()
            .map(|seen| seen.request)
            .collect::<Vec<_>>()
    };
    assert_eq!(stamps(&inner), [0, 100, 300]);

    let inner = Inner::new([Step::Err("a"), Step::Err("b"), Step::Ok(1)]);
    let service = ServiceBuilder::new()
        .map_request(sign)
        .layer(cases(Effect::Read).build().unwrap())
        .service(inner.clone());
    service.oneshot(7).await.unwrap();
    assert_eq!(stamps(&inner), [300, 300, 300]);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the signer of this test stamps the time"
)]
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[expect(clippy::disallowed_types, reason = "tokio's instant is made of it")]
fn now() -> std::time::Instant {
    tokio_now().into_std()
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_at_once_lets_others_have_their_turn() {
    let layer = RetryLayer::builder(Effect::Read)
        .unlimited_attempts()
        .backoff(Backoff::none())
        .build()
        .unwrap();
    let inner = Inner::new([Step::Err("a")]);
    let mut call = tokio_test::task::spawn(layer.layer(inner.clone()).oneshot(1));
    assert!(call.poll().is_pending());
    assert!(call.is_woken(), "it comes back, after the others");
    assert_eq!(inner.calls(), 32);
}

#[tokio::test(start_paused = true)]
async fn no_attempt_starts_where_the_deadline_passed_in_the_same_moment() {
    // A thread that was held up sees the end of the wait and the end of the call at once.
    let inner = Inner::new([Step::Err("a"), Step::Ok(1)]);
    let retry = cases(Effect::Read).build().unwrap();
    let service = DeadlineLayer::call(SECOND).layer(retry.layer(inner.clone()));
    let mut call = tokio_test::task::spawn(service.oneshot(1));
    assert!(call.poll().is_pending());
    tokio::time::advance(2 * SECOND).await;
    match call.poll() {
        Poll::Ready(Err(error)) => assert!(DeadlineExceeded::find(&*error).is_some()),
        other => panic!("{other:?}"),
    }
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn decorrelated_waits_grow_from_the_one_before() {
    let backoff = Backoff::exponential(SECOND / 10, 10 * SECOND).jitter(Jitter::Decorrelated);
    let mut longest = 0;
    for seed in 0..100 {
        let layer = cases(Effect::Read).backoff(backoff).seed(seed);
        let inner = Inner::new([Step::Err("a"), Step::Err("b"), Step::Ok(1)]);
        let service = layer.build().unwrap().layer(inner.clone());
        service.oneshot(1).await.unwrap();
        let [_, second, third] = inner.times()[..] else {
            panic!("{:?}", inner.times());
        };
        let (first_wait, wait) = (second, third - second);
        assert!((100..=300).contains(&first_wait), "{first_wait}");
        assert!(
            (100..=3 * first_wait + 3).contains(&wait),
            "{first_wait}, {wait}"
        );
        longest = longest.max(wait);
    }
    assert!(longest > 300, "longer than from the base: {longest}");
}
