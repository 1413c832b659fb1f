//! What a user of the budget sees: exact sums, shared by everyone, and tokens that survive a drop at any point.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::time::Duration;

use support::{Script, Step};
use tokio::time::{advance, sleep};
use tower::{Layer, ServiceExt};
use tower_composure::budget::Withdrawal;
use tower_composure::retry::RetryLayerBuilder;
use tower_composure::{
    Backoff, Budget, BudgetLayer, CallReport, Effect, Jitter, RetryLayer, StopReason, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);

type Inner = Script<u32, u32, &'static str>;

fn retry(wait: Duration) -> RetryLayerBuilder<Effect> {
    RetryLayer::builder(Effect::Read).backoff(Backoff::constant(wait).jitter(Jitter::None))
}

/// Takes a token for good.
fn take(budget: &Budget) -> bool {
    budget
        .try_withdraw(Verdict::UNKNOWN)
        .map(Withdrawal::spend)
        .is_some()
}

fn take_all(budget: &Budget) -> usize {
    std::iter::repeat_with(|| take(budget))
        .take_while(|taken| *taken)
        .count()
}

fn empty(ratio: f64, burst: u32) -> Budget {
    Budget::builder()
        .ratio(ratio)
        .burst(burst)
        .starting_empty()
        .build()
        .unwrap()
}

fn assert_balance(budget: &Budget, expected: f64) {
    let balance = budget.balance();
    assert!(
        (balance - expected).abs() < 1e-9,
        "{balance} and not {expected}"
    );
}

#[test]
fn case_094_a_ratio_is_exact() {
    for (ratio, retries) in [
        (0.6, 60),
        (0.4, 40),
        (0.35, 35),
        (0.1, 10),
        (0.29, 29),
        (1.5, 150),
    ] {
        let budget = empty(ratio, 1000);
        for _ in 0..100 {
            budget.deposit();
        }
        assert_eq!(take_all(&budget), retries, "at a ratio of {ratio}");
    }
    let budget = empty(0.1, 10);
    for _ in 0..10 {
        budget.deposit();
    }
    assert_eq!(take_all(&budget), 1, "ten tenths are one");
}

#[test]
fn case_096_a_drained_budget_recovers_by_plain_successes() {
    let budget = Budget::new(0.2, 10).unwrap();
    assert_eq!(take_all(&budget), 10);
    for _ in 0..5 {
        budget.deposit();
    }
    assert_eq!(take_all(&budget), 1);
    for _ in 0..50 {
        budget.deposit();
    }
    assert_eq!(take_all(&budget), 10, "up to the cap");
}

#[tokio::test(start_paused = true)]
async fn case_098_the_layer_installs_it_for_all_clones() {
    let layer = BudgetLayer::new(Budget::new(0.0, 10).unwrap());
    let retry = retry(Duration::ZERO).max_attempts(100).build().unwrap();
    let inner = Inner::new([Step::Err("503")]);
    let service = layer.layer(retry.layer(inner.clone()));
    let clones = vec![service; 10];
    for call in 0..100 {
        clones[call % 10].clone().oneshot(1).await.unwrap_err();
    }
    assert_eq!(inner.calls(), 110);
}

#[test]
fn case_100_the_balance_stays_between_zero_and_the_cap() {
    let budget = Budget::new(1.0, 100).unwrap();
    for _ in 0..1_000_000 {
        budget.deposit();
    }
    assert_eq!(take_all(&budget), 100);
    for _ in 0..50 {
        assert!(!take(&budget));
    }
    budget.deposit();
    assert_eq!(take_all(&budget), 1, "a refusal is no debt");
    assert_eq!(budget.refused(), 52);
}

#[tokio::test(start_paused = true)]
async fn case_101_retries_that_sleep_have_taken_their_tokens() {
    let inner = Inner::new([Step::Err("503")]);
    let budget = Budget::new(0.0, 200).unwrap();
    let retry = retry(SECOND).max_attempts(2).build().unwrap();
    let service = BudgetLayer::new(budget.clone()).layer(retry.layer(inner.clone()));
    let calls: Vec<_> = (0..1000)
        .map(|_| tokio::spawn(service.clone().oneshot(1)))
        .collect();
    sleep(SECOND / 2).await;
    let returned = calls.iter().filter(|call| call.is_finished()).count();
    assert_eq!((returned, inner.calls()), (800, 1000));
    assert_balance(&budget, 0.0);
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    assert_eq!(inner.calls(), 1200);
}

