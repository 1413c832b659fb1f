//! What a user of the breaker sees: what opens it, what counts, and that windows slide.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::time::Duration;

use support::breaker::{
    Dependency, SECOND, Says, Script, Step, call, calls, cases, counts, failure, success,
};
use tokio::time::advance;
use tokio_test::task::spawn;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, BreakerOpen, Budget, BudgetLayer, CallReport, CircuitBreaker, CircuitBreakerLayer,
    CircuitState, Count, DeadlineLayer, Effect, Jitter, RetryLayer, Verdict,
};

// What opens it.

#[tokio::test(start_paused = true)]
async fn case_113_it_is_evaluated_from_the_minimum_on() {
    let breaker = cases().window(100).minimum_calls(5).build().unwrap();
    calls(&breaker, &[failure(); 4]).await;
    assert_eq!(breaker.state(), CircuitState::Closed);
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_success_that_reaches_the_minimum_may_open_it() {
    let breaker = cases().window(100).minimum_calls(5).build().unwrap();
    calls(&breaker, &[failure(), failure(), failure(), failure()]).await;
    call(&breaker, success()).await;
    assert_eq!(
        breaker.state(),
        CircuitState::Open,
        "four of five have failed"
    );
}

#[test]
fn case_114_settings_that_contradict_each_other_are_named() {
    let error = |builder: tower_composure::circuit_breaker::CircuitBreakerBuilder| {
        builder.build().unwrap_err().to_string()
    };
    let built = CircuitBreaker::builder;
    assert_eq!(
        error(built().window(5).minimum_calls(10)),
        "minimum_calls: 10 is not between 1 and the window of 5"
    );
    assert!(error(built().minimum_calls(0)).starts_with("minimum_calls: 0 "));
    assert!(error(built().window(0)).starts_with("window: 0 "));
    for rate in [0.0, -0.5, 1.01, f64::NAN] {
        let text = error(built().failure_rate(rate));
        assert!(
            text.starts_with(&format!("failure_rate: {rate} ")),
            "{text}"
        );
    }
    assert!(error(built().probes(0)).starts_with("probes: 0 "));
    assert!(error(built().open_time(Duration::ZERO)).starts_with("open_time: 0ns "));
    assert_eq!(
        error(built().open_time(2 * SECOND).max_open_time(SECOND)),
        "max_open_time: 1s is below the open time 2s"
    );
    assert!(error(built().no_failure_rate()).starts_with("failure_rate: without it"));
    assert!(error(built().consecutive_failures(0)).starts_with("consecutive_failures: 0 "));
    assert!(error(built().slow_calls(SECOND, 2.0)).starts_with("slow_calls: 2 "));
    assert!(error(built().time_window(SECOND / 1000)).starts_with("time_window: 1ms "));
    assert!(error(built().probe_lease(Duration::ZERO)).starts_with("probe_lease: 0ns "));
}

#[tokio::test(start_paused = true)]
async fn case_127_a_success_resets_the_failures_in_a_row() {
    let breaker = cases()
        .no_failure_rate()
        .consecutive_failures(3)
        .build()
        .unwrap();
    calls(
        &breaker,
        &[failure(), failure(), success(), failure(), failure()],
    )
    .await;
    assert_eq!(breaker.state(), CircuitState::Closed);
    assert_eq!(breaker.metrics().consecutive_failures(), 2);
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn case_109_a_rejection_is_neutral_while_closed() {
    let breaker = cases()
        .no_failure_rate()
        .consecutive_failures(5)
        .build()
        .unwrap();
    calls(&breaker, &[failure(); 4]).await;
    call(&breaker, Ok(Verdict::Rejected)).await;
    assert_eq!(breaker.state(), CircuitState::Closed);
    call(&breaker, failure()).await;
    assert_eq!(
        breaker.state(),
        CircuitState::Open,
        "the rejection did not reset"
    );
}

#[tokio::test(start_paused = true)]
async fn case_110_what_is_about_the_request_is_no_failure() {
    let breaker = cases().build().unwrap();
    calls(&breaker, &[Ok(Verdict::Rejected); 20]).await;
    calls(&breaker, &[Ok(Verdict::THROTTLED); 20]).await;
    calls(&breaker, &[Err(Verdict::Rejected); 20]).await;
    assert_eq!(
        (breaker.state(), counts(&breaker)),
        (CircuitState::Closed, (0, 0))
    );
    calls(&breaker, &[failure(); 5]).await;
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn case_111_dropped_calls_are_in_no_count() {
    let breaker = cases().build().unwrap();
    let mut hanging = Dependency::of(&breaker, [Step::Hang]);
    let drop_calls = async |hanging: &mut _| {
        for number in 0..100 {
            let hanging: &mut Dependency = hanging;
            let mut call = spawn(hanging.ready().await.unwrap().call(number));
            assert!(call.poll().is_pending());
        }
    };
    drop_calls(&mut hanging).await;
    assert_eq!(
        (breaker.state(), counts(&breaker)),
        (CircuitState::Closed, (0, 0))
    );
    calls(&breaker, &[failure(); 4]).await;
    drop_calls(&mut hanging).await;
    assert_eq!(breaker.state(), CircuitState::Closed);
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn case_119_failures_at_once_open_it_once() {
    let breaker = cases()
        .no_failure_rate()
        .consecutive_failures(5)
        .build()
        .unwrap();
    let mut service = Dependency::of(&breaker, [Step::Err(Says(Verdict::UNKNOWN)).after(SECOND)]);
    let mut futures = Vec::new();
    for number in 0..6 {
        futures.push(tokio::spawn(service.ready().await.unwrap().call(number)));
    }
    for future in futures {
        future.await.unwrap().unwrap_err();
    }
    assert_eq!(breaker.state(), CircuitState::Open);
    assert_eq!(breaker.metrics().generation(), 2, "one transition");
    advance(30 * SECOND).await;
    call(&breaker, success()).await;
    assert_eq!(breaker.state(), CircuitState::Closed);
}

// In a stack.

fn retry(max: u32, wait: Duration) -> RetryLayer<Effect> {
    RetryLayer::builder(Effect::Read)
        .max_attempts(max)
        .backoff(Backoff::constant(wait).jitter(Jitter::None))
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn case_130_a_rejected_call_is_not_retried() {
    let minute = 60 * SECOND;
    let breaker = cases()
        .open_time(minute)
        .max_open_time(minute)
        .build()
        .unwrap();
    let script = Script::new([Step::Ok(Verdict::Success)]);
    calls(&breaker, &[failure(); 5]).await;
    let budget = Budget::new(0.0, 5).unwrap();
    let service = ServiceBuilder::new()
        .layer(BudgetLayer::new(budget.clone()))
        .layer(retry(3, 10 * SECOND))
        .layer(CircuitBreakerLayer::new(breaker.clone(), Effect::Read))
        .service(script.clone());
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    let error = outcome.unwrap_err();
    assert_eq!(BreakerOpen::find(&*error).unwrap().remaining(), minute);
    assert_eq!(
        (report.unwrap().attempts(), report.unwrap().stop_reason()),
        (1, None)
    );
    assert!(budget.is_full());
    assert_eq!((script.calls(), script.age()), (0, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn case_131_what_is_counted_follows_from_the_order_and_the_setting() {
    let breaker = |count| {
        let rule = cases().no_failure_rate().consecutive_failures(3);
        rule.count(count).build().unwrap()
    };
    let failing = || Script::new([Step::Err(Says(Verdict::UNKNOWN))]);

    let inside = breaker(Count::Calls);
    let layer = CircuitBreakerLayer::new(inside.clone(), Effect::Read);
    let script = failing();
    let service = retry(3, SECOND).layer(layer.layer(script.clone()));
    service.oneshot(1).await.unwrap_err();
    assert_eq!((inside.state(), script.calls()), (CircuitState::Open, 3));

    let outside = breaker(Count::Calls);
    let layer = CircuitBreakerLayer::new(outside.clone(), Effect::Read);
    let service = layer.layer(retry(3, SECOND).layer(failing()));
    service.oneshot(1).await.unwrap_err();
    assert_eq!(
        (outside.state(), counts(&outside)),
        (CircuitState::Closed, (1, 1))
    );

    let outside = breaker(Count::Attempts);
    let layer = CircuitBreakerLayer::new(outside.clone(), Effect::Read);
    let service = layer.layer(retry(3, SECOND).layer(failing()));
    service.oneshot(1).await.unwrap_err();
    assert_eq!(outside.state(), CircuitState::Open, "each attempt counts");
}

#[tokio::test(start_paused = true)]
async fn counting_attempts_counts_each_outcome_once() {
    let stack = |breaker: &CircuitBreaker, steps: Vec<Step<Verdict, Says>>| {
        CircuitBreakerLayer::new(breaker.clone(), Effect::Read).layer(
            DeadlineLayer::call(5 * SECOND).layer(retry(4, SECOND).layer(Script::new(steps))),
        )
    };
    let breaker = || {
        cases()
            .minimum_calls(10)
            .count(Count::Attempts)
            .build()
            .unwrap()
    };
    let fails = || Step::Err(Says(Verdict::UNKNOWN));

    let smoothed = breaker();
    let service = stack(&smoothed, vec![fails(), Step::Ok(Verdict::Success)]);
    service.oneshot(1).await.unwrap();
    assert_eq!(counts(&smoothed), (2, 1), "what the retry smoothed over");

    // The deadline cuts the second attempt off: it is outstanding, and counts.
    let cut = breaker();
    stack(&cut, vec![fails(), Step::Hang])
        .oneshot(1)
        .await
        .unwrap_err();
    assert_eq!(counts(&cut), (2, 2));

    // No retry below reports anything, so the call itself counts.
    let plain = breaker();
    let layer = CircuitBreakerLayer::new(plain.clone(), Effect::Read);
    layer
        .layer(Script::new([fails()]))
        .oneshot(1)
        .await
        .unwrap_err();
    assert_eq!(counts(&plain), (1, 1));
}
