//! The layers around a real axum router, and a real client around a real server.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::routing::{get, post};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, BoxError, Budget, BudgetLayer, CallReport, CircuitBreaker, CircuitBreakerLayer,
    DeadlineLayer, Effect, HttpPolicy, IdempotencyKeyLayer, RetryLayer, Stack, http as composure,
};

fn request() -> Request<Body> {
    Request::get("/").body(Body::empty()).unwrap()
}

/// A mapper from our errors to responses, as a router needs it.
macro_rules! mapped {
    ($($layer:expr),+) => {
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(|error: BoxError| async move {
                composure::error_response::<Body>(&*error)
            }))
            $(.layer($layer))+
    };
}

#[tokio::test]
async fn case_075_a_breaker_survives_a_layer_a_request() {
    let breaker = CircuitBreaker::builder()
        .window(10)
        .minimum_calls(5)
        .build()
        .unwrap();
    let app: Router = Router::new()
        .route("/", get(|| async { StatusCode::BAD_GATEWAY }))
        .layer(mapped!(CircuitBreakerLayer::new(
            breaker.clone(),
            HttpPolicy::new()
        )));
    for _ in 0..5 {
        let response = app.clone().oneshot(request()).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    }
    let response = app.oneshot(request()).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let after: u64 = response.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=5).contains(&after), "{after}");
    assert_eq!(breaker.metrics().rejected(), 1);
}

/// A request that can be copied.
#[derive(Clone)]
struct Ask;

#[tokio::test]
async fn case_075_a_budget_survives_a_layer_a_request() {
    let layer = BudgetLayer::new(Budget::new(0.0, 1).unwrap());
    let calls = Arc::new(AtomicU32::new(0));
    let retry = RetryLayer::builder(Effect::Read)
        .backoff(Backoff::none())
        .max_attempts(2)
        .build()
        .unwrap();
    for _ in 0..2 {
        let count = Arc::clone(&calls);
        // As axum does it: the layer is applied anew.
        let service = layer.layer(retry.layer(tower::service_fn(move |_: Ask| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Err::<(), _>("down") }
        })));
        service.oneshot(Ask).await.unwrap_err();
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3, "one token, one retry");
}

#[tokio::test(start_paused = true)]
async fn case_078_our_errors_become_responses_and_the_rest_fits_as_it_is() {
    let slow = || async {
        std::future::pending::<()>().await;
    };
    let app: Router = Router::new().route("/", get(slow)).layer(mapped!(
        CircuitBreakerLayer::new(CircuitBreaker::default(), HttpPolicy::new()),
        DeadlineLayer::call(Duration::from_secs(1))
    ));
    let response = app.oneshot(request()).await.unwrap();
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);

    // Layers that cannot fail keep the error type that a router wants.
    let app: Router = Router::new()
        .route("/", get(|| async { "calm" }))
        .layer(BudgetLayer::default())
        .layer(IdempotencyKeyLayer::new());
    let response: Result<Response<Body>, Infallible> = app.oneshot(request()).await;
    assert_eq!(response.unwrap().status(), StatusCode::OK);
}

#[test]
fn an_open_breaker_says_when_to_come_back() {
    let response = |error: BoxError| composure::error_response::<()>(&*error);
    let other = response("something else".into());
    assert_eq!(other.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(other.headers().is_empty());
}

#[tokio::test]
async fn a_real_client_retries_through_a_real_server() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let app = Router::new().route(
        "/charges",
        post(move |headers: http::HeaderMap, body: String| {
            let key = headers["idempotency-key"].clone();
            let mut log = log.lock().unwrap();
            log.push((key, body));
            let status = match log.len() {
                1 => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::CREATED,
            };
            async move { (status, "charged") }
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });

    // hyper-util repeats requests whose pooled connection was dead; with one owner of retries it must not.
    let client = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http::<Full<axum::body::Bytes>>();
    let service = Stack::builder(HttpPolicy::new())
        .backoff(Backoff::none())
        .idempotency_key(IdempotencyKeyLayer::new())
        .build()
        .unwrap()
        .layer(client);
    let request = Request::post(format!("http://{address}/charges")).body(Full::from("7 EUR"));
    let response = service.clone().oneshot(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let report = *response.extensions().get::<CallReport>().unwrap();
    assert_eq!(report.attempts(), 2);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "charged");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1], "the same key and the same body");
    assert_eq!(seen[0].1, "7 EUR");
}

#[tokio::test]
async fn a_connection_that_nobody_accepts_is_refused_and_safe_for_any_method() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<axum::body::Bytes>>();
    let retry = RetryLayer::builder(HttpPolicy::new()).backoff(Backoff::none());
    let service = retry.max_attempts(3).build().unwrap().layer(client);
    let request = Request::post(format!("http://{address}/")).body(Full::from("x"));
    let (outcome, report) = CallReport::of(service.oneshot(request.unwrap())).await;
    assert!(outcome.unwrap_err().is_connect());
    assert_eq!(report.unwrap().attempts(), 3);
    assert!(!report.unwrap().outcome_unknown());
}
