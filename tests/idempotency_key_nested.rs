//! Keys of a tool that sends several requests: each its own, and the same ones again when the tool is retried.
#![cfg(all(not(loom), feature = "http"))]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, StatusCode};
use support::Step;
use support::charges::{Answer, Server, at_once, keys, request, retry};
use tower::{Layer, Service, ServiceExt};
use tower_composure::{
    Attempt, CallContext, Effect, IdempotencyKey, IdempotencyKeyLayer, RetryLayer, Verdict,
    policy_fn,
};

/// A tool that creates a customer and then a charge, and fails the first time.
fn tool<C>(
    client: C,
) -> impl Service<u32, Response = u32, Error = &'static str, Future = impl Future> + Clone
where
    C: Service<Request<()>, Error = &'static str> + Clone,
{
    let attempts = Arc::new(AtomicUsize::new(0));
    tower::service_fn(move |_: u32| {
        let client = client.clone();
        let attempt = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            client.clone().oneshot(request(Method::POST)).await?;
            client.oneshot(request(Method::POST)).await?;
            if attempt == 0 {
                Err("broke afterwards")
            } else {
                Ok(1)
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn two_requests_under_one_key_send_two_and_the_same_two_again() {
    let server = Server::new([Step::Ok(StatusCode::OK)]);
    let layer = at_once(RetryLayer::builder(Effect::IdempotentWrite));
    let service = layer.layer(tool(IdempotencyKeyLayer::new().layer(server.clone())));
    let key = IdempotencyKey::new("turn-3").unwrap();
    key.scope(async { service.oneshot(1).await }).await.unwrap();
    assert_eq!(
        keys(&server),
        [["turn-3"], ["turn-3-2"], ["turn-3"], ["turn-3-2"]]
    );
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_minted_below_a_retry_are_sent_again() {
    let server = Server::new([Step::Ok(StatusCode::OK)]);
    let layer = at_once(RetryLayer::builder(Effect::IdempotentWrite));
    layer
        .layer(tool(IdempotencyKeyLayer::new().layer(server.clone())))
        .oneshot(1)
        .await
        .unwrap();
    let keys = keys(&server);
    assert_eq!(keys.len(), 4);
    assert_ne!(keys[0], keys[1]);
    assert_eq!((&keys[0], &keys[1]), (&keys[2], &keys[3]));
    assert_eq!(keys[1][0], format!("{}-2", keys[0][0]));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_retries_takes_no_key_of_the_request_after_it() {
    // The first request of the tool fails once and is retried by the client, below a key that a caller put in scope.
    let server = Server::new([
        Step::Ok(StatusCode::SERVICE_UNAVAILABLE),
        Step::Ok(StatusCode::OK),
    ]);
    let client = retry().layer(IdempotencyKeyLayer::new().layer(server.clone()));
    let key = IdempotencyKey::new("turn-4").unwrap();
    key.scope(async {
        client.clone().oneshot(request(Method::POST)).await.unwrap();
        client.oneshot(request(Method::POST)).await.unwrap();
    })
    .await;
    assert_eq!(keys(&server), [["turn-4"], ["turn-4"], ["turn-4-2"]]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_retried_over_a_client_that_retries_sends_the_same_two_keys() {
    for (scoped, nested) in [(true, true), (true, false), (false, true), (false, false)] {
        let busy = || Step::Ok(StatusCode::SERVICE_UNAVAILABLE);
        let fine = || Step::Ok(StatusCode::OK);
        // A client below an owner makes one attempt, unless it was told to retry all the same.
        let (answers, expected): (Vec<_>, &[usize]) = if nested {
            (
                vec![busy(), fine(), fine(), fine(), busy(), fine()],
                &[1, 1, 2, 1, 2, 2],
            )
        } else {
            (vec![busy(), fine(), fine(), fine()], &[1, 2, 1, 2])
        };
        let server = Server::new(answers);
        let policy = policy_fn(
            |_: &Attempt, outcome: Result<&Answer, &&str>| match outcome {
                Ok(status) if status.is_server_error() => Verdict::REFUSED,
                _ => Verdict::Success,
            },
        );
        let client = at_once(RetryLayer::builder(policy).nested(nested))
            .layer(IdempotencyKeyLayer::new().layer(server.clone()));
        let service = at_once(RetryLayer::builder(Effect::IdempotentWrite)).layer(tool(client));
        let call = async { service.clone().oneshot(1).await };
        if scoped {
            let key = IdempotencyKey::new("turn-6").unwrap();
            key.scope(call).await.unwrap();
        } else {
            call.await.unwrap();
        }
        let sent: Vec<String> = keys(&server).concat();
        let first = sent[0].clone();
        assert_eq!(first == "turn-6", scoped);
        let expected: Vec<_> = expected
            .iter()
            .map(|ordinal| match ordinal {
                1 => first.clone(),
                _ => format!("{first}-{ordinal}"),
            })
            .collect();
        assert_eq!(sent, expected, "scoped: {scoped}, nested: {nested}");
        assert!(IdempotencyKey::current().is_none(), "nothing is left");
        service.oneshot(1).await.unwrap();
        let next = &keys(&server).concat()[sent.len()..];
        assert!(next[0] != first && next[1] == format!("{}-2", next[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn spawned_requests_share_the_ordinals() {
    let server = Server::new([Step::Ok(StatusCode::OK)]);
    let client = IdempotencyKeyLayer::new().layer(server.clone());
    let key = IdempotencyKey::new("turn-5").unwrap();
    key.scope(async {
        for _ in 0..3 {
            let call = client.clone().oneshot(request(Method::POST));
            let context = CallContext::current();
            tokio::spawn(context.scope(call)).await.unwrap().unwrap();
        }
    })
    .await;
    assert_eq!(keys(&server), [["turn-5"], ["turn-5-2"], ["turn-5-3"]]);
}
