//! Retries that are stacked: over a write without a key none of them owns the call, and still they do not multiply; of
//! others the outermost that can act does.
#![cfg(not(loom))]

#[path = "support/says.rs"]
mod says;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use says::assert_balance;
use support::Step;
use support::told::{Deaf, Said, Told, cases, stops, told};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_composure::{Budget, BudgetLayer, Effect, RetryMode, StopReason, Verdict};

#[tokio::test(start_paused = true)]
async fn what_one_has_repeated_in_vain_no_other_one_repeats() {
    for verdict in [Verdict::REFUSED, Verdict::THROTTLED] {
        let inner = Told::new([Step::Err(Said(verdict))]);
        let budget = Budget::new(0.0, 20).unwrap();
        let retry = || cases(told(Effect::Write)).build().unwrap();
        let two = BudgetLayer::new(budget.clone()).layer(
            retry().layer(BudgetLayer::new(budget.clone()).layer(retry().layer(inner.clone()))),
        );
        assert_eq!(stops(two.clone()).await, (3, Some(StopReason::Attempts)));
        assert_eq!(inner.calls(), 3);
        assert_balance(&budget, 18.0);
        retry().layer(two).oneshot(1).await.unwrap_err();
        assert_eq!(inner.calls(), 6);
        assert_balance(&budget, 16.0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_below_has_repeated_is() {
    let retry = || cases(told(Effect::Write));
    let once = retry().max_attempts(1).build().unwrap();
    let off = retry().build().unwrap();
    off.switch().set(RetryMode::Off);
    for below in [once, off] {
        let inner = Told::new([Step::Err(Said(Verdict::REFUSED))]);
        let service = retry().build().unwrap().layer(below.layer(inner.clone()));
        assert_eq!(stops(service).await, (3, Some(StopReason::Attempts)));
        assert_eq!(inner.calls(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_repeated_and_succeeded_is_no_repeat_of_the_whole() {
    // Looks something up, which takes two attempts, and is refused when it writes.
    let twice = || [Step::Err(Said(Verdict::UNKNOWN)), Step::Ok(1)];
    let lookups = Told::new([twice(), twice(), twice()].concat());
    let lookup = cases(told(Effect::Read))
        .build()
        .unwrap()
        .layer(lookups.clone());
    let whole = service_fn(move |number: u32| {
        let lookup = lookup.clone();
        async move {
            lookup.oneshot(number).await?;
            Err::<u32, _>(Said(Verdict::REFUSED))
        }
    });
    let service = cases(told(Effect::Write)).build().unwrap().layer(whole);
    assert_eq!(stops(service).await, (3, Some(StopReason::Attempts)));
    assert_eq!(lookups.calls(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_success_is_deposited_once() {
    let ok = Step::Ok(1);
    let refused = Step::Err(Said(Verdict::REFUSED));
    for (steps, after) in [(vec![ok.clone()], 5.5), (vec![refused, ok], 4.5)] {
        let budget = Budget::builder().ratio(0.5).burst(10).starting_empty();
        let budget = budget.build().unwrap();
        // Five tokens.
        (0..10).for_each(|_| budget.deposit());
        let retry = || cases(told(Effect::Write)).build().unwrap();
        let budgeted = BudgetLayer::new(budget.clone());
        let inside = budgeted.layer(retry().layer(Told::new(steps)));
        let service = budgeted.layer(retry().layer(inside));
        assert_eq!(service.oneshot(1).await.unwrap(), 1);
        assert_balance(&budget, after);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_watched_owns_a_call_and_one_that_only_observes_does_not() {
    for (mode, of_the_outer) in [(RetryMode::On, 3), (RetryMode::ObserveOnly, 1)] {
        let retry = || cases(told(Effect::Read));
        let outer = retry().observer(Arc::new(Deaf)).build().unwrap();
        outer.switch().set(mode);
        let inner = Told::new([Step::Err(Said(Verdict::REFUSED))]);
        let seen = Arc::new(AtomicU32::new(0));
        let last = Arc::clone(&seen);
        let service = ServiceBuilder::new()
            .layer(outer)
            .map_request(move |number| {
                last.fetch_add(1, Ordering::Relaxed);
                number
            })
            .layer(retry().build().unwrap())
            .service(inner.clone());
        service.oneshot(1).await.unwrap_err();
        assert_eq!(seen.load(Ordering::Relaxed), of_the_outer);
        assert_eq!(inner.calls(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_switched_on_in_a_call_owns_the_attempts_that_follow() {
    let retry = || cases(told(Effect::Read)).build().unwrap();
    let (outer, nested) = (retry(), retry());
    outer.switch().set(RetryMode::ObserveOnly);
    nested.switch().set(RetryMode::Off);
    let inner = Told::new([Step::Err(Said(Verdict::REFUSED))]);
    let switches = [outer.switch(), nested.switch()];
    let switched_on = ServiceBuilder::new()
        .map_request(move |number: u32| {
            for switch in &switches {
                switch.set(RetryMode::On);
            }
            number
        })
        .service(inner.clone());
    let service = outer.layer(nested.layer(switched_on));
    assert_eq!(stops(service).await, (3, Some(StopReason::Attempts)));
    assert_eq!(inner.calls(), 3, "one in each");
}
