//! A reqwest client that retries nothing by itself, in a stack.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it"
)]

use http::Method;
use reqwest::{Client, ClientBuilder, Request, Response};
use tower::{Layer, ServiceExt};
use tower_composure::http::reqwest::TryCloneRequest;
use tower_composure::stack::StackBuilder;
use tower_composure::{Backoff, BoxError, CallReport, HttpPolicy, Stack};

pub fn client(builder: ClientBuilder) -> Client {
    builder.retry(reqwest::retry::never()).build().unwrap()
}

pub fn request(method: Method, url: impl AsRef<str>) -> Request {
    let mut request = Request::new(method, url.as_ref().parse().unwrap());
    *request.body_mut() = Some("7 EUR".into());
    request
}

pub fn stack(policy: HttpPolicy) -> StackBuilder<HttpPolicy> {
    Stack::builder(policy)
        .max_attempts(3)
        .backoff(Backoff::none())
}

/// A client in a stack without a key layer, with no redirects.
pub async fn call(
    policy: HttpPolicy,
    client: Client,
    request: Request,
) -> (Result<Response, BoxError>, CallReport) {
    let service = stack(policy)
        .replay(TryCloneRequest)
        .build()
        .unwrap()
        .layer(client);
    let (outcome, report) = CallReport::of(service.oneshot(request)).await;
    (outcome, report.unwrap())
}
