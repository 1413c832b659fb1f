//! A hyper-util client of a payment API whose gateway loses answers.
//!
//! ```text
//! cargo run --example hyper_client
//! ```
//!
//! The API is an axum server on a loopback port. It makes each payment, and then its gateway answers the first request
//! for it with a 502. What comes next depends on what may be repeated: a read is, a write with a key is, and the answer
//! is then that to the first request; a write without a key is not, and the caller hears that nobody knows.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, BoxError, Budget, CallReport, HttpPolicy, IdempotencyKeyLayer, Stack,
};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let api = format!("http://{}", listener.local_addr()?);
    let payments = Payments::default();
    let app = Router::new().fallback(pay).with_state(payments.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client = Client::builder(TokioExecutor::new())
        // One layer owns the retries, and this is not it: left on, hyper-util repeats a request by itself when the
        // pooled connection it was given turns out to be dead, and no budget hears of that.
        .retry_canceled_requests(false)
        .build_http::<Full<Bytes>>();
    let stack = Stack::builder(HttpPolicy::new())
        .dependency("payments")
        .backoff(Backoff::exponential(
            Duration::from_millis(10),
            Duration::from_millis(100),
        ))
        .budget(Budget::new(0.1, 20)?);

    // Without a key layer nobody has said that this server honours keys.
    let unkeyed = ServiceBuilder::new()
        .layer(stack.build()?)
        .service(client.clone());
    call(unkeyed.clone(), Method::GET, format!("{api}/balance")).await?;
    call(unkeyed, Method::POST, format!("{api}/refunds/1")).await?;

    // With one, somebody has, and each POST gets a key that is the same on every attempt.
    let stack = Stack::builder(HttpPolicy::new())
        .dependency("payments")
        .idempotency_key(IdempotencyKeyLayer::new())
        .build()?;
    let keyed = ServiceBuilder::new().layer(stack).service(client);
    call(keyed, Method::POST, format!("{api}/charges/1")).await?;

    let most = payments.most_often_made();
    println!("requests that made the same payment again: {}", most - 1);
    Ok(())
}

/// Makes one call and prints how it went.
async fn call<S, B>(service: S, method: Method, url: String) -> Result<(), BoxError>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = BoxError>,
    B: axum::body::HttpBody<Error: Into<BoxError>>,
{
    let path = url.parse::<Uri>()?.path().to_owned();
    let request = Request::builder()
        .method(&method)
        .uri(url)
        .body(Full::from("7 EUR"))?;
    let (outcome, report) = CallReport::of(service.oneshot(request)).await;
    let response = outcome?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(Into::into)?;
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let report = report.ok_or("a retry layer leaves a report")?;
    let attempts = report.attempts();
    println!("{method} {path}: {status} {body}, attempts: {attempts}");
    if let Some(reason) = report.stop_reason() {
        let unknown = report.outcome_unknown();
        println!(
            "    no retry: {}; outcome unknown: {unknown}",
            reason.as_str()
        );
    }
    Ok(())
}

/// What the API has done: how often each payment was asked for and made, by its key, or by its path without one.
#[derive(Clone, Default)]
struct Payments(Arc<Mutex<HashMap<String, Counts>>>);

#[derive(Default)]
struct Counts {
    asked: u32,
    made: u32,
}

impl Payments {
    fn most_often_made(&self) -> u32 {
        let payments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        payments
            .values()
            .map(|counts| counts.made)
            .max()
            .unwrap_or(0)
    }
}

async fn pay(
    State(payments): State<Payments>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> (StatusCode, &'static str) {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let mut payments = payments.0.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = payments
        .entry(key.unwrap_or(uri.path()).to_owned())
        .or_default();
    counts.asked += 1;
    let replayed = key.is_some() && counts.made > 0;
    if method == Method::POST && !replayed {
        counts.made += 1;
    }
    match (counts.asked, replayed) {
        (1, _) => (StatusCode::BAD_GATEWAY, "the answer is lost"),
        (_, true) => (StatusCode::CREATED, "the first answer again"),
        (_, false) => (StatusCode::OK, "100 EUR"),
    }
}
