//! The services whose calls are counted and timed, by name.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tower::retry::budget::TpsBudget;
use tower::{Layer, Service, ServiceBuilder};
use tower_composure::{
    Backoff, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer, Effect,
    HttpPolicy, IdempotencyKeyLayer, RetryLayer, Stack,
};

use crate::peers::{self, TowerPolicy};
use crate::{Bare, Cloning, FailsFirst, http_request, seatbelt_peers};

/// What is done with the service of a case.
pub trait Run {
    /// Calls the service, with as many requests as it takes.
    fn run<R, S: Service<R>>(&mut self, service: S, request: impl Fn(u64) -> R);
}

/// A group of cases: they differ by their services alone, and the first one is bare.
pub struct Group {
    /// What a call of this group is.
    pub title: &'static str,
    /// The cases, and the most instructions that each of ours may cost.
    pub cases: &'static [(&'static str, Option<u64>)],
}

/// All cases.
pub const GROUPS: [Group; 3] = [
    Group {
        title: "A call that succeeds at once, request u64",
        cases: &[
            ("bare", None),
            ("retry", Some(170)),
            ("budget_retry", Some(220)),
            ("deadline", Some(110)),
            ("circuit_breaker", Some(150)),
            ("stack", Some(569)),
            ("tower_retry", None),
            ("tower_retry_budget", None),
            ("tower_timeout", None),
            ("tower_stack", None),
            ("recloser", None),
            ("failsafe", None),
            ("failsafe_consecutive", None),
            ("resilience_retry", None),
            ("resilience_breaker", None),
            ("resilience_stack", None),
            ("seatbelt_breaker", None),
            ("seatbelt_stack", None),
        ],
    },
    Group {
        title: "A call that succeeds at once, http::Request with 6 headers",
        cases: &[
            ("http_bare", None),
            ("http_clone", None),
            ("http_stack", None),
            ("http_stack_key", None),
            ("http_tower_stack", None),
            ("http_resilience_stack", None),
        ],
    },
    Group {
        title: "One failure, then success, without a wait, request u64",
        cases: &[
            ("again_bare", None),
            ("again_retry", None),
            ("again_stack", None),
            ("again_tower_retry", None),
            ("again_tower_retry_budget", None),
            ("again_tower_stack", None),
            ("again_seatbelt_retry", None),
            ("again_seatbelt_stack", None),
        ],
    },
];

/// The cases that are timed, in the order of their table.
pub const TIMED: [&str; 20] = [
    "bare",
    "stack",
    "tower_stack",
    "resilience_stack",
    "seatbelt_stack",
    "budget_retry",
    "tower_retry_budget",
    "circuit_breaker",
    "recloser",
    "resilience_breaker",
    "seatbelt_breaker",
    "http_clone",
    "http_stack",
    "http_tower_stack",
    "http_resilience_stack",
    "again_retry",
    "again_tower_retry_budget",
    "again_stack",
    "again_tower_stack",
    "again_seatbelt_stack",
];

/// Runs a case. In a runtime with timers.
///
/// # Panics
///
/// Where there is no case of this name.
pub fn run(name: &str, run: &mut impl Run) {
    if name.starts_with("http_") {
        http(name, run);
    } else if name.starts_with("again_") {
        again(name, run);
    } else {
        plain(name, run);
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn plain(name: &str, run: &mut impl Run) {
    let retry = || RetryLayer::new(Effect::Read).layer(Bare);
    let tower = |policy| ServiceBuilder::new().retry(policy).service(Bare);
    let number = |number| -> u64 { number };
    match name {
        "bare" => run.run(Bare, number),
        "retry" => run.run(retry(), number),
        "budget_retry" => run.run(BudgetLayer::default().layer(retry()), number),
        "deadline" => run.run(DeadlineLayer::call(SECOND).layer(Bare), number),
        "circuit_breaker" => {
            let layer = CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read);
            run.run(layer.layer(Bare), number);
        }
        "stack" => {
            let stack = Stack::builder(Effect::Read).build();
            run.run(stack.expect("settings that work").layer(Bare), number);
        }
        "tower_retry" => run.run(tower(TowerPolicy(None)), number),
        "tower_retry_budget" => {
            let budget = Arc::new(TpsBudget::default());
            run.run(tower(TowerPolicy(Some(budget))), number);
        }
        "tower_timeout" => run.run(ServiceBuilder::new().timeout(SECOND).service(Bare), number),
        "tower_stack" => run.run(peers::tower_stack(Bare), number),
        "recloser" => run.run(peers::recloser(), number),
        "failsafe" => run.run(peers::failsafe_default(), number),
        "failsafe_consecutive" => run.run(peers::failsafe_consecutive(), number),
        "resilience_retry" => run.run(peers::resilience_retry(), number),
        "resilience_breaker" => run.run(peers::resilience_breaker(), number),
        "resilience_stack" => run.run(peers::resilience_stack(Bare), number),
        "seatbelt_breaker" => run.run(seatbelt_peers::breaker(Bare), number),
        "seatbelt_stack" => run.run(seatbelt_peers::stack(Bare), number),
        other => panic!("no case {other}"),
    }
}

/// Each call, the bare one included, first clones a request that lives on.
fn http(name: &str, run: &mut impl Run) {
    let get = http_request(Method::GET);
    let post = http_request(Method::POST);
    let reads = move |_| get.clone();
    let stack = || {
        let stack = Stack::builder(HttpPolicy::new()).idempotency_key(IdempotencyKeyLayer::new());
        stack.build().expect("settings that work")
    };
    match name {
        "http_bare" => run.run(Bare, reads),
        "http_clone" => run.run(Cloning, reads),
        "http_stack" => run.run(stack().layer(Bare), reads),
        "http_stack_key" => run.run(stack().layer(Bare), move |_| post.clone()),
        "http_tower_stack" => run.run(peers::tower_stack(Bare), reads),
        "http_resilience_stack" => run.run(peers::resilience_stack(Bare), reads),
        other => panic!("no case {other}"),
    }
}

/// A deposit makes up for each withdrawal, so no budget runs out.
fn again(name: &str, run: &mut impl Run) {
    let number = |number| -> u64 { number };
    let inner = FailsFirst::new();
    let budget = || Budget::new(1.0, 20).expect("settings that work");
    let tower = |policy| ServiceBuilder::new().retry(policy).service(inner);
    match name {
        "again_bare" => run.run(peers::Twice(inner), number),
        "again_retry" => {
            let retry = RetryLayer::builder(Effect::Read).backoff(Backoff::none());
            let retry = retry.build().expect("settings that work");
            let layers = BudgetLayer::new(budget()).layer(retry.layer(inner));
            run.run(layers, number);
        }
        "again_stack" => {
            let stack = Stack::builder(Effect::Read).backoff(Backoff::none());
            let stack = stack.budget(budget()).build().expect("settings that work");
            run.run(stack.layer(inner), number);
        }
        "again_tower_retry" => run.run(tower(TowerPolicy(None)), number),
        "again_tower_retry_budget" => run.run(tower(peers::tower_budget()), number),
        "again_tower_stack" => run.run(peers::tower_stack_around(inner), number),
        "again_seatbelt_retry" => run.run(seatbelt_peers::retry_at_once(inner), number),
        "again_seatbelt_stack" => run.run(seatbelt_peers::stack_around(inner), number),
        other => panic!("no case {other}"),
    }
}
