//! The cases: what one or two threads do to one shared budget or breaker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use failsafe::futures::CircuitBreaker as _;
use tower::Layer;
use tower::retry::budget::{Budget as _, TpsBudget};
use tower_composure::budget::Withdrawal;
use tower_composure::circuit_breaker::CircuitBreakerBuilder;
use tower_composure::{Budget, CircuitBreaker, CircuitBreakerLayer, Effect, Verdict};
use tower_resilience_retry::{RetryBudget, RetryBudgetBuilder};

use crate::{Bare, answer, call, drive};

/// Does so many operations on the shared object.
pub type Worker = Box<dyn FnMut(u64) + Send>;

/// One row of the table.
pub struct Case {
    pub pattern: &'static str,
    pub name: &'static str,
    /// Makes a worker on the object that all workers of the case share.
    pub worker: Box<dyn Fn() -> Worker>,
}

pub const DEPOSIT: &str = "deposit into a full bucket";
pub const BOTH: &str = "deposit and withdraw";
pub const BREAKER: &str = "breaker call";

fn case<T, F>(pattern: &'static str, name: &'static str, shared: T, operation: F) -> Case
where
    T: Clone + Send + 'static,
    F: Fn(&mut T, u64) + Copy + Send + 'static,
{
    Case {
        pattern,
        name,
        worker: Box::new(move || {
            let mut shared = shared.clone();
            Box::new(move |operations| {
                for number in 0..operations {
                    operation(&mut shared, number);
                }
            })
        }),
    }
}

/// All of them.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = budgets();
    cases.extend(breakers());
    cases
}

fn budgets() -> Vec<Case> {
    let ours = || Budget::new(0.1, 20).expect("settings that work");
    let tower = || Arc::new(TpsBudget::new(Duration::from_secs(10), 10, 0.2));
    let resilience = || -> Arc<dyn RetryBudget> {
        let bucket = RetryBudgetBuilder::new().token_bucket();
        bucket.build().expect("settings that work")
    };
    let mutex = || Arc::new(Mutex::new(20_000_u64));
    vec![
        case(DEPOSIT, "tower-composure", ours(), |budget, _| {
            budget.deposit()
        }),
        case(DEPOSIT, "tower TpsBudget", tower(), |budget, _| {
            budget.deposit()
        }),
        case(
            DEPOSIT,
            "tower-resilience token bucket",
            resilience(),
            |budget, _| budget.deposit(),
        ),
        case(DEPOSIT, "std Mutex", mutex(), |balance, _| {
            let mut balance = balance.lock().expect("nothing panics in it");
            *balance = (*balance + 100).min(20_000);
        }),
        case(BOTH, "tower-composure", ours(), |budget, _| {
            budget.deposit();
            let _ = budget.try_withdraw(Verdict::UNKNOWN).map(Withdrawal::spend);
        }),
        case(BOTH, "tower TpsBudget", tower(), |budget, _| {
            budget.deposit();
            let _ = std::hint::black_box(budget.withdraw());
        }),
        case(
            BOTH,
            "tower-resilience token bucket",
            resilience(),
            |budget, _| {
                budget.deposit();
                let _ = std::hint::black_box(budget.try_withdraw());
            },
        ),
        case(BOTH, "std Mutex", mutex(), |balance, _| {
            let mut balance = balance.lock().expect("nothing panics in it");
            *balance = (*balance + 100).min(20_000);
            drop(balance);
        }),
    ]
}

/// Ours behind a policy that takes every response for a success.
fn ours(told: CircuitBreakerBuilder) -> impl tower::Service<u64, Response = u64> + Clone + Send {
    let breaker = told.build().expect("settings that work");
    CircuitBreakerLayer::new(breaker, Effect::Read).layer(Bare)
}

fn breakers() -> Vec<Case> {
    let built = CircuitBreaker::builder;
    let streak = built().no_failure_rate().consecutive_failures(5);
    let resilience = tower_resilience_circuitbreaker::CircuitBreakerLayer::builder()
        .sliding_window_size(100)
        .build()
        .expect("settings that work");
    let backoff = || failsafe::backoff::constant(Duration::from_secs(30));
    let failsafe_streak = failsafe::failure_policy::consecutive_failures(5, backoff());
    let recloser =
        recloser::AsyncRecloser::from(recloser::Recloser::custom().closed_len(100).build());
    vec![
        case(
            BREAKER,
            "bare inner, no breaker",
            Bare,
            |service, number| call(service, number),
        ),
        case(
            BREAKER,
            "tower-composure, count window",
            ours(built()),
            |service, number| {
                call(service, number);
            },
        ),
        case(
            BREAKER,
            "tower-composure, failures in a row",
            ours(streak),
            |service, number| {
                call(service, number);
            },
        ),
        case(
            BREAKER,
            "tower-composure, time window",
            ours(built().time_window(Duration::from_secs(30))),
            |service, number| call(service, number),
        ),
        case(BREAKER, "recloser", recloser, |breaker, number| {
            drive(breaker.call(answer(number)))
        }),
        case(
            BREAKER,
            "failsafe, default policy",
            failsafe::Config::new().build(),
            |breaker, number| drive(breaker.call(answer(number))),
        ),
        case(
            BREAKER,
            "failsafe, failures in a row",
            failsafe::Config::new()
                .failure_policy(failsafe_streak)
                .build(),
            |breaker, number| drive(breaker.call(answer(number))),
        ),
        case(
            BREAKER,
            "tower-resilience",
            tower::Layer::layer(&resilience, Bare),
            |service, number| call(service, number),
        ),
        seatbelt(),
    ]
}

fn seatbelt() -> Case {
    Case {
        pattern: BREAKER,
        name: "seatbelt",
        worker: {
            let clock = tick::Clock::new_tokio();
            let context = seatbelt::ResilienceContext::new(&clock);
            let layer = seatbelt::breaker::Breaker::layer("breaker", &context)
                .recovery_with(|outcome: &Result<u64, crate::Never>, _| match outcome {
                    Ok(_) => seatbelt::RecoveryInfo::never(),
                    Err(_) => seatbelt::RecoveryInfo::retry(),
                })
                .rejected_input_error(|_: u64, _| crate::Never);
            let service = Mutex::new(layer.layer(Bare));
            Box::new(move || {
                let mut service = service.lock().expect("nothing panics in it").clone();
                Box::new(move |operations| {
                    for number in 0..operations {
                        call(&mut service, number);
                    }
                })
            })
        },
    }
}
