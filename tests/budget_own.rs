//! A budget that a retry layer has of its own.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::time::Duration;

use support::{Script, Step};
use tower::{Layer, ServiceExt};
use tower_composure::retry::RetryLayerBuilder;
use tower_composure::{Backoff, Budget, BudgetLayer, Effect, Jitter, RetryLayer};

type Inner = Script<u32, u32, &'static str>;

fn retry() -> RetryLayerBuilder<Effect> {
    let wait = Backoff::constant(Duration::from_secs(1)).jitter(Jitter::None);
    RetryLayer::builder(Effect::Read).backoff(wait)
}

fn empty() -> Budget {
    let budget = Budget::builder().ratio(0.5).burst(5).starting_empty();
    budget.build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_the_retry_s_own_pays_in_place_of_the_one_in_scope() {
    let (lent, own) = (Budget::new(0.5, 5).unwrap(), empty());
    let inner = Inner::new([Step::Err("503"), Step::Ok(1)]);
    let layer = retry().budget(own.clone()).build().unwrap();
    let service = BudgetLayer::new(lent.clone()).layer(layer.layer(inner.clone()));

    assert_eq!(service.clone().oneshot(1).await, Err("503"));
    assert_eq!((inner.calls(), own.refused(), lent.refused()), (1, 1, 0));

    assert_eq!(service.clone().oneshot(2).await, Ok(1));
    assert_eq!(service.oneshot(3).await, Ok(1));
    assert_eq!((own.balance(), lent.balance()), (1.0, 5.0));
}

#[tokio::test(start_paused = true)]
async fn layers_share_the_budget_they_are_given() {
    let own = Budget::new(0.0, 1).unwrap();
    let layer = || retry().budget(own.clone()).build().unwrap();
    let (one, other) = (
        Inner::new([Step::Err("503")]),
        Inner::new([Step::Err("503")]),
    );
    assert_eq!(layer().layer(one.clone()).oneshot(1).await, Err("503"));
    assert_eq!(layer().layer(other.clone()).oneshot(1).await, Err("503"));
    assert_eq!((one.calls(), other.calls(), own.refused()), (2, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_retries_cost_nothing_whatever_is_in_scope() {
    let lent = empty();
    let inner = Inner::new([Step::Err("503"), Step::Ok(1)]);
    let layer = retry().no_budget().build().unwrap();
    let service = BudgetLayer::new(lent.clone()).layer(layer.layer(inner));
    assert_eq!(service.oneshot(1).await, Ok(1));
    assert_eq!((lent.balance(), lent.refused()), (0.0, 0));
}
