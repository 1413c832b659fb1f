//! A budget that a retry layer has of its own.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use support::{Readiness, Script, Step};
use tokio::time::{Sleep, sleep};
use tokio_test::task::spawn;
use tower::{Layer, Service, ServiceExt};
use tower_composure::retry::{Release, RetryLayerBuilder};
use tower_composure::{
    Attempt, Backoff, Budget, BudgetLayer, Effect, Jitter, RetryLayer, Verdict, policy_fn,
};

const SECOND: Duration = Duration::from_secs(1);

type Inner = Script<u32, u32, &'static str>;

fn retry() -> RetryLayerBuilder<Effect> {
    let wait = Backoff::constant(SECOND).jitter(Jitter::None);
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
async fn a_token_is_back_with_the_error_of_a_service_that_is_never_ready_again() {
    for wait in [Backoff::none(), Backoff::constant(SECOND)] {
        let own = Budget::new(0.5, 5).unwrap();
        let inner = Inner::new([Step::Err("503")]);
        let inner = inner.readiness([Readiness::Ready, Readiness::Fail("gone")]);
        let layer = retry().backoff(wait).budget(own.clone()).build().unwrap();
        let mut service = layer.layer(inner.clone());
        let mut call = spawn(service.ready().await.unwrap().call(1));
        let mut outcome = call.poll();
        if outcome.is_pending() {
            assert_eq!((inner.calls(), own.balance()), (1, 4.0));
            tokio::time::advance(2 * SECOND).await;
            outcome = call.poll();
        }
        assert_eq!(outcome, Poll::Ready(Err("gone")));
        assert_eq!((inner.calls(), own.balance()), (1, 5.0));
        assert!(call.poll().is_pending(), "nothing goes on behind an end");
        assert_eq!(inner.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_kept_while_the_service_is_not_ready_and_is_back_with_a_drop() {
    for wait in [Backoff::none(), Backoff::constant(SECOND)] {
        let own = Budget::new(0.5, 5).unwrap();
        let inner = Inner::new([Step::Err("503")]);
        let inner = inner.readiness([Readiness::Ready, Readiness::Never]);
        let layer = retry().backoff(wait).budget(own.clone()).build().unwrap();
        let mut service = layer.layer(inner.clone());
        let mut call = spawn(service.ready().await.unwrap().call(1));
        for _ in 0..3 {
            assert!(call.poll().is_pending());
            assert_eq!((inner.calls(), own.balance()), (1, 4.0));
            tokio::time::advance(2 * SECOND).await;
        }
        drop(call);
        assert_eq!((inner.calls(), own.balance()), (1, 5.0));
    }
}

#[tokio::test(start_paused = true)]
async fn each_retry_is_paid_for_where_others_have_their_turn_in_between() {
    let own = Budget::new(0.0, 100).unwrap();
    let layer = retry().backoff(Backoff::none()).budget(own.clone());
    let layer = layer.max_attempts(41).build().unwrap();
    let inner = Inner::new([Step::Err("503")]);
    assert_eq!(layer.layer(inner.clone()).oneshot(1).await, Err("503"));
    assert_eq!((inner.calls(), own.balance()), (41, 60.0));
}

/// Lets go of a response within a second.
#[derive(Clone)]
struct Slowly;

impl Release<u32> for Slowly {
    type Future = Pin<Box<Sleep>>;

    fn release(&self, _: u32) -> Option<Self::Future> {
        Some(Box::pin(sleep(SECOND)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_kept_while_the_response_that_lost_is_let_go_of() {
    let own = Budget::new(0.0, 5).unwrap();
    let policy = policy_fn(|_: &Attempt, outcome: Result<&u32, &&str>| match outcome {
        Ok(200) => Verdict::Success,
        _ => Verdict::REFUSED,
    });
    let inner = Inner::new([Step::Ok(503), Step::Ok(200)]);
    let layer = RetryLayer::builder(policy).backoff(Backoff::none());
    let layer = layer.release(Slowly).budget(own.clone()).build().unwrap();
    let mut call = spawn(layer.layer(inner.clone()).oneshot(1));
    assert!(call.poll().is_pending());
    assert_eq!((inner.calls(), own.balance()), (1, 4.0));
    assert_eq!(call.await, Ok(200));
    assert_eq!((inner.calls(), own.balance()), (2, 4.0));
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
