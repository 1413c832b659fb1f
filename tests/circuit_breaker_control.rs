//! A breaker that runs: looked at, forced, told otherwise, and listened to.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::breaker::{
    Dependency, SECOND, Step, call, calls, cases, counts, failure, seen, success,
};
use tokio::time::advance;
use tokio_test::task::spawn;
use tower::{Service, ServiceExt};
use tower_composure::circuit_breaker::Transition;
use tower_composure::{BreakerOpen, CircuitBreaker, CircuitState, Hint, Observer, Verdict};

use CircuitState::{Closed, ForcedClosed, ForcedOpen, HalfOpen, Open};

#[tokio::test(start_paused = true)]
async fn forced_open_it_refuses_until_it_is_told_otherwise() {
    let breaker = cases().build().unwrap();
    breaker.force_open();
    advance(365 * 24 * 3600 * SECOND).await;
    let error = seen(&breaker, success()).await.unwrap_err();
    assert_eq!(
        BreakerOpen::find(&*error).unwrap().remaining(),
        Duration::MAX
    );
    assert_eq!(
        (breaker.state(), breaker.metrics().rejected()),
        (ForcedOpen, 1)
    );
    breaker.reset();
    seen(&breaker, success()).await.unwrap();
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn forced_closed_it_counts_and_never_refuses() {
    let breaker = cases().build().unwrap();
    breaker.force_closed();
    calls(&breaker, &[failure(); 20]).await;
    let metrics = breaker.metrics();
    assert_eq!((metrics.state(), metrics.rejected()), (ForcedClosed, 0));
    assert_eq!(
        (metrics.recorded(), metrics.failure_rate()),
        (10, Some(1.0))
    );
    assert_eq!(metrics.consecutive_failures(), 20);
    breaker.reset();
    assert_eq!((breaker.state(), counts(&breaker)), (Closed, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_reset_forgets_the_window_and_what_is_under_way() {
    let breaker = cases().build().unwrap();
    calls(&breaker, &[failure(); 4]).await;
    let mut service = Dependency::of(&breaker, [Step::Ok(Verdict::Success).after(SECOND)]);
    let inside = service.ready().await.unwrap().call(1);
    breaker.reset();
    assert_eq!(counts(&breaker), (0, 0));
    inside.await.unwrap();
    assert_eq!(counts(&breaker), (0, 0), "it was admitted before");
    calls(&breaker, &[failure(); 4]).await;
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn told_otherwise_it_keeps_what_it_knows() {
    let breaker = cases().minimum_calls(8).build().unwrap();
    calls(&breaker, &[failure(); 4]).await;
    breaker.reconfigure(cases().minimum_calls(5)).unwrap();
    assert_eq!(counts(&breaker), (4, 4), "the window is kept");
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), Open);
    breaker
        .reconfigure(cases().open_time(SECOND).max_open_time(SECOND))
        .unwrap();
    assert_eq!(
        breaker.metrics().remaining(),
        30 * SECOND,
        "an open period keeps its end"
    );
    advance(30 * SECOND).await;
    call(&breaker, failure()).await;
    assert_eq!(
        breaker.metrics().remaining(),
        SECOND,
        "the next one is told otherwise"
    );
    advance(SECOND).await;
    breaker.reconfigure(cases().probes(2)).unwrap();
    call(&breaker, success()).await;
    assert_eq!(breaker.state(), HalfOpen);
    call(&breaker, success()).await;
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn told_to_probe_less_than_it_has_it_decides() {
    let breaker = cases().probes(3).build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    advance(30 * SECOND).await;
    calls(&breaker, &[success(); 2]).await;
    assert_eq!(breaker.state(), HalfOpen);
    breaker.reconfigure(cases().probes(2)).unwrap();
    assert_eq!(
        breaker.state(),
        Closed,
        "no place would be left to close it"
    );
}

#[tokio::test(start_paused = true)]
async fn two_of_three_reach_a_rate_of_two_thirds() {
    let breaker = cases()
        .minimum_calls(3)
        .failure_rate(2.0 / 3.0)
        .build()
        .unwrap();
    calls(&breaker, &[success(), failure()]).await;
    assert_eq!(breaker.state(), Closed);
    call(&breaker, failure()).await;
    assert_eq!(breaker.state(), Open);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_changed_is_an_error_and_changes_nothing() {
    let breaker = cases().build().unwrap();
    let error = |to| breaker.reconfigure(to).unwrap_err().to_string();
    assert!(error(cases().window(20)).starts_with("window: cannot be changed"));
    assert!(error(cases().time_window(SECOND)).starts_with("window: cannot be changed"));
    let attempts = tower_composure::Count::Attempts;
    assert!(error(cases().count(attempts)).starts_with("count: cannot be changed"));
    assert_eq!(
        error(cases().probes(17)),
        "probes: 17 is above the 16 that there is room for"
    );
    assert!(error(cases().failure_rate(7.0)).starts_with("failure_rate: 7 "));
    calls(&breaker, &[failure(); 5]).await;
    assert_eq!(breaker.state(), Open, "the settings of before");
}

#[derive(Default)]
struct Log(Mutex<Vec<(String, Transition)>>);

impl Observer for Log {
    fn breaker_transition(&self, breaker: &str, transition: &Transition) {
        self.0
            .lock()
            .unwrap()
            .push((breaker.to_owned(), *transition));
    }
}

#[tokio::test(start_paused = true)]
async fn transitions_are_told_once_each_and_are_chained() {
    let log = Arc::new(Log::default());
    let observer = Arc::clone(&log) as Arc<dyn Observer>;
    let breaker = cases().name("payments").observer(observer).build().unwrap();
    calls(&breaker, &[failure(); 6]).await;
    advance(30 * SECOND).await;
    call(&breaker, failure()).await;
    advance(30 * SECOND).await;
    assert_eq!(breaker.state(), HalfOpen, "looking makes what is due");
    call(&breaker, success()).await;
    breaker.force_open();
    breaker.force_open();
    breaker.force_closed();
    breaker.reset();
    let log = log.0.lock().unwrap();
    let states: Vec<_> = log.iter().map(|(_, transition)| transition.to()).collect();
    assert_eq!(
        states,
        [
            Open,
            HalfOpen,
            Open,
            HalfOpen,
            Closed,
            ForcedOpen,
            ForcedClosed,
            Closed
        ]
    );
    assert!(log.iter().all(|(name, _)| name == "payments"));
    for pair in log.windows(2) {
        let (before, after) = (pair[0].1, pair[1].1);
        assert_eq!(after.from(), before.to());
        assert_eq!(after.generation(), before.generation() + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_wedges_nothing() {
    struct Panics;
    impl Observer for Panics {
        fn breaker_transition(&self, _: &str, _: &Transition) {
            panic!("an observer's own");
        }
    }
    let breaker = cases().observer(Arc::new(Panics)).build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    assert_eq!(breaker.state(), Open);
    advance(30 * SECOND).await;
    seen(&breaker, success()).await.unwrap();
    assert_eq!(breaker.state(), Closed);
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_use_the_breaker_it_hears_of() {
    struct Resets(Mutex<Option<CircuitBreaker>>);
    impl Observer for Resets {
        fn breaker_transition(&self, _: &str, transition: &Transition) {
            if transition.to() == Open {
                let breaker = self.0.lock().unwrap().clone();
                breaker.unwrap().force_closed();
            }
        }
    }
    let resets = Arc::new(Resets(Mutex::new(None)));
    let observer = Arc::clone(&resets) as Arc<dyn Observer>;
    let breaker = cases().observer(observer).build().unwrap();
    *resets.0.lock().unwrap() = Some(breaker.clone());
    calls(&breaker, &[failure(); 5]).await;
    assert_eq!(breaker.state(), ForcedClosed);
}

#[tokio::test(start_paused = true)]
async fn refusals_are_counted_and_say_how_long() {
    let breaker = cases().build().unwrap();
    calls(&breaker, &[failure(); 5]).await;
    for second in 0..30 {
        let error = seen(&breaker, success()).await.unwrap_err();
        let open = *BreakerOpen::find(&*error).unwrap();
        assert_eq!(open.remaining(), (30 - second) * SECOND);
        assert_eq!(open.to_string(), "the circuit breaker is open");
        advance(SECOND).await;
    }
    assert_eq!(breaker.metrics().rejected(), 30);
    let mut probe = spawn(Dependency::of(&breaker, [Step::Hang]).oneshot(1));
    assert!(probe.poll().is_pending());
    let error = seen(&breaker, success()).await.unwrap_err();
    assert_eq!(
        BreakerOpen::find(&*error).unwrap().remaining(),
        Duration::ZERO
    );
}

/// Real threads on one breaker.
#[test]
fn threads_leave_the_window_exact() {
    let breaker = cases().window(100).build().unwrap();
    breaker.force_closed();
    let outcomes = |failing: bool| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .build()
                        .unwrap();
                    runtime.block_on(async {
                        for number in 0..2000 {
                            let fails = failing && number % 3 == 0;
                            let outcome = if fails { failure() } else { success() };
                            call(&breaker, outcome).await;
                            let metrics = breaker.metrics();
                            assert!(metrics.recorded() <= 100);
                        }
                    });
                });
            }
        });
    };
    outcomes(true);
    let mixed = breaker.metrics();
    assert_eq!(mixed.recorded(), 100);
    assert!((20..50).contains(&mixed.failures()), "{}", mixed.failures());
    outcomes(false);
    assert_eq!(counts(&breaker), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn only_a_busy_server_keeps_an_open_breaker_open_for_longer() {
    let hint = Some(Hint::after(90 * SECOND));
    for (verdict, remaining) in [
        (Verdict::Throttled { hint }, 90 * SECOND),
        (Verdict::Throttled { hint: None }, 29 * SECOND),
        (Verdict::Unknown { hint }, 29 * SECOND),
    ] {
        let breaker = cases().max_open_hint(100 * SECOND).build().unwrap();
        let late = Step::Ok(verdict).after(SECOND);
        let late = tokio::spawn(Dependency::of(&breaker, [late]).oneshot(1));
        tokio::task::yield_now().await;
        calls(&breaker, &[failure(); 5]).await;
        assert_eq!(breaker.state(), Open);
        late.await.unwrap().unwrap();
        assert_eq!(breaker.metrics().remaining(), remaining, "{verdict:?}");
    }
}
