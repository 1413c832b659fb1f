//! The preset: what its builder takes and refuses, and the keys that it may have.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/says.rs"]
mod says;
mod support;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use says::{Dependency, Says, always};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_composure::stack::{StackBuilder, StackService};
use tower_composure::{Backoff, CircuitBreaker, Effect, Stack, Verdict};

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_builder_names_what_contradicts() {
    let build = |change: fn(StackBuilder<Says>) -> StackBuilder<Says>| {
        let error = change(Stack::builder(Says(Effect::Read)))
            .build()
            .unwrap_err();
        assert!(error.to_string().starts_with(error.setting()));
        error.to_string()
    };
    assert_eq!(
        build(|b| b.call_deadline(Duration::ZERO)),
        "call_deadline: 0ns lets no call be made"
    );
    assert_eq!(
        build(|b| b.attempt_deadline(Duration::ZERO)),
        "attempt_deadline: 0ns lets no attempt be made"
    );
    assert_eq!(
        build(|b| b.attempt_deadline(9000 * MS)),
        "attempt_deadline: 9s is above the call deadline 8s"
    );
    assert_eq!(
        build(|b| b
            .call_deadline(11_000 * MS)
            .breaker(CircuitBreaker::default())),
        "probe_lease: 10s is below the call deadline 11s"
    );
    assert_eq!(
        build(|b| b.max_attempts(0)),
        "max_attempts: 0 would never call the service; 1 makes no retries"
    );
    assert_eq!(
        build(|b| b.backoff(Backoff::exponential(5000 * MS, 1000 * MS))),
        "backoff: the base 5s is above the cap 1s"
    );
}

#[test]
fn the_builder_takes_what_does_not_contradict() {
    let fits = |change: fn(StackBuilder<Says>) -> StackBuilder<Says>| {
        change(Stack::builder(Says(Effect::Read))).build().unwrap()
    };
    fits(|b| b);
    // The default of the attempt follows a shorter call.
    fits(|b| b.call_deadline(1000 * MS));
    fits(|b| b.call_deadline(Duration::MAX));
    fits(|b| {
        b.call_deadline(Duration::MAX)
            .breaker(CircuitBreaker::default())
    });
    fits(|b| b.attempt_deadline(Duration::MAX));
    fits(|b| b.attempt_deadline(8000 * MS));
    // A breaker of the stack's own has a lease as long as the call.
    fits(|b| b.call_deadline(60_000 * MS));
}

#[tokio::test(start_paused = true)]
async fn no_breaker_lets_every_call_through() {
    let script = always(Verdict::Fault);
    let service = Stack::builder(Says(Effect::Read))
        .no_breaker()
        .build()
        .unwrap()
        .layer(script.clone());
    for _ in 0..150 {
        let answer = service.clone().oneshot(1).await.unwrap();
        assert_eq!(answer, Verdict::Fault);
    }
    assert_eq!(script.calls(), 150);
}

#[tokio::test(start_paused = true)]
async fn no_budget_leaves_retries_to_the_attempts() {
    let script = always(Verdict::REFUSED);
    let service = Stack::builder(Says(Effect::Read))
        .backoff(Backoff::none())
        .no_breaker()
        .no_budget()
        .build()
        .unwrap()
        .layer(script.clone());
    for _ in 0..50 {
        service.clone().oneshot(1).await.unwrap();
    }
    assert_eq!(script.calls(), 50 * 4);
}

/// The service of a stack has a name, so it can be a field.
struct Client {
    service: StackService<Dependency, Says>,
}

#[tokio::test(start_paused = true)]
async fn a_stack_and_its_service_can_be_named() {
    let stack: Stack<Says> = Stack::builder(Says(Effect::Read)).build().unwrap();
    let mut client = Client {
        service: stack.layer(always(Verdict::Success)),
    };
    let service = client.service.ready().await.unwrap();
    assert_eq!(service.call(1).await.unwrap(), Verdict::Success);
}

