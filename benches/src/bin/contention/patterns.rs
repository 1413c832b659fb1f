//! The cases: what one or two threads do to one shared budget or breaker.

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use composure_benches::{Bare, call, peers, seatbelt_peers};
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::{Layer, Service};
use tower_composure::circuit_breaker::CircuitBreakerBuilder;
use tower_composure::{Budget, CircuitBreaker, CircuitBreakerLayer, Effect, Verdict};
use tower_resilience_retry::{RetryBudget, RetryBudgetBuilder};

/// Does so many operations on the shared object.
pub type Worker = Box<dyn FnMut(u64) + Send>;

/// One row of the table.
pub struct Case {
    pub pattern: &'static str,
    pub name: &'static str,
    /// Makes a worker on the object that all workers of the case share.
    pub worker: Box<dyn Fn() -> Worker>,
}

/// One operation is one deposit.
pub const DEPOSIT: &str = "deposit into a full bucket";
/// One operation is a withdrawal that succeeds and a deposit that makes up for it.
pub const BOTH: &str = "withdraw, spend and deposit";
/// One operation is one call of a service that answers at once.
pub const BREAKER: &str = "breaker call";

pub const OURS: &str = "tower-composure";
pub const OURS_COUNT: &str = "tower-composure, count window";
pub const OURS_ROW: &str = "tower-composure, failures in a row";
pub const TOWER: &str = "tower TpsBudget";
pub const RECLOSER: &str = "recloser";
pub const FAILSAFE: &str = "failsafe, default policy";
pub const FAILSAFE_ROW: &str = "failsafe, failures in a row";

fn case<T, F>(pattern: &'static str, name: &'static str, shared: T, operation: F) -> Case
where
    T: Clone + Send + 'static,
    F: Fn(&mut T, u64) + Copy + Send + 'static,
{
    Case {
        pattern,
        name,
        worker: Box::new(move || {
            let mut own = Apart(shared.clone());
            Box::new(move |operations| {
                let Apart(own) = &mut own;
                for number in 0..operations {
                    operation(black_box(own), number);
                }
            })
        }),
    }
}

/// What a thread has for itself, on lines of its own: two threads' clones beside each other would contend for a line
/// that they do not share.
#[repr(align(128))]
struct Apart<T>(T);

/// All of them. Made in a runtime.
pub fn cases() -> Vec<Case> {
    let mut cases = deposits();
    cases.extend(withdrawals());
    cases.extend(breakers());
    cases
}

const CAP: u64 = 20_000;

fn bucket(tokens: u64) -> Arc<Mutex<u64>> {
    Arc::new(Mutex::new(tokens))
}

fn put(bucket: &Mutex<u64>, amount: u64) {
    let mut balance = bucket.lock().expect("nothing panics in it");
    *balance = (*balance + amount).min(CAP);
}

fn take(bucket: &Mutex<u64>, amount: u64) -> bool {
    let mut balance = bucket.lock().expect("nothing panics in it");
    let left = balance.checked_sub(amount);
    *balance = left.unwrap_or(*balance);
    left.is_some()
}

fn resilience_bucket(tokens_a_second: f64) -> Arc<dyn RetryBudget> {
    RetryBudgetBuilder::new()
        .token_bucket()
        .tokens_per_second(tokens_a_second)
        .build()
        .expect("settings that work")
}

fn ours(ratio: f64) -> Budget {
    Budget::new(ratio, 20).expect("settings that work")
}

fn tower(ratio: f32) -> Arc<TpsBudget> {
    Arc::new(TpsBudget::new(Duration::from_secs(10), 10, ratio))
}

fn deposits() -> Vec<Case> {
    vec![
        case(DEPOSIT, OURS, ours(0.1), |budget, _| budget.deposit()),
        case(DEPOSIT, TOWER, tower(0.1), |budget, _| budget.deposit()),
        case(
            DEPOSIT,
            "tower-resilience token bucket",
            resilience_bucket(0.0),
            |budget, _| budget.deposit(),
        ),
        case(
            DEPOSIT,
            "tower-resilience token bucket, 10/s",
            resilience_bucket(10.0),
            |budget, _| budget.deposit(),
        ),
        case(DEPOSIT, "std Mutex", bucket(CAP), |bucket, _| {
            put(bucket, 100);
        }),
    ]
}

/// A ratio of one, so that each withdrawal finds a token and each deposit finds room.
fn withdrawals() -> Vec<Case> {
    vec![
        case(BOTH, OURS, ours(1.0), |budget, _| {
            let token = budget.try_withdraw(Verdict::UNKNOWN);
            token.expect("there is a token").spend();
            budget.deposit();
        }),
        case(BOTH, TOWER, tower(1.0), |budget, _| {
            assert!(budget.withdraw(), "there is a token");
            budget.deposit();
        }),
        case(
            BOTH,
            "tower-resilience token bucket",
            resilience_bucket(0.0),
            withdraw_and_deposit,
        ),
        case(
            BOTH,
            "tower-resilience token bucket, 10/s",
            resilience_bucket(10.0),
            withdraw_and_deposit,
        ),
        case(BOTH, "std Mutex", bucket(CAP), |bucket, _| {
            assert!(take(bucket, 1000), "there is a token");
            put(bucket, 1000);
        }),
    ]
}

fn withdraw_and_deposit(budget: &mut Arc<dyn RetryBudget>, _: u64) {
    assert!(budget.try_withdraw(), "there is a token");
    budget.deposit();
}

fn breaker<S>(name: &'static str, service: S) -> Case
where
    S: Service<u64> + Clone + Send + 'static,
{
    case(BREAKER, name, service, |service, number| {
        call(service, number);
    })
}

/// Ours, by a policy that takes every response for a success.
fn ours_by(told: CircuitBreakerBuilder) -> impl Service<u64> + Clone + Send + 'static {
    let breaker = told.build().expect("settings that work");
    CircuitBreakerLayer::new(breaker, Effect::Read).layer(Bare)
}

fn breakers() -> Vec<Case> {
    let told = CircuitBreaker::builder;
    let row = told().no_failure_rate().consecutive_failures(5);
    let time = told().time_window(Duration::from_secs(30));
    vec![
        breaker("bare inner, no breaker", Bare),
        breaker(OURS_COUNT, ours_by(told())),
        breaker(OURS_ROW, ours_by(row)),
        breaker("tower-composure, time window of 30 s", ours_by(time)),
        breaker(RECLOSER, peers::recloser()),
        breaker(FAILSAFE, peers::failsafe_default()),
        breaker(FAILSAFE_ROW, peers::failsafe_consecutive()),
        breaker("tower-resilience", peers::resilience_breaker()),
        breaker("seatbelt", seatbelt_peers::breaker(Bare)),
    ]
}
