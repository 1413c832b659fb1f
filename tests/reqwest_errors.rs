//! What reqwest's errors and redirects mean, made by a real client and real servers.
#![cfg(all(not(loom), feature = "reqwest"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/reqwest_stack.rs"]
mod reqwest_stack;
#[path = "support/server.rs"]
mod server;

use std::time::Duration;

use http::{Method, StatusCode};
use proxy::{Fault, Proxy};
use reqwest::redirect;
use reqwest::{Client, Request, Response};
use reqwest_stack::{call, client, request};
use server::Server;
use tower::{Layer, ServiceExt};
use tower_composure::http::reqwest::same_method;
use tower_composure::{
    Attempt, BoxError, Effect, HttpPolicy, IdempotencyKeyLayer, Policy, StopReason, Verdict,
};

/// What the policy says of an error that is not boxed.
fn classify(policy: &HttpPolicy, error: &reqwest::Error) -> Verdict {
    let policy: &dyn Policy<Request, Response, reqwest::Error> = policy;
    policy.classify(&Attempt::first(Effect::Read), Err(error))
}

#[tokio::test]
async fn case_040_a_connection_that_was_not_made() {
    let (address, _held) = proxy::refusing();
    let url = format!("http://{address}/");
    for (keep, attempts, stop) in [
        (true, 3, StopReason::Attempts),
        (false, 1, StopReason::OutcomeUnknown),
    ] {
        let policy = HttpPolicy::new().redirects_keep_method(keep);
        let client = client(Client::builder().redirect(same_method(10)));
        let (outcome, report) = call(policy, client, request(Method::POST, &url)).await;
        let error = outcome.unwrap_err();
        let error: &reqwest::Error = error.downcast_ref().unwrap();
        assert!(error.is_connect(), "unchanged");
        assert_eq!(report.attempts(), attempts);
        assert_eq!(report.stop_reason(), Some(stop));
        assert_eq!(report.outcome_unknown(), !keep);
    }
    // What is no request is none at the next attempt either.
    for url in ["ftp://localhost/", "mailto:a@b"] {
        let request = request(Method::GET, url);
        let (outcome, report) = call(HttpPolicy::new(), client(Client::builder()), request).await;
        let error = outcome.unwrap_err();
        let error: &reqwest::Error = error.downcast_ref().unwrap();
        assert!(error.is_builder(), "{url}");
        assert_eq!(report.attempts(), 1, "{url}");
        assert_eq!(report.verdict(), Verdict::Rejected, "{url}");
    }
}

/// The charge is made, the answer sends the client to a page, and nobody answers there: a connect error.
#[tokio::test]
async fn a_connect_error_after_a_redirect_is_no_proof() {
    let server = Server::start().await;
    let (nobody, _held) = proxy::refusing();
    let url = format!("{}to/303/{nobody}", server.url());
    let (outcome, report) = call(
        HttpPolicy::new(),
        client(Client::builder()),
        request(Method::POST, &url),
    )
    .await;
    let error = outcome.unwrap_err();
    let error: &reqwest::Error = error.downcast_ref().unwrap();
    assert!(error.is_connect());
    assert_eq!(
        error.url().unwrap().as_str(),
        url,
        "it does not say which hop"
    );
    assert_eq!(server.seen().len(), 1, "charged once");
    assert_eq!(report.attempts(), 1);
    assert_eq!(report.stop_reason(), Some(StopReason::OutcomeUnknown));
    assert!(report.outcome_unknown());
}

/// The methods and keys that a POST with a key brings to the server, redirected with this status.
async fn redirected(status: u16, policy: redirect::Policy) -> (u16, Vec<(String, bool)>) {
    let server = Server::start().await;
    let service = IdempotencyKeyLayer::new().layer(client(Client::builder().redirect(policy)));
    let url = format!("{}{status}/next", server.url());
    let response = service.oneshot(request(Method::POST, url)).await.unwrap();
    let seen = server.seen();
    let first = seen[0].key().map(str::to_owned);
    let hops = seen.iter().map(|seen| {
        let same = seen.key().is_some() && seen.key() == first.as_deref();
        (format!("{} {}", seen.method, seen.uri), same)
    });
    (response.status().as_u16(), hops.collect())
}

#[tokio::test]
async fn reqwest_takes_the_key_along_on_every_hop() {
    for status in [301, 302, 303] {
        let hops = vec![
            (format!("POST /{status}/next"), true),
            // It is not a write any more and still has the key.
            ("GET /next".to_owned(), true),
        ];
        let default = redirect::Policy::default();
        assert_eq!(redirected(status, default).await, (200, hops));
    }
    for status in [307, 308] {
        let hops = vec![
            (format!("POST /{status}/next"), true),
            ("POST /next".to_owned(), true),
        ];
        let default = redirect::Policy::default();
        assert_eq!(redirected(status, default).await, (200, hops));
    }
}

