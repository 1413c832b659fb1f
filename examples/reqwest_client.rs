//! A reqwest client in a stack, and what reqwest does by itself.
//!
//! ```text
//! cargo run --example reqwest_client --features reqwest
//! ```
//!
//! A server on a loopback port throttles the first request for each path, and sends a charge on to a receipt.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::Full;
use reqwest::{Body, Request};
use tokio::net::{TcpListener, TcpSocket};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_composure::http::reqwest::{TryCloneRequest, same_method};
use tower_composure::{Backoff, BoxError, CallReport, HttpPolicy, IdempotencyKeyLayer, Stack};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let api = format!("http://{}", listener.local_addr()?);
    let app = Router::new().fallback(answer).with_state(Paths::default());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client = reqwest::Client::builder()
        // One layer owns the retries. What reqwest repeats by itself, no budget hears of.
        .retry(reqwest::retry::never())
        // A redirect that makes a GET of a POST comes back as the response: followed, it would carry the key along, and
        // an error on its way would look as if the POST had never been sent.
        .redirect(same_method(10))
        .build()?;
    let stack = Stack::builder(HttpPolicy::new().redirects_keep_method(true))
        .dependency("shop")
        .backoff(Backoff::exponential(
            Duration::from_millis(10),
            Duration::from_millis(100),
        ))
        .idempotency_key(IdempotencyKeyLayer::new())
        .replay(TryCloneRequest)
        .build()?;
    let shop = ServiceBuilder::new().layer(stack).service(client);

    let of = |method, path: &str| -> Result<Request, BoxError> {
        Ok(Request::new(method, format!("{api}{path}").parse()?))
    };
    call(shop.clone(), of(Method::GET, "/prices")?).await?;
    call(shop.clone(), of(Method::POST, "/charges")?).await?;

    // A body that is a stream cannot be sent again.
    let mut upload = of(Method::PUT, "/uploads")?;
    let stream = Full::<Bytes>::from("a stream");
    *upload.body_mut() = Some(Body::wrap(stream));
    call(shop.clone(), upload).await?;

    // Nobody listens there, so nothing was sent, and any method is safe to repeat.
    let deaf = TcpSocket::new_v4()?;
    deaf.bind(([127, 0, 0, 1], 0).into())?;
    let nobody = deaf.local_addr()?;
    let request = Request::new(Method::POST, format!("http://{nobody}/charges").parse()?);
    call(shop, request).await
}

/// Makes one call and prints how it went.
async fn call<S>(service: S, request: Request) -> Result<(), BoxError>
where
    S: Service<Request, Response = reqwest::Response, Error = BoxError>,
{
    print!("{} {}: ", request.method(), request.url().path());
    let (outcome, report) = CallReport::of(service.oneshot(request)).await;
    match outcome {
        Ok(response) => {
            print!("{}", response.status());
            if let Some(location) = response.headers().get("location") {
                print!(" to {}", location.to_str()?);
            }
        }
        // Its text has the URL in it: not for a log.
        Err(error) if error.downcast_ref().is_some_and(reqwest::Error::is_connect) => {
            print!("no connection");
        }
        Err(error) => return Err(error),
    }
    let report = report.ok_or("a retry layer leaves a report")?;
    print!(", attempts: {}", report.attempts());
    if let Some(reason) = report.stop_reason() {
        print!(", no retry: {}", reason.as_str());
    }
    println!(", outcome unknown: {}", report.outcome_unknown());
    Ok(())
}

/// The paths that were asked for.
type Paths = Arc<Mutex<HashSet<String>>>;

async fn answer(State(paths): State<Paths>, method: Method, uri: Uri) -> (StatusCode, HeaderMap) {
    let mut headers = HeaderMap::new();
    let mut paths = paths.lock().unwrap_or_else(PoisonError::into_inner);
    if paths.insert(uri.path().to_owned()) {
        return (StatusCode::TOO_MANY_REQUESTS, headers);
    }
    if method == Method::POST {
        headers.insert(LOCATION, HeaderValue::from_static("/receipts/1"));
        return (StatusCode::SEE_OTHER, headers);
    }
    (StatusCode::OK, headers)
}
