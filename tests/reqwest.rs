//! The layers around a real reqwest client and real servers.
#![cfg(all(not(loom), feature = "reqwest"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/reqwest_stack.rs"]
mod reqwest_stack;
#[path = "support/server.rs"]
mod server;

use std::time::Duration;

use axum::body::Bytes;
use http::{Method, StatusCode};
use http_body_util::Full;
use proxy::{Fault, Proxy};
use reqwest::{Client, Request, Response};
use reqwest_stack::{call, client, request, stack};
use server::{BODY, Server};
use static_assertions::assert_impl_all;
use tower::{Layer, Service, ServiceExt};
use tower_composure::http::DrainBody;
use tower_composure::http::reqwest::{TryCloneRequest, authority};
use tower_composure::retry::{DropResponse, Release};
use tower_composure::stack::StackService;
use tower_composure::{
    Attempt, Backoff, BoxError, CallReport, Effect, HttpPolicy, IdempotencyKey,
    IdempotencyKeyLayer, Jitter, Policy, RetryLayer, Stack, StopReason,
};

// The whole preset over a client can be named.
type Charges = StackService<Client, HttpPolicy, IdempotencyKeyLayer, TryCloneRequest>;

assert_impl_all!(Charges: Send, Sync, Clone, Service<Request, Response = Response, Error = BoxError>);
assert_impl_all!(<Charges as Service<Request>>::Future: Send);
assert_impl_all!(TryCloneRequest: Send, Sync, Unpin, Copy);

#[tokio::test]
async fn case_136_one_key_goes_with_every_attempt() {
    let server = Server::start().await;
    let proxy = Proxy::start(&server, [Fault::ResetCarriedOut, Fault::ResetUnread]).await;
    let stack: Stack<HttpPolicy, IdempotencyKeyLayer, TryCloneRequest> = stack(HttpPolicy::new())
        .idempotency_key(IdempotencyKeyLayer::new())
        .replay(TryCloneRequest)
        .build()
        .unwrap();
    let service: Charges = stack.layer(client(Client::builder()));
    let url = format!("http://{}/", proxy.address);
    let response = service
        .clone()
        .oneshot(request(Method::POST, &url))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let report = *response.extensions().get::<CallReport>().unwrap();
    assert_eq!(report.attempts(), 3);
    assert_eq!(response.text().await.unwrap(), BODY);
    service.oneshot(request(Method::POST, &url)).await.unwrap();

    let seen = server.seen();
    assert_eq!(seen.len(), 3, "one was reset unread");
    assert_eq!(seen[0].body, "7 EUR");
    assert_eq!(
        seen[0].headers, seen[1].headers,
        "the same key and all else"
    );
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!(seen[0].key().unwrap().len(), 36, "a UUID");
    assert_ne!(seen[2].key(), seen[0].key(), "another call, another key");
}

#[tokio::test]
async fn case_135_the_caller_s_key_wins() {
    let server = Server::start().await;
    let layer = IdempotencyKeyLayer::new()
        .key_fn(|_: &Request| -> IdempotencyKey { unreachable!("there is a key") });
    let service = layer.layer(client(Client::builder()));
    let mut request = request(Method::POST, server.url());
    let headers = request.headers_mut();
    headers.insert("Idempotency-Key", "abc".parse().unwrap());
    service.oneshot(request).await.unwrap();
    let seen = server.seen();
    let keys: Vec<_> = seen[0].headers.get_all("idempotency-key").iter().collect();
    assert_eq!(keys, ["abc"]);
}

#[tokio::test]
async fn case_140_only_what_is_not_idempotent_gets_a_key() {
    let server = Server::start().await;
    let service = IdempotencyKeyLayer::new()
        .key_fn(|request: &Request| IdempotencyKey::new(request.url().path()).unwrap())
        .layer(client(Client::builder()));
    let methods = [
        Method::GET,
        Method::PUT,
        Method::DELETE,
        Method::POST,
        Method::PATCH,
    ];
    for method in methods {
        let request = request(method, server.url());
        service.clone().oneshot(request).await.unwrap();
    }
    let keys: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.key().map(str::to_owned))
        .collect();
    let key = || Some("/".to_owned());
    assert_eq!(keys, [None, None, None, key(), key()]);
}

#[tokio::test]
async fn case_037_a_post_is_not_repeated_because_it_could_be_copied() {
    for (policy, key, attempts) in [
        (HttpPolicy::new(), None, 1),
        (HttpPolicy::new(), Some("order-7"), 1),
        (HttpPolicy::new().server_honours_keys(true), None, 1),
        (
            HttpPolicy::new().server_honours_keys(true),
            Some("order-7"),
            2,
        ),
        // An empty key is none.
        (HttpPolicy::new().server_honours_keys(true), Some(""), 1),
        (
            HttpPolicy::new().method(Method::POST, Effect::Read),
            None,
            2,
        ),
    ] {
        let server = Server::start().await;
        let proxy = Proxy::start(&server, [Fault::ResetCarriedOut]).await;
        let mut request = request(Method::POST, format!("http://{}/", proxy.address));
        if let Some(key) = key {
            let headers = request.headers_mut();
            headers.insert("idempotency-key", key.parse().unwrap());
        }
        let what = format!("{policy:?} {key:?}");
        let (_, report) = call(policy, client(Client::builder()), request).await;
        assert_eq!(report.attempts(), attempts, "{what}");
        assert_eq!(server.seen().len(), attempts as usize, "{what}");
        assert_eq!(report.outcome_unknown(), attempts == 1, "{what}");
    }
}

