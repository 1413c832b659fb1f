//! The fourth promise: whatever is dropped or panics, whenever, leaves everything as if that had been expected.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::{
    Attempt, CallContext, CircuitBreaker, CircuitBreakerLayer, CircuitState, Deadline, Effect,
    IdempotencyKey, Verdict,
};

use super::play::{Seen, play};
use super::service::{Answer, Ask, Told};
use super::world::{Part, World, any_parts, any_world, one_retry};

/// Waits out an open period, and closes the breaker with as few successes as it needs where no probe is out.
async fn closes(breaker: &CircuitBreaker) -> bool {
    let healthy = tower::service_fn(|_: Ask| async { Ok::<_, BoxError>(Answer(Verdict::Success)) });
    let mut service = CircuitBreakerLayer::new(breaker.clone(), Told).layer(healthy);
    for _ in 0..2 {
        tokio::time::advance(breaker.metrics().remaining()).await;
        let ask = Ask {
            caller: 0,
            effect: Effect::Read,
            keyed: false,
        };
        if service.ready().await.unwrap().call(ask).await.is_err() {
            return false;
        }
    }
    breaker.state() == CircuitState::Closed
}

/// Nothing is in scope where no call is.
fn nothing_in_scope() -> bool {
    let context = format!("{:?}", CallContext::current());
    Attempt::current().is_none()
        && Deadline::current().is_none()
        && IdempotencyKey::current().is_none()
        && context == format!("{:?}", CallContext::default())
}

/// What the budget holds once retries have been paid and successes have earned, in thousandths of a token.
fn expected(world: &World, seen: &Seen) -> u32 {
    let [above, below] = &seen.taps[0];
    let retries = below.calls.load(Ordering::SeqCst) - above.calls.load(Ordering::SeqCst);
    let successes = below.successes.load(Ordering::SeqCst);
    let (retries, successes) = (
        u32::try_from(retries).unwrap(),
        u32::try_from(successes).unwrap(),
    );
    world.burst * 1000 + successes * world.ratio - retries * 1000
}

proptest! {
    #[test]
    fn nothing_is_left_behind(world in any_world(any_parts())) {
        play(&world, async |seen| {
            prop_assert_eq!(seen.in_flight, 0);
            prop_assert_eq!(seen.permits_out, 0);
            prop_assert!(nothing_in_scope());
            let before = seen.breaker.metrics();
            prop_assert!(closes(&seen.breaker).await, "a probe is out: {before:?}");
            Ok(())
        })?;
    }

    /// To the token: a retry that has started is paid for, and one that has not is not. Nothing is earned here; what
    /// successes earn is in the soak's books.
    #[test]
    fn the_budget_balances(
        world in any_world(one_retry().prop_map(|parts| [vec![Part::Budget], parts].concat()))
    ) {
        let world = World { burst: 1000, ratio: 0, ..world };
        play(&world, async |seen| {
            let balance = seen.budget.balance() * 1000.0;
            prop_assert!((balance - f64::from(expected(&world, &seen))).abs() < 1e-6, "{balance}");
            Ok(())
        })?;
    }
}