#[cfg(feature = "tool")]
#[test]
fn the_key_layer_of_a_tool_needs_no_second_timer() {
    use tower_composure::stack::KeyLayer;

    assert!(tower_composure::ToolKeyLayer::new().is_transparent());
}

#[cfg(feature = "http")]
mod keys {
    use http::{HeaderMap, Request, Response, StatusCode};
    use tower_composure::{CallReport, HttpPolicy, IdempotencyKeyLayer, StopReason};

    use super::says::Failed;
    use super::support::{Script, Step};
    use super::*;

    type Api = Script<Request<()>, Response<()>, Failed>;
    type Keyed = StackService<Api, HttpPolicy, IdempotencyKeyLayer>;

    fn api(statuses: impl IntoIterator<Item = u16>) -> Api {
        Script::new(statuses.into_iter().map(|status| {
            let response = Response::builder().status(status).body(()).unwrap();
            Step::Ok(response)
        }))
    }

    fn post() -> Request<()> {
        Request::post("/charges").body(()).unwrap()
    }

    fn keys(api: &Api) -> Vec<String> {
        let key = |headers: &HeaderMap| headers["idempotency-key"].to_str().unwrap().to_owned();
        api.seen()
            .iter()
            .map(|seen| key(seen.request.headers()))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_a_call_goes_with_every_attempt() {
        let api = api([503, 503, 200]);
        let mut service: Keyed = Stack::builder(HttpPolicy::new())
            .idempotency_key(IdempotencyKeyLayer::new())
            .build()
            .unwrap()
            .layer(api.clone());
        for _ in 0..2 {
            let service = service.ready().await.unwrap();
            let response = service.call(post()).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
        }
        let keys = keys(&api);
        assert_eq!(keys.len(), 4);
        assert!(keys[..3].iter().all(|key| *key == keys[0]));
        assert_ne!(keys[3], keys[0], "another call, another key");
    }

    #[tokio::test(start_paused = true)]
    async fn naming_the_key_layer_states_that_the_server_honours_keys() {
        let api = api([503, 200]);
        let stack = Stack::builder(HttpPolicy::new())
            .idempotency_key(IdempotencyKeyLayer::new())
            .build()
            .unwrap();
        let response = stack.layer(api.clone()).oneshot(post()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(api.calls(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_key_layer_a_post_is_sent_once_also_with_a_key() {
        for key in [None, Some("order-7")] {
            let api = api([503, 200]);
            let stack = Stack::builder(HttpPolicy::new()).build().unwrap();
            let mut request = post();
            if let Some(key) = key {
                let key = key.parse().unwrap();
                request.headers_mut().insert("idempotency-key", key);
            }
            let service = stack.layer(api.clone());
            let (outcome, report) = CallReport::of(service.oneshot(request)).await;
            let report = report.unwrap();
            assert_eq!(outcome.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(api.calls(), 1);
            assert_eq!(report.stop_reason(), Some(StopReason::OutcomeUnknown));
            assert_eq!(report.last_attempt().keyed(), key.is_some());
            assert!(report.outcome_unknown());
        }
    }
}

/// What a client's future may hold: a timer, and what it was asked.
struct Held {
    is_done: bool,
    rest: [u64; 12],
}

impl Future for Held {
    type Output = Result<u64, Infallible>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_done {
            return Poll::Ready(Ok(self.rest[0]));
        }
        Poll::Pending
    }
}

#[tokio::test]
async fn a_call_in_flight_takes_little_room() {
    let client = service_fn(|number: u64| Held {
        is_done: true,
        rest: [number; 12],
    });
    let stack = Stack::builder(Effect::Read).build().unwrap();
    let call = stack.layer(client).oneshot(7);
    assert_eq!((size_of::<Held>(), size_of_val(&call)), (104, 280));
    assert_eq!(call.await.unwrap(), 7);
}