#[tokio::test]
async fn case_056_a_stream_is_sent_once() {
    let server = Server::start().await;
    let proxy = Proxy::start(&server, [Fault::ResetCarriedOut]).await;
    let mut request = request(Method::PUT, format!("http://{}/", proxy.address));
    *request.body_mut() = Some(reqwest::Body::wrap(Full::<Bytes>::from("a stream")));
    assert!(request.try_clone().is_none());
    let (outcome, report) = call(HttpPolicy::new(), client(Client::builder()), request).await;
    assert!(outcome.is_err());
    assert_eq!(report.attempts(), 1);
    assert_eq!(report.stop_reason(), Some(StopReason::NotReplayable));
    assert!(report.outcome_unknown());
    let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies, ["a stream"]);
}

#[tokio::test]
async fn case_057_length_and_body_travel_together() {
    let server = Server::start().await;
    let faults = [Fault::ResetCarriedOut, Fault::ResetCarriedOut];
    let proxy = Proxy::start(&server, faults).await;
    let request = request(Method::PUT, format!("http://{}/", proxy.address));
    let (outcome, _) = call(HttpPolicy::new(), client(Client::builder()), request).await;
    assert_eq!(outcome.unwrap().status(), StatusCode::OK);
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    for seen in seen {
        let lengths: Vec<_> = seen.headers.get_all("content-length").iter().collect();
        assert_eq!(lengths, ["5"]);
        assert_eq!(seen.body, "7 EUR");
    }
}

#[test]
fn the_authority_is_host_and_port_alone() {
    let of = |url: &str| authority(&request(Method::GET, url)).map(str::to_owned);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        of("https://u:SECRET123@Payments.example:8443/p?sig=SECRET123"),
        some("payments.example:8443")
    );
    assert_eq!(of("https://payments.example/"), some("payments.example"));
    assert_eq!(of("http://u%40h:p@[::1]:80/"), some("[::1]"));
    assert_eq!(of("mailto:a@b"), None);
}

#[tokio::test]
async fn case_019_a_reqwest_response_s_hint_counts() {
    let policy = HttpPolicy::new();
    let policy: &dyn Policy<Request, Response, reqwest::Error> = &policy;
    let response = http::Response::builder()
        .status(503)
        .header("retry-after", "7")
        .body("")
        .unwrap();
    let response = Response::from(response);
    let verdict = policy.classify(&Attempt::first(Effect::Read), Ok(&response));
    assert_eq!(verdict.hint().unwrap().wait(), Duration::from_secs(7));
    assert!(verdict.is_unknown());
}

/// The connections that three attempts at a large error take.
async fn connections<L>(release: L) -> usize
where
    L: Release<Response, Future: Send> + Send + Sync + 'static,
{
    let server = Server::start().await;
    let proxy = Proxy::start(&server, []).await;
    let service = Stack::builder(HttpPolicy::new())
        .max_attempts(3)
        .backoff(Backoff::constant(Duration::from_millis(50)).jitter(Jitter::None))
        .replay(TryCloneRequest)
        .release(release)
        .build()
        .unwrap()
        .layer(client(Client::builder()));
    let url = format!("http://{}/large/503", proxy.address);
    let call = CallReport::of(service.oneshot(request(Method::GET, url)));
    let (outcome, report) = call.await;
    assert_eq!(outcome.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(report.unwrap().attempts(), 3);
    proxy.connections()
}

#[tokio::test]
async fn a_connection_survives_the_responses_that_lose() {
    assert!(connections(DropResponse).await > 1);
    assert_eq!(connections(DrainBody::new()).await, 1);
}

/// The retry alone, whose error type stays reqwest's.
#[tokio::test]
async fn a_retry_alone_keeps_the_error_type() {
    let (address, _held) = proxy::refusing();
    let retry = RetryLayer::builder(HttpPolicy::new())
        .backoff(Backoff::none())
        .replay(TryCloneRequest)
        .build()
        .unwrap();
    let service = retry.layer(client(Client::builder()));
    let call = service.oneshot(request(Method::GET, format!("http://{address}/")));
    let (outcome, report) = CallReport::of(call).await;
    let error: reqwest::Error = outcome.unwrap_err();
    assert!(error.is_connect());
    assert_eq!(report.unwrap().attempts(), 4);
}
