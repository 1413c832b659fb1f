//! What a flood meets: every size is bounded, or refused with an error that says so.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod support;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use support::{Script, Step};
use tower::{BoxError, Layer, ServiceExt};
use tower_composure::{
    Attempt, Backoff, CallContext, DeadlineLayer, Effect, IdempotencyKey, RetryLayer,
};

/// A scope in a scope, so many times, around what is asked at the bottom. On the heap, as recursive futures are.
fn nested<T: Send + 'static>(
    depth: u32,
    ask: fn() -> T,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(async move {
        if depth == 0 {
            return ask();
        }
        // Each captures what the one around it has put in scope.
        CallContext::current().scope(nested(depth - 1, ask)).await
    })
}

/// On a thread with room for the frames of so many polls: what a scope itself needs is bounded, the caller's recursion
/// is the caller's.
fn on_a_large_stack<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(test);
    thread.unwrap().join().unwrap()
}

#[test]
fn ten_thousand_nested_scopes_are_one_scope() {
    on_a_large_stack(|| {
        support::paused(async || {
            let key = IdempotencyKey::new("order-7").unwrap();
            let seen = key
                .clone()
                .scope(nested(10_000, IdempotencyKey::current))
                .await;
            assert_eq!(seen, Some(key));
            assert!(IdempotencyKey::current().is_none() && Attempt::current().is_none());
        });
    });
}

/// A key in a key, so many times, each its own again once what is inside of it has ended.
fn nested_keys(depth: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async move {
        if depth == 0 {
            return 0;
        }
        let key = IdempotencyKey::new(depth.to_string()).unwrap();
        let scope = key.clone().scope(async move {
            let inside = nested_keys(depth - 1).await;
            inside + u32::from(IdempotencyKey::current() == Some(key))
        });
        scope.await
    })
}

#[test]
fn of_ten_thousand_nested_keys_each_is_in_its_own_scope() {
    on_a_large_stack(|| {
        support::paused(async || {
            assert_eq!(nested_keys(10_000).await, 10_000);
            assert!(IdempotencyKey::current().is_none());
        });
    });
}

/// Attempts do not multiply with the depth: the outermost owns the call.
#[tokio::test(start_paused = true)]
async fn a_hundred_nested_retries_make_the_attempts_of_one() {
    let script = Script::<(), (), &str>::new([Step::Err("down")]);
    let retry = RetryLayer::builder(Effect::Read)
        .max_attempts(3)
        .backoff(Backoff::none())
        .build()
        .unwrap();
    let mut service = tower::util::BoxCloneService::new(script.clone());
    for _ in 0..100 {
        service = tower::util::BoxCloneService::new(retry.layer(service));
    }
    assert_eq!(service.oneshot(()).await, Err("down"));
    assert_eq!(script.calls(), 3);
}

/// A deadline that stands in a hundred others ends everything at the nearest, with one error.
#[tokio::test(start_paused = true)]
async fn a_hundred_nested_deadlines_end_at_the_nearest() {
    let script = Script::<(), (), &str>::new([Step::Hang]);
    let inner = tower::ServiceBuilder::new().map_err(BoxError::from);
    let mut service = tower::util::BoxCloneService::new(inner.service(script.clone()));
    for seconds in 1..=100 {
        let layer = DeadlineLayer::call(Duration::from_secs(seconds));
        service = tower::util::BoxCloneService::new(layer.layer(service));
    }
    let error = service.oneshot(()).await.unwrap_err();
    assert!(tower_composure::DeadlineExceeded::find(&*error).is_some());
    assert_eq!(script.age(), Duration::from_secs(1));
    assert_eq!(script.in_flight(), 0);
}

#[cfg(feature = "keyed")]
mod keys {
    use super::*;
    use tower::ServiceBuilder;
    use tower_composure::keyed::{Budgets, CircuitBreakers};
    use tower_composure::{
        BreakerOpen, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, CircuitState,
    };