#[tokio::test]
async fn same_method_takes_the_key_along_with_the_write_alone() {
    for status in [301, 302, 303] {
        let hops = vec![(format!("POST /{status}/next"), true)];
        assert_eq!(redirected(status, same_method(10)).await, (status, hops));
    }
    for status in [307, 308] {
        let hops = vec![
            (format!("POST /{status}/next"), true),
            ("POST /next".to_owned(), true),
        ];
        assert_eq!(redirected(status, same_method(10)).await, (200, hops));
    }
}

#[tokio::test]
async fn too_many_redirects_are_a_fault() {
    let server = Server::start().await;
    let client = client(Client::builder().redirect(same_method(0)));
    let request = request(Method::GET, format!("{}307/next", server.url()));
    let (outcome, report) = call(HttpPolicy::new(), client, request).await;
    let error = outcome.unwrap_err();
    assert!(
        error
            .downcast_ref::<reqwest::Error>()
            .unwrap()
            .is_redirect()
    );
    assert_eq!(report.verdict(), Verdict::Fault);
    assert_eq!(report.attempts(), 1);
}

#[tokio::test]
async fn case_038_reqwest_s_own_timeout_is_unknown() {
    let server = Server::start().await;
    let mut proxy = Proxy::start(&server, [Fault::Silence]).await;
    let timeout = Client::builder().timeout(Duration::from_secs(2));
    let request = request(Method::POST, format!("http://{}/", proxy.address));
    let policy = HttpPolicy::new().redirects_keep_method(true);
    let (outcome, report) = proxy.drive(call(policy, client(timeout), request)).await;
    let error = outcome.unwrap_err();
    let error: &reqwest::Error = error.downcast_ref().unwrap();
    assert!(error.is_timeout() && !error.is_connect());
    assert_eq!(report.verdict(), Verdict::UNKNOWN);
    assert_eq!(report.stop_reason(), Some(StopReason::OutcomeUnknown));
    assert_eq!(server.seen().len(), 1);
}

/// A name that is never resolved, so that connecting takes for ever.
struct NoAnswer;

impl reqwest::dns::Resolve for NoAnswer {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_while_connecting_is_refused() {
    let builder = Client::builder()
        .dns_resolver(NoAnswer)
        .connect_timeout(Duration::from_secs(1));
    let client = client(builder);
    let error = client
        .execute(request(Method::POST, "http://payments/"))
        .await
        .unwrap_err();
    assert!(error.is_timeout() && error.is_connect());
    assert_eq!(classify(&HttpPolicy::new(), &error), Verdict::UNKNOWN);
    let policy = HttpPolicy::new().redirects_keep_method(true);
    assert_eq!(classify(&policy, &error), Verdict::REFUSED);
}

#[tokio::test]
async fn an_error_of_the_body_is_unknown() {
    let server = Server::start().await;
    let proxy = Proxy::start(&server, [Fault::HalfBody]).await;
    let client = client(Client::builder());
    let read = tower::service_fn(move |request: Request| {
        let response = client.execute(request);
        async move { response.await?.text().await }
    });
    let error = read
        .clone()
        .oneshot(request(Method::GET, format!("http://{}/", proxy.address)))
        .await
        .unwrap_err();
    assert!(error.is_body() || error.is_decode(), "{error:?}");
    let policy = HttpPolicy::new().redirects_keep_method(true);
    assert_eq!(classify(&policy, &error), Verdict::UNKNOWN);
}

#[tokio::test]
async fn an_error_made_of_a_status_is_that_status() {
    let policy = HttpPolicy::new().status(StatusCode::IM_A_TEAPOT, Verdict::THROTTLED);
    for (status, verdict) in [
        (418, Verdict::THROTTLED),
        (404, Verdict::Rejected),
        (500, Verdict::Fault),
        (503, Verdict::UNKNOWN),
    ] {
        let response = http::Response::builder().status(status).body("").unwrap();
        let error = Response::from(response).error_for_status().unwrap_err();
        assert_eq!(classify(&policy, &error), verdict, "{status}");
    }
}

#[tokio::test]
async fn an_error_is_found_at_any_depth_and_under_http_requests_too() {
    let (address, _held) = proxy::refusing();
    let sent =
        client(Client::builder()).execute(request(Method::POST, format!("http://{address}/")));
    let error: BoxError = std::io::Error::other(sent.await.unwrap_err()).into();
    let safe = HttpPolicy::new();
    let sure = HttpPolicy::new().redirects_keep_method(true);
    let of = |policy: &dyn Policy<http::Request<()>, http::Response<()>, BoxError>| {
        policy.classify(&Attempt::first(Effect::Write), Err(&error))
    };
    assert_eq!(of(&safe), Verdict::UNKNOWN);
    assert_eq!(of(&sure), Verdict::REFUSED);
}
