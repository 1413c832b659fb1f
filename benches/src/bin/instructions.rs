//! Makes `COUNT` calls of the service that `CASE` names, for callgrind to count. Without arguments, lists the cases and
//! the most that each of ours may cost.

use std::sync::Arc;
use std::time::Duration;

use composure_benches::peers::{self, TowerPolicy};
use composure_benches::{Bare, call};
use tower::retry::budget::TpsBudget;
use tower::{Layer, Service, ServiceBuilder};
use tower_composure::{
    BudgetLayer, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer, Effect, RetryLayer, Stack,
};

const CASES: [(&str, &str); 14] = [
    ("bare", ""),
    ("retry", "170"),
    ("budget_retry", "220"),
    ("deadline", "110"),
    ("circuit_breaker", "150"),
    ("stack", "569"),
    ("tower_retry", ""),
    ("tower_retry_budget", ""),
    ("tower_timeout", ""),
    ("recloser", ""),
    ("failsafe", ""),
    ("failsafe_consecutive", ""),
    ("resilience_retry", ""),
    ("resilience_breaker", ""),
];

#[inline(never)]
fn run(mut service: impl Service<u64>, count: u64) {
    for number in 0..count {
        call(&mut service, number);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (Some(case), Some(count)) = (arguments.get(1), arguments.get(2)) else {
        for (case, most) in CASES {
            println!("{case} {most}");
        }
        return;
    };
    let count: u64 = count.parse().expect("a number of calls");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let second = Duration::from_secs(1);
    let retry = || RetryLayer::new(Effect::Read).layer(Bare);
    let tower = |policy| ServiceBuilder::new().retry(policy).service(Bare);
    match case.as_str() {
        "bare" => run(Bare, count),
        "retry" => run(retry(), count),
        "budget_retry" => run(BudgetLayer::default().layer(retry()), count),
        "deadline" => run(DeadlineLayer::call(second).layer(Bare), count),
        "circuit_breaker" => {
            let layer = CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Read);
            run(layer.layer(Bare), count);
        }
        "stack" => {
            let stack = Stack::builder(Effect::Read).build();
            run(stack.expect("settings that work").layer(Bare), count);
        }
        "tower_retry" => run(tower(TowerPolicy(None)), count),
        "tower_retry_budget" => {
            let budget = Arc::new(TpsBudget::default());
            run(tower(TowerPolicy(Some(budget))), count);
        }
        "tower_timeout" => run(ServiceBuilder::new().timeout(second).service(Bare), count),
        "recloser" => run(peers::recloser(), count),
        "failsafe" => run(peers::failsafe_default(), count),
        "failsafe_consecutive" => run(peers::failsafe_consecutive(), count),
        "resilience_retry" => run(peers::resilience_retry(), count),
        "resilience_breaker" => run(peers::resilience_breaker(), count),
        other => panic!("no case {other}"),
    }
}
