//! One budget and one breaker for each authority, over real servers.
#![cfg(all(not(loom), feature = "http", feature = "keyed"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/server.rs"]
mod server;

use axum::body::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use proxy::{Fault, Proxy};
use server::Server;
use tower::{ServiceBuilder, ServiceExt};
use tower_composure::http::authority;
use tower_composure::keyed::{Budgets, CircuitBreakers};
use tower_composure::{
    Backoff, BoxError, BreakerOpen, Budget, BudgetLayer, CallReport, CircuitBreaker,
    CircuitBreakerLayer, CircuitState, HttpPolicy, RetryLayer, StopReason,
};

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http()
}

#[tokio::test]
async fn a_dead_server_does_not_take_the_other_s_retries() {
    let server = Server::start().await;
    let alive = Proxy::start(&server, [Fault::ResetCarriedOut]).await;
    let (dead, _held) = proxy::refusing();
    let budgets = Budgets::new("servers", 10, Budget::builder().ratio(0.0).burst(2)).unwrap();
    let retry = RetryLayer::builder(HttpPolicy::new())
        .max_attempts(2)
        .backoff(Backoff::none())
        .build()
        .unwrap();
    let service = ServiceBuilder::new()
        .layer(BudgetLayer::keyed(budgets.clone(), authority))
        .layer(retry)
        .service(client());
    // Three calls would each be sent again; two are.
    let url = format!("http://user:SECRET123@{dead}/");
    let mut stops = Vec::new();
    for _ in 0..3 {
        let (outcome, report) = CallReport::of(service.clone().oneshot(get(&url))).await;
        assert!(outcome.unwrap_err().is_connect());
        stops.push(report.unwrap().stop_reason().unwrap());
    }
    let (last, exhausted) = (StopReason::Attempts, StopReason::BudgetExhausted);
    assert_eq!(stops, [last, last, exhausted]);
    // The other server has its own.
    let url = format!("http://{}/", alive.address);
    let (outcome, report) = CallReport::of(service.oneshot(get(&url))).await;
    assert_eq!(outcome.unwrap().status(), 200);
    assert_eq!(report.unwrap().attempts(), 2);
    assert_eq!(server.seen().len(), 2);
    // Names are printed, so there is no secret in them.
    let left = |name: String| format!("{:.3}", budgets.get(&name).balance());
    assert_eq!(left(dead.to_string()), "0.000");
    assert_eq!(left(alive.address.to_string()), "1.000");
    let names: Vec<_> = budgets.list().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[tokio::test]
async fn a_dead_server_does_not_open_the_other_s_breaker() {
    let server = Server::start().await;
    let (dead, _held) = proxy::refusing();
    let recipe = CircuitBreaker::builder().consecutive_failures(2);
    let breakers = CircuitBreakers::new("servers", 10, recipe).unwrap();
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::keyed(
            breakers.clone(),
            HttpPolicy::new(),
            authority,
        ))
        .service(client());
    let url = format!("http://{dead}/");
    for call in 0..3 {
        let error: BoxError = service.clone().oneshot(get(&url)).await.unwrap_err();
        assert_eq!(BreakerOpen::find(&*error).is_some(), call == 2);
    }
    let response = service.oneshot(get(&server.url())).await.unwrap();
    assert_eq!(response.status(), 200);
    let state = |name: String| breakers.get(&name).state();
    assert_eq!(state(dead.to_string()), CircuitState::Open);
    assert_eq!(state(server.address.to_string()), CircuitState::Closed);
}

#[test]
fn an_authority_is_host_and_port_alone() {
    for (uri, expected) in [
        (
            "http://payments.example:8443/p?q=1",
            Some("payments.example:8443"),
        ),
        (
            "http://user:SECRET123@payments.example/",
            Some("payments.example"),
        ),
        ("http://[::1]:80/", Some("[::1]:80")),
        ("payments.example:443", Some("payments.example:443")),
        ("/path", None),
        ("*", None),
    ] {
        let request = Request::builder().uri(uri).body(()).unwrap();
        assert_eq!(authority(&request), expected, "{uri}");
    }
}
