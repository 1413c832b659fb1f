//! Makes `COUNT` calls of the service that `CASE` names, for callgrind to count; without arguments, lists the cases.

use std::time::Duration;

use composure_benches::{Bare, Never, answer, call, drive};
use tower::retry::Policy;
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::{Layer, ServiceBuilder};
use tower_composure::{
    BudgetLayer, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer, Effect, RetryLayer, Stack,
};

const CASES: [&str; 13] = [
    "bare",
    "retry",
    "budget_retry",
    "deadline",
    "circuit_breaker",
    "stack",
    "tower_retry",
    "tower_budget_retry",
    "tower_timeout",
    "recloser",
    "failsafe",
    "resilience_retry",
    "resilience_breaker",
];

/// Retries nothing, as small as a policy can be.
#[derive(Clone)]
struct Minimal(Option<std::sync::Arc<TpsBudget>>);

impl Policy<u64, u64, Never> for Minimal {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut u64, outcome: &mut Result<u64, Never>) -> Option<Self::Future> {
        if let (Some(budget), Ok(_)) = (&self.0, outcome) {
            budget.deposit();
        }
        None
    }

    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}

#[inline(never)]
fn run<S: tower::Service<u64>>(mut service: S, count: u64) {
    for number in 0..count {
        call(&mut service, number);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (Some(case), Some(count)) = (arguments.get(1), arguments.get(2)) else {
        println!("{}", CASES.join("\n"));
        return;
    };
    let count: u64 = count.parse().expect("a number of calls");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let second = Duration::from_secs(1);
    match case.as_str() {
        "bare" => run(Bare, count),
        "retry" => run(RetryLayer::new(Effect::Read).layer(Bare), count),
        "budget_retry" => run(
            BudgetLayer::default().layer(RetryLayer::new(Effect::Read).layer(Bare)),
            count,
        ),
        "deadline" => run(DeadlineLayer::call(second).layer(Bare), count),
        "circuit_breaker" => run(
            CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read).layer(Bare),
            count,
        ),
        "stack" => {
            let stack = Stack::builder(Effect::Read)
                .build()
                .expect("settings that work");
            run(stack.layer(Bare), count);
        }
        "tower_retry" => run(
            ServiceBuilder::new().retry(Minimal(None)).service(Bare),
            count,
        ),
        "tower_budget_retry" => {
            let budget = std::sync::Arc::new(TpsBudget::default());
            run(
                ServiceBuilder::new()
                    .retry(Minimal(Some(budget)))
                    .service(Bare),
                count,
            );
        }
        "tower_timeout" => run(ServiceBuilder::new().timeout(second).service(Bare), count),
        "recloser" => {
            let breaker = recloser::AsyncRecloser::from(recloser::Recloser::custom().build());
            (0..count).for_each(|number| drive(breaker.call(answer(number))));
        }
        "failsafe" => {
            use failsafe::futures::CircuitBreaker as _;
            let breaker = failsafe::Config::new().build();
            (0..count).for_each(|number| drive(breaker.call(answer(number))));
        }
        "resilience_retry" => {
            let layer = tower_resilience_retry::RetryLayer::<u64, u64, Never>::builder().build();
            run(layer.layer(Bare), count);
        }
        "resilience_breaker" => {
            let layer = tower_resilience_circuitbreaker::CircuitBreakerLayer::builder()
                .build()
                .expect("settings that work");
            run(tower::Layer::layer(&layer, Bare), count);
        }
        other => panic!("no case {other}"),
    }
}
