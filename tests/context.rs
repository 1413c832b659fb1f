//! The call context: what crosses layers, where it ends, and that nothing of it is left behind.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::{Script, Step};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, Backoff, BoxError, Budget, BudgetLayer, CallContext, CallReport, CircuitBreaker,
    CircuitBreakerLayer, Deadline, DeadlineLayer, Effect, IdempotencyKey, RetryLayer, StopReason,
};

const SECOND: Duration = Duration::from_secs(1);

type Inner = Script<u32, u32, Failed>;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

fn retry(effect: Effect) -> RetryLayer<Effect> {
    RetryLayer::builder(effect)
        .max_attempts(3)
        .backoff(Backoff::none())
        .build()
        .unwrap()
}

/// Everything there is in scope.
fn in_scope() -> (bool, Option<u32>, bool) {
    let number = Attempt::current().map(|attempt| attempt.number());
    (
        Deadline::current().is_some(),
        number,
        IdempotencyKey::current().is_some(),
    )
}

const NOTHING: (bool, Option<u32>, bool) = (false, None, false);

#[tokio::test(start_paused = true)]
async fn three_nested_layers_of_three_attempts_make_three_calls() {
    let inner = Inner::new([Step::Err(Failed)]);
    let layer = || retry(Effect::Read);
    let service = layer().layer(layer().layer(layer().layer(inner.clone())));
    service.oneshot(1).await.unwrap_err();
    assert_eq!(inner.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_a_retry_that_can_act_owns() {
    let calls = async |outer: RetryLayer<Effect>| {
        let inner = Inner::new([Step::Err(Failed)]);
        let service = outer.layer(retry(Effect::Read).layer(inner.clone()));
        service.oneshot(1).await.unwrap_err();
        inner.calls()
    };
    assert_eq!(calls(retry(Effect::IdempotentWrite)).await, 3);
    assert_eq!(
        calls(retry(Effect::Write)).await,
        3,
        "below a write, a read keeps its retries"
    );
    let once = RetryLayer::builder(Effect::Read)
        .max_attempts(1)
        .build()
        .unwrap();
    assert_eq!(calls(once).await, 3);
    let off = retry(Effect::Read);
    off.switch().set(tower_composure::RetryMode::Off);
    assert_eq!(calls(off).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_captured_context_is_carried_over_a_spawn() {
    let inner = Inner::new([Step::Err(Failed)]);
    let nested = retry(Effect::Read).layer(inner.clone());
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::call(SECOND))
        .layer(retry(Effect::Read))
        .service_fn(move |number: u32| {
            let nested = nested.clone();
            let context = CallContext::current();
            let plain = tokio::spawn(async { in_scope() });
            let carried = tokio::spawn(context.scope(async move {
                let (outcome, report) = CallReport::of(nested.oneshot(number)).await;
                (in_scope(), outcome, report.unwrap().stop_reason())
            }));
            async move {
                assert_eq!(plain.await.unwrap(), NOTHING, "the scope follows no spawn");
                Ok::<_, BoxError>(carried.await.unwrap())
            }
        });
    let (seen, outcome, stop) = service.oneshot(1).await.unwrap();
    assert_eq!(seen, (true, Some(1), false));
    assert_eq!(outcome, Err(Failed));
    assert_eq!(stop, Some(StopReason::Nested), "its owner came along");
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_captured_context_carries_the_budget_and_no_breaker() {
    let budget = Budget::new(0.0, 1).unwrap();
    let breaker = CircuitBreaker::default();
    let inner = Inner::new([Step::Err(Failed)]);
    let retried = retry(Effect::Read).layer(inner.clone());
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(breaker.clone(), Effect::Read))
        .layer(BudgetLayer::new(budget.clone()))
        .service_fn(move |number: u32| {
            let retried = retried.clone();
            let context = CallContext::current();
            breaker.force_open();
            let call = async move { CallReport::of(retried.oneshot(number)).await.1 };
            let task = tokio::spawn(context.scope(call));
            async move { Ok::<_, BoxError>(task.await.unwrap().unwrap().stop_reason()) }
        });
    // With the breaker it would have stopped for that.
    let stop = service.oneshot(1).await.unwrap();
    assert_eq!(stop, Some(StopReason::BudgetExhausted));
    assert_eq!(inner.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_another_task_is_kept_there_too() {
    let hanging = DeadlineLayer::attempt(10 * SECOND).layer(Inner::new([Step::Hang]));
    let service = DeadlineLayer::call(SECOND).layer(tower::service_fn(move |number: u32| {
        let call = hanging.clone().oneshot(number);
        let task = tokio::spawn(CallContext::current().scope(call));
        async move { Ok::<_, BoxError>(task) }
    }));
    let task = service.oneshot(1).await.unwrap();
    let ended = tokio::time::timeout(2 * SECOND, task).await;
    assert!(ended.is_ok(), "nobody but the task itself could end it");
}

#[tokio::test(start_paused = true)]
async fn the_scope_is_put_back_after_each_poll() {
    let key = IdempotencyKey::new("k").unwrap();
    let stack = ServiceBuilder::new()
        .layer(DeadlineLayer::call(SECOND))
        .layer(BudgetLayer::default())
        .layer(retry(Effect::Read))
        .service_fn(|_: u32| async {
            assert_eq!(in_scope(), (true, Some(1), true));
            tokio::task::yield_now().await;
            assert_eq!(in_scope(), (true, Some(1), true));
            Ok::<_, BoxError>(())
        });
    let mut call = tokio_test::task::spawn(key.scope(async { stack.oneshot(1).await }));
    assert!(call.poll().is_pending());
    assert_eq!(in_scope(), NOTHING);
    assert!(call.poll().is_ready());
    assert_eq!(in_scope(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn the_scope_is_put_back_after_a_panic() {
    let mut service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(
            CircuitBreaker::default(),
            Effect::Read,
        ))
        .layer(DeadlineLayer::call(SECOND))
        .layer(BudgetLayer::default())
        .layer(retry(Effect::Read))
        .service(Inner::new([Step::Panic, Step::Ok(1)]));
    let call = service.ready().await.unwrap().call(1);
    let mut call = tokio_test::task::spawn(call);
    let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let _ = call.poll();
    }));
    assert!(polled.is_err());
    drop(call);
    assert_eq!(in_scope(), NOTHING);
    assert_eq!(service.oneshot(1).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_of_the_call_it_was_asked_for() {
    let (outcome, report) = CallReport::of(async { 7 }).await;
    assert_eq!((outcome, report), (7, None));
    let failing = retry(Effect::Read).layer(Inner::new([Step::Err(Failed)]));
    failing.oneshot(1).await.unwrap_err();
    let (_, report) = CallReport::of(async { 7 }).await;
    assert_eq!(report, None, "nothing is left of the call before");
}

#[tokio::test(start_paused = true)]
async fn the_breaker_classifies_with_the_facts_of_the_last_attempt() {
    use std::sync::Mutex;
    use tower_composure::{Policy, Verdict};

    /// Says what it was asked with.
    struct Notes(Mutex<Vec<u32>>);
    impl Policy<u32, u32, BoxError> for &Notes {
        fn effect(&self, _: &u32) -> Effect {
            Effect::Read
        }
        fn classify(&self, attempt: &Attempt, outcome: Result<&u32, &BoxError>) -> Verdict {
            self.0.lock().unwrap().push(attempt.number());
            outcome.map_or(Verdict::UNKNOWN, |_| Verdict::Success)
        }
    }
    let notes = Notes(Mutex::new(Vec::new()));
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(CircuitBreaker::default(), &notes))
        .layer(DeadlineLayer::call(SECOND))
        .layer(retry(Effect::Read))
        .service(Inner::new([
            Step::Err(Failed),
            Step::Err(Failed),
            Step::Ok(1),
        ]));
    service.oneshot(1).await.unwrap();
    assert_eq!(*notes.0.lock().unwrap(), [3]);
}

#[test]
fn where_a_threads_locals_are_gone_there_is_no_context_and_no_panic() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(in_scope(), NOTHING);
            let context = CallContext::current();
            let key = IdempotencyKey::new("k").unwrap();
            let mut call = tokio_test::task::spawn(context.scope(key.scope(async { 1 })));
            assert!(call.poll().is_ready());
            let service = ServiceBuilder::new()
                .layer(CircuitBreakerLayer::new(
                    CircuitBreaker::default(),
                    Effect::Read,
                ))
                .layer(BudgetLayer::default())
                .layer(retry(Effect::Read))
                .service_fn(|_: u32| async { Ok::<_, BoxError>(1) });
            let mut call = tokio_test::task::spawn(service.oneshot(1));
            assert!(call.poll().is_ready());
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local! {
        static LATE: Late = const { Late };
    }
    let late = || LATE.with(|_| ());
    let ours = || {
        // The cells of what is lent have a destructor from the first time that something is lent.
        let key = IdempotencyKey::new("k").unwrap();
        let mut call = tokio_test::task::spawn(key.scope(async { in_scope() }));
        assert_eq!(call.poll(), std::task::Poll::Ready((false, None, true)));
        assert_eq!(in_scope(), NOTHING);
    };
    // Which of two locals goes first is the platform's affair, so both orders.
    let orders: [[&(dyn Fn() + Sync); 2]; 2] = [[&late, &ours], [&ours, &late]];
    for order in orders {
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || order.iter().for_each(|touch| touch()));
            thread.join().unwrap();
        });
    }
    assert_eq!(DROPPED.load(Ordering::SeqCst), 2);
}