#[tokio::test(start_paused = true)]
async fn case_102_the_balance_is_true_when_it_is_read() {
    let budget = Budget::new(0.2, 10).unwrap();
    take_all(&budget);
    for _ in 0..50 {
        budget.deposit();
    }
    assert_balance(&budget, 10.0);
    assert!(budget.is_full());

    let budget = Budget::builder()
        .ratio(0.0)
        .burst(10)
        .trickle(2.0)
        .build()
        .unwrap();
    take_all(&budget);
    advance(Duration::from_millis(1500)).await;
    assert_balance(&budget, 3.0);
    advance(10 * SECOND).await;
    assert!(budget.is_full(), "without a call");
}

#[tokio::test(start_paused = true)]
async fn case_103_a_cold_process_may_retry_and_first_attempts_are_free() {
    let calls = async |budget: BudgetLayer, steps: Vec<Step<u32, &'static str>>| {
        let inner = Inner::new(steps);
        let service = budget.layer(retry(SECOND).build().unwrap().layer(inner.clone()));
        let _ = service.oneshot(1).await;
        inner.calls()
    };
    let failing = || vec![Step::Err("503"), Step::Ok(200)];
    assert_eq!(calls(BudgetLayer::default(), failing()).await, 2);
    let none = || BudgetLayer::new(empty(0.0, 0));
    assert_eq!(calls(none(), failing()).await, 1);
    assert_eq!(calls(none(), vec![Step::Ok(200)]).await, 1);
    let earns = empty(0.5, 5);
    assert_eq!(
        calls(BudgetLayer::new(earns.clone()), vec![Step::Ok(200)]).await,
        1
    );
    assert_balance(&earns, 0.5);
}

#[test]
fn a_burst_of_nothing_is_asked_for_by_name() {
    assert_eq!(Budget::new(0.1, 0).unwrap_err().setting(), "burst");
    assert_eq!(take_all(&empty(0.1, 0)), 0);
}

#[test]
fn numbers_that_cannot_work_are_errors_that_name_them() {
    for (ratio, text) in [
        (f64::NAN, "ratio: NaN is not between 0 and 1000"),
        (-0.1, "ratio: -0.1 is not between 0 and 1000"),
        (f64::INFINITY, "ratio: inf is not between 0 and 1000"),
        (
            0.0001,
            "ratio: 0.0001 is less than a thousandth, and would count as nothing",
        ),
    ] {
        assert_eq!(Budget::new(ratio, 10).unwrap_err().to_string(), text);
    }
    let error = Budget::builder().trickle(-1.0).build().unwrap_err();
    assert_eq!(error.setting(), "trickle");
    let error = Budget::builder().unknown_costs(0.0).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown_costs: 0 would not bound retries"
    );
    let error = Budget::builder()
        .burst(2)
        .refused_costs(3.0)
        .build()
        .unwrap_err();
    assert_eq!(error.to_string(), "burst: 2 is below a cost of 3");
}

#[tokio::test(start_paused = true)]
async fn a_trickle_carries_fractions_and_stops_at_the_cap() {
    let budget = Budget::builder()
        .ratio(0.0)
        .burst(2)
        .trickle(0.3)
        .build()
        .unwrap();
    assert_eq!(take_all(&budget), 2);
    let mut taken = 0;
    // Asked every 10 ms, which is three thousandths of a token each time.
    for _ in 0..10_000 {
        advance(Duration::from_millis(10)).await;
        taken += take_all(&budget);
    }
    assert_eq!(taken, 30, "a hundred seconds of 0.3 a second");
    advance(3600 * SECOND).await;
    assert_eq!(take_all(&budget), 2);
}

#[tokio::test(start_paused = true)]
async fn a_retry_costs_what_its_failure_says() {
    let budget = Budget::builder()
        .burst(10)
        .unknown_costs(2.0)
        .refused_costs(1.0)
        .throttled_costs(0.5)
        .build()
        .unwrap();
    for (verdict, left) in [
        (Verdict::UNKNOWN, 8.0),
        (Verdict::REFUSED, 7.0),
        (Verdict::THROTTLED, 6.5),
    ] {
        budget.try_withdraw(verdict).unwrap().spend();
        assert_balance(&budget, left);
    }
    drop(budget.try_withdraw(Verdict::UNKNOWN).unwrap());
    assert_balance(&budget, 6.5);
}

