//! A body that drips: where it is collected inside of the attempt it is timed with it, and else it is its reader's.
#![cfg(all(not(loom), feature = "http"))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/server.rs"]
mod server;

use axum::body::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use proxy::{Fault, Proxy};
use server::{BODY, Server};
use tower::{ServiceBuilder, ServiceExt};
use tower_composure::http::CollectBodyLayer;
use tower_composure::{Backoff, CallReport, HttpPolicy, Stack};

fn client() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http()
}

fn stack() -> Stack<HttpPolicy> {
    Stack::builder(HttpPolicy::new())
        .max_attempts(2)
        .backoff(Backoff::none())
        .build()
        .unwrap()
}

fn get(proxy: &Proxy) -> Request<Empty<Bytes>> {
    let request = Request::get(format!("http://{}/", proxy.address));
    request.body(Empty::new()).unwrap()
}

async fn text<B: Body>(response: Response<B>) -> Option<Vec<u8>> {
    let collected = response.into_body().collect().await.ok()?;
    Some(collected.to_bytes().to_vec())
}

#[tokio::test]
async fn a_body_that_drips_ends_with_the_attempt_where_it_is_collected() {
    let server = Server::start().await;
    let mut proxy = Proxy::start(&server, [Fault::DripBody]).await;
    let service = ServiceBuilder::new()
        .layer(stack())
        .layer(CollectBodyLayer::new().all())
        .service(client());
    let call = CallReport::of(service.oneshot(get(&proxy)));
    let (outcome, report) = proxy.drive(call).await;
    let response = outcome.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(report.unwrap().attempts(), 2);
    assert_eq!(proxy.connections(), 2);
    assert_eq!(text(response).await.as_deref(), Some(BODY.as_bytes()));
}

#[tokio::test]
async fn a_body_that_drips_is_its_reader_s_otherwise() {
    let server = Server::start().await;
    let mut proxy = Proxy::start(&server, [Fault::DripBody]).await;
    let service = ServiceBuilder::new().layer(stack()).service(client());
    let (outcome, report) = CallReport::of(service.oneshot(get(&proxy))).await;
    let response = outcome.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(report.unwrap().attempts(), 1);
    proxy.until_stalled(text(response)).await;
    assert_eq!(proxy.connections(), 1);
}
