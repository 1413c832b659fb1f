//! The preset: the layers together, and that their order matters.
#![cfg(not(loom))]

#[path = "support/says.rs"]
mod says;
mod support;

use std::time::Duration;

use says::{
    Dependency, Failed, Says, always, assert_balance, breaker_open, budget, eager, recorded, step,
    touchy,
};
use support::{Script, Step};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, Budget, CallReport, CircuitBreaker, CircuitState, Count, Effect, RetryLayer, Stack,
    StopReason, Verdict,
};

const MS: Duration = Duration::from_millis(1);

const VERDICTS: [Verdict; 6] = [
    Verdict::Success,
    Verdict::THROTTLED,
    Verdict::REFUSED,
    Verdict::UNKNOWN,
    Verdict::Fault,
    Verdict::Rejected,
];
const EFFECTS: [Effect; 3] = [Effect::Read, Effect::IdempotentWrite, Effect::Write];

/// What three layers make of a dependency that always answers the same: calls, balance, counts, stop reason.
type Row = (usize, f64, (u32, u32), Option<StopReason>);

fn row(verdict: Verdict, effect: Effect) -> Row {
    let attempts = Some(StopReason::Attempts);
    match (verdict, effect) {
        (Verdict::Success, _) => (1, 19.1, (1, 0), None),
        (Verdict::Throttled { .. }, _) => (2, 18.0, (0, 0), attempts),
        (Verdict::Unknown { .. }, Effect::Write) => {
            (1, 19.0, (1, 1), Some(StopReason::OutcomeUnknown))
        }
        (Verdict::Refused { .. } | Verdict::Unknown { .. }, _) => (2, 18.0, (1, 1), attempts),
        (Verdict::Fault, _) => (1, 19.0, (1, 1), None),
        (Verdict::Rejected, _) => (1, 19.0, (0, 0), None),
    }
}