#[tokio::test(start_paused = true)]
async fn one_that_only_observes_refuses_nothing_and_counts() {
    let budget = Budget::builder()
        .ratio(0.0)
        .burst(1)
        .observe_only()
        .build()
        .unwrap();
    let inner = Inner::new([Step::Err("503")]);
    let service = BudgetLayer::new(budget.clone())
        .layer(retry(Duration::ZERO).build().unwrap().layer(inner.clone()));
    service.oneshot(1).await.unwrap_err();
    assert_eq!((inner.calls(), budget.refused()), (4, 2));
    assert_balance(&budget, 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_success_deposits_once_whatever_it_took_and_by_whom() {
    let budget = Budget::new(0.5, 10).unwrap();
    let service = |inner: Inner| {
        let nested = retry(SECOND).build().unwrap().layer(inner);
        BudgetLayer::new(budget.clone()).layer(retry(SECOND).build().unwrap().layer(nested))
    };
    take_all(&budget);
    service(Inner::new([Step::Ok(1)])).oneshot(1).await.unwrap();
    assert_balance(&budget, 0.5);
    budget.deposit();
    let retried = Inner::new([Step::Err("a"), Step::Ok(1)]);
    service(retried).oneshot(1).await.unwrap();
    assert_balance(&budget, 0.5);
}

#[tokio::test(start_paused = true)]
async fn without_a_retry_below_nothing_moves() {
    let budget = empty(0.5, 10);
    let service = BudgetLayer::new(budget.clone()).layer(Inner::new([Step::Ok(1)]));
    service.oneshot(1).await.unwrap();
    assert_balance(&budget, 0.0);
}

#[tokio::test(start_paused = true)]
async fn an_inner_stack_cannot_spend_its_callers_tokens() {
    let budget = Budget::new(0.0, 10).unwrap();
    let inner = Inner::new([Step::Err("503")]);
    let innermost = retry(Duration::ZERO)
        .nested(true)
        .build()
        .unwrap()
        .layer(inner.clone());
    // A tool that has a client with retries of its own.
    let tool = tower::service_fn(move |number: u32| innermost.clone().oneshot(number));
    let service = BudgetLayer::new(budget.clone()).layer(
        retry(Duration::ZERO)
            .max_attempts(2)
            .build()
            .unwrap()
            .layer(tool),
    );
    service.oneshot(1).await.unwrap_err();
    assert_eq!(inner.calls(), 8);
    assert_balance(&budget, 9.0);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_not_carried_along_means_no_retry() {
    let inner = Inner::new([Step::Err("503")]);
    let retry = retry(SECOND).build().unwrap().layer(inner.clone());
    let budget = BudgetLayer::new(Budget::new(0.0, 10).unwrap());
    // The call is made inside of the scope, and its future is polled in a task of its own.
    let service = budget.layer(tower::service_fn(move |number: u32| {
        let call = CallReport::of(retry.clone().oneshot(number));
        async move { Ok::<_, ()>(tokio::spawn(call)) }
    }));
    let (_, report) = service.oneshot(1).await.unwrap().await.unwrap();
    assert_eq!(
        report.unwrap().attempts(),
        4,
        "called in the task: no budget was promised"
    );

    let inner = Inner::new([Step::Err("503")]);
    let retry = RetryLayer::new(Effect::Read).layer(inner.clone());
    let service = budget.layer(tower::service_fn(move |number: u32| {
        let mut retry = retry.clone();
        async move {
            let call = tower::Service::call(retry.ready().await.unwrap(), number);
            Ok::<_, ()>(tokio::spawn(CallReport::of(call)))
        }
    }));
    let (_, report) = service.oneshot(1).await.unwrap().await.unwrap();
    assert_eq!(
        report.unwrap().stop_reason(),
        Some(StopReason::BudgetExhausted)
    );
    assert_eq!(inner.calls(), 1);
}

#[test]
fn threads_never_take_more_than_there_was() {
    let budget = Budget::new(0.001, 1000).unwrap();
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut taken = 0;
                    for _ in 0..1000 {
                        taken += usize::from(take(&budget));
                        budget.deposit();
                        drop(budget.try_withdraw(Verdict::REFUSED));
                    }
                    taken
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert!(
        taken <= 1000 + 8,
        "{taken}: a burst of 1000 and 8000 deposits of a thousandth"
    );
    assert!(taken >= 1000, "{taken}");
}

#[test]
fn a_budget_says_what_it_was_told() {
    let budget = Budget::builder()
        .name("payments")
        .ratio(0.25)
        .burst(7)
        .trickle(0.5)
        .build()
        .unwrap();
    assert_eq!(
        format!("{budget:?}"),
        r#"Budget { name: "payments", ratio: 0.25, burst: 7.0, trickle: 0.5, balance: 7.0, .. }"#
    );
}