    const CAPACITY: usize = 100;
    const FLOOD: usize = 10_000;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_keys_is_bounded_and_forgets_no_open_breaker() {
        let recipe = CircuitBreaker::builder().open_time(Duration::from_secs(60));
        let breakers = CircuitBreakers::new("hosts", CAPACITY, recipe).unwrap();
        breakers.get("down").force_open();
        for number in 0..FLOOD {
            let _ = breakers.get(&format!("host-{number}"));
            assert!(
                breakers.len() <= 2 * CAPACITY,
                "{} after {number}",
                breakers.len()
            );
        }
        assert_eq!(breakers.get("down").state(), CircuitState::ForcedOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_keys_that_all_matter_shares_one() {
        let recipe = CircuitBreaker::builder().open_time(Duration::from_secs(60));
        let breakers = CircuitBreakers::new("hosts", CAPACITY, recipe).unwrap();
        for number in 0..FLOOD {
            breakers.get(&format!("host-{number}")).force_open();
        }
        assert!(breakers.len() <= 2 * CAPACITY, "{}", breakers.len());
        assert_eq!(breakers.overflow().state(), CircuitState::ForcedOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_budgets_is_bounded() {
        let budgets = Budgets::new("hosts", CAPACITY, Budget::builder()).unwrap();
        let held: Vec<_> = (0..FLOOD)
            .map(|number| budgets.get(&format!("host-{number}")))
            .collect();
        assert!(budgets.len() <= 2 * CAPACITY, "{}", budgets.len());
        assert_eq!(held.len(), FLOOD);
    }

    /// Through the layers, each name fails and retries once: what is remembered of it is bounded, and what the flood has
    /// not used up is as it was.
    #[tokio::test(start_paused = true)]
    async fn a_flood_of_requests_is_bounded_in_each_keyed_layer() {
        #[expect(
            clippy::ptr_arg,
            clippy::unnecessary_wraps,
            reason = "what the layers take"
        )]
        fn name(name: &String) -> Option<&str> {
            Some(name)
        }
        let breakers = CircuitBreaker::builder().minimum_calls(1).window(1);
        let breakers = CircuitBreakers::new("hosts", CAPACITY, breakers).unwrap();
        let budgets = Budgets::new("hosts", CAPACITY, Budget::builder()).unwrap();
        let script = Script::<String, (), &str>::new([Step::Err("down")]);
        let service = ServiceBuilder::new()
            .layer(CircuitBreakerLayer::keyed(
                breakers.clone(),
                Effect::Read,
                name,
            ))
            .layer(BudgetLayer::keyed(budgets.clone(), name))
            .layer(
                RetryLayer::builder(Effect::Read)
                    .max_attempts(2)
                    .backoff(Backoff::none())
                    .build()
                    .unwrap(),
            )
            .service(script.clone());
        let mut refused = 0;
        for number in 0..FLOOD {
            let outcome = service.clone().oneshot(format!("host-{number}")).await;
            let error = outcome.unwrap_err();
            refused += usize::from(BreakerOpen::find(&*error).is_some());
            assert!(breakers.len() <= 2 * CAPACITY, "after {number}");
            assert!(budgets.len() <= 2 * CAPACITY, "after {number}");
        }
        // Names for which there was no room share a breaker, and that is open by then.
        assert_eq!(breakers.overflow().state(), CircuitState::Open);
        assert_eq!(
            (breakers.len(), refused),
            (2 * CAPACITY, FLOOD - 2 * CAPACITY - 1)
        );
        assert_eq!(script.calls(), 2 * (2 * CAPACITY + 1));
    }
}

#[cfg(feature = "http")]
mod http {
    use super::*;
    use ::http::{Request, Response};
    use bytes::Bytes;
    use http_body_util::BodyExt;
    use support::body::{Event, Scripted, next};
    use tower::ServiceBuilder;
    use tower_composure::http::{
        CollectBodyLayer, DrainBody, ReplayBody, ReplayBodyLayer, ReplayRequest,
    };
    use tower_composure::{CallReport, HttpPolicy, StopReason};

    const GIB: usize = 1 << 30;
    const PIECE: usize = 1 << 20;

    /// A GiB, of which one piece is in memory.
    fn huge() -> Scripted {
        let piece = Bytes::from(vec![7; PIECE]);
        Scripted::new((0..GIB / PIECE).map(|_| Event::Bytes(piece.clone())))
    }

    #[tokio::test]
    async fn a_huge_request_is_sent_once_and_whole() {
        let service = ServiceBuilder::new()
            .layer(ReplayBodyLayer::new())
            .layer(
                RetryLayer::builder(HttpPolicy::new())
                    .replay(ReplayRequest)
                    .build()
                    .unwrap(),
            )
            .service(tower::service_fn(
                |request: Request<ReplayBody<Scripted>>| async move {
                    let mut body = Box::pin(request.into_body());
                    let mut read = 0;
                    while let Some(frame) = body.frame().await {
                        read += frame?.into_data().map_or(0, |data| data.len());
                    }
                    assert_eq!(read, GIB);
                    Ok::<_, BoxError>(Response::builder().status(503).body(()).unwrap())
                },
            ));
        let request = Request::put("/upload").body(huge()).unwrap();
        let (outcome, report) = CallReport::of(service.oneshot(request)).await;
        assert_eq!(outcome.unwrap().status(), 503);
        let report = report.unwrap();
        assert_eq!(
            (report.attempts(), report.stop_reason()),
            (1, Some(StopReason::NotReplayable))
        );
    }

    #[tokio::test]
    async fn a_huge_answer_is_collected_up_to_a_bound_and_passed_on_whole() {
        let body = huge();
        let seen = body.seen();
        let response =
            std::sync::Mutex::new(Some(Response::builder().status(500).body(body).unwrap()));
        let service = CollectBodyLayer::new().layer(tower::service_fn(move |()| {
            let response = response.lock().unwrap().take().unwrap();
            async { Ok::<_, BoxError>(response) }
        }));
        let mut body = Box::pin(service.oneshot(()).await.unwrap().into_body());
        assert!(body.collected().is_none(), "it has not been collected");
        assert!(seen.polls() <= 2, "{} MiB read ahead", seen.polls());
        let mut read = 0;
        while let Some(frame) = next(&mut body).await {
            let support::body::Sent::Data(data) = frame else {
                continue;
            };
            read += data.len();
        }
        assert_eq!(read, GIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_huge_losing_answer_is_drained_up_to_a_bound() {
        let body = huge();
        let seen = body.seen();
        let first = std::sync::Arc::new(std::sync::Mutex::new(Some(body)));
        let retry = RetryLayer::builder(HttpPolicy::new())
            .release(DrainBody::new())
            .build()
            .unwrap();
        let service = retry.layer(tower::service_fn(move |_: Request<()>| {
            let body = first.lock().unwrap().take();
            let status = if body.is_some() { 503 } else { 200 };
            let response = Response::builder().status(status);
            let response = response
                .body(body.unwrap_or_else(|| Scripted::new([])))
                .unwrap();
            async { Ok::<_, BoxError>(response) }
        }));
        let response = service
            .oneshot(Request::get("/").body(()).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert!(seen.is_dropped());
        assert!(seen.polls() <= 2, "{} MiB drained", seen.polls());
    }
}