#[tokio::test(start_paused = true)]
async fn one_verdict_is_read_alike_by_retry_budget_and_breaker() {
    for effect in EFFECTS {
        for verdict in VERDICTS {
            for as_error in [false, true] {
                let (budget, breaker) = (budget(), CircuitBreaker::default());
                let script: Dependency = Script::new([step(verdict, as_error)]);
                let service = eager(effect)
                    .budget(budget.clone())
                    .breaker(breaker.clone())
                    .build()
                    .unwrap()
                    .layer(script.clone());
                let (outcome, report) = CallReport::of(service.oneshot(1)).await;

                let (calls, balance, counts, stop) = row(verdict, effect);
                let what = format!("{verdict:?} of a {effect:?}, as an error: {as_error}");
                assert_eq!(script.calls(), calls, "{what}");
                assert_balance(&budget, balance);
                assert_eq!(recorded(&breaker), counts, "{what}");
                assert_eq!(report.unwrap().stop_reason(), stop, "{what}");
                match outcome {
                    Ok(answer) => assert_eq!((answer, as_error), (verdict, false), "{what}"),
                    Err(error) => {
                        assert_eq!(error.downcast_ref(), Some(&Failed(verdict)), "{what}");
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_counts_attempts_reads_the_same_verdicts_once_each() {
    for effect in EFFECTS {
        for verdict in VERDICTS {
            let breaker = CircuitBreaker::builder()
                .count(Count::Attempts)
                .build()
                .unwrap();
            let service = eager(effect)
                .breaker(breaker.clone())
                .build()
                .unwrap()
                .layer(always(verdict));
            service.oneshot(1).await.unwrap();

            let (calls, _, (counted, failed), _) = row(verdict, effect);
            let calls = u32::try_from(calls).unwrap();
            let counts = (counted * calls, failed * calls);
            assert_eq!(recorded(&breaker), counts, "{verdict:?} of a {effect:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_succeeds_costs_a_token_earns_a_tenth_and_is_one_success() {
    for verdict in [Verdict::THROTTLED, Verdict::REFUSED, Verdict::UNKNOWN] {
        let (budget, breaker) = (budget(), CircuitBreaker::default());
        let script: Dependency = Script::new([Step::Ok(verdict), Step::Ok(Verdict::Success)]);
        let service = eager(Effect::Read)
            .budget(budget.clone())
            .breaker(breaker.clone())
            .build()
            .unwrap()
            .layer(script.clone());
        assert_eq!(service.oneshot(1).await.unwrap(), Verdict::Success);
        assert_eq!(script.calls(), 2);
        assert_balance(&budget, 18.1);
        assert_eq!(recorded(&breaker), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_makes_one_attempt_and_its_verdict_decides() {
    for verdict in VERDICTS {
        for as_error in [false, true] {
            let (budget, breaker) = (budget(), touchy());
            let script = Script::new([Step::Ok(Verdict::Fault), step(verdict, as_error)]);
            let mut service = eager(Effect::Read)
                .budget(budget.clone())
                .breaker(breaker.clone())
                .build()
                .unwrap()
                .layer(script.clone());
            service.ready().await.unwrap().call(1).await.unwrap();
            assert_eq!(breaker.state(), CircuitState::Open);
            tokio::time::advance(5000 * MS).await;
            assert_eq!(breaker.state(), CircuitState::HalfOpen);

            let probe = async { service.ready().await?.call(2).await };
            let (_, report) = CallReport::of(probe).await;
            let what = format!("{verdict:?}, as an error: {as_error}");
            assert_eq!(script.calls(), 2, "{what}");
            let stop = verdict.is_retryable().then_some(StopReason::Probe);
            assert_eq!(report.unwrap().stop_reason(), stop, "{what}");
            let (state, balance) = match verdict {
                Verdict::Success => (CircuitState::Closed, 19.1),
                Verdict::Rejected if !as_error => (CircuitState::Closed, 19.0),
                Verdict::Throttled { .. } | Verdict::Rejected => (CircuitState::HalfOpen, 19.0),
                _ => (CircuitState::Open, 19.0),
            };
            assert_eq!(breaker.state(), state, "{what}");
            assert_balance(&budget, balance);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_costs_no_attempt_no_wait_and_no_token() {
    let (budget, breaker) = (budget(), touchy());
    let script = always(Verdict::Fault);
    let mut service = Stack::builder(Says(Effect::Read))
        .budget(budget.clone())
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    service.ready().await.unwrap().call(1).await.unwrap();
    tokio::time::advance(1000 * MS).await;

    let refused = async { service.ready().await?.call(2).await };
    let (outcome, report) = CallReport::of(refused).await;
    let error = outcome.unwrap_err();
    // The clock has not moved: 5 s less the second that was spent above.
    assert_eq!(breaker_open(&error).remaining(), 4000 * MS);
    assert_eq!(breaker.metrics().remaining(), 4000 * MS);
    assert_eq!(report, None);
    assert_eq!(script.calls(), 1);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_lent_to_the_retry_and_shared_by_every_service() {
    let budget = Budget::new(0.0, 3).unwrap();
    let stack = eager(Effect::Read)
        .no_breaker()
        .budget(budget.clone())
        .build()
        .unwrap();
    let script = always(Verdict::REFUSED);
    for _ in 0..5 {
        let service = stack.clone().layer(script.clone());
        service.oneshot(1).await.unwrap();
    }
    assert_eq!(script.calls(), 5 + 3);
    assert_balance(&budget, 0.0);
    let last = CallReport::of(stack.layer(script).oneshot(1)).await;
    let stop = last.1.unwrap().stop_reason();
    assert_eq!(stop, Some(StopReason::BudgetExhausted));
}

#[tokio::test(start_paused = true)]
async fn three_nested_layers_of_three_attempts_make_three_calls() {
    let script = always(Verdict::REFUSED);
    let retry = || {
        RetryLayer::builder(Says(Effect::Read))
            .max_attempts(3)
            .backoff(Backoff::none())
            .build()
            .unwrap()
    };
    let service = ServiceBuilder::new()
        .layer(retry())
        .layer(retry())
        .layer(retry())
        .map_err(BoxError::from)
        .service(script.clone());
    service.oneshot(1).await.unwrap();
    assert_eq!(script.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn three_nested_stacks_make_three_calls_and_spend_only_the_owner_s_tokens() {
    let script = always(Verdict::REFUSED);
    let budgets = [budget(), budget(), budget()];
    let breakers = [0; 3].map(|_| CircuitBreaker::default());
    let stack = |level: usize| {
        eager(Effect::Read)
            .max_attempts(3)
            .budget(budgets[level].clone())
            .breaker(breakers[level].clone())
            .build()
            .unwrap()
    };
    let service = ServiceBuilder::new()
        .layer(stack(0))
        .layer(stack(1))
        .layer(stack(2))
        .service(script.clone());
    service.oneshot(1).await.unwrap();
    assert_eq!(script.calls(), 3);
    assert_balance(&budgets[0], 17.0);
    assert_balance(&budgets[1], 19.0);
    assert_balance(&budgets[2], 19.0);
    // Each breaker counts the calls that came through it.
    assert_eq!(recorded(&breakers[0]), (1, 1));
    assert_eq!(recorded(&breakers[1]), (3, 3));
    assert_eq!(recorded(&breakers[2]), (3, 3));
}
