//! A server that reads how much time its caller has: strictly, never lengthening, and over real sockets.
#![cfg(all(not(loom), feature = "http"))]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test may, and reads the paused clock"
)]

mod support;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::routing::get;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use support::{Script, Step};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, Deadline, DeadlineExceeded, DeadlineFromHeaderLayer, DeadlineHeaderLayer,
    DeadlineLayer, HttpPolicy, RetryLayer, Stack, http as composure,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const X_TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

fn layer() -> DeadlineFromHeaderLayer {
    DeadlineFromHeaderLayer::millis(X_TIMEOUT)
}

fn request(values: &[&str]) -> Request<Body> {
    let mut request = Request::get("/");
    for value in values {
        request = request.header(X_TIMEOUT, *value);
    }
    request.body(Body::empty()).unwrap()
}

fn retry(backoff: Backoff) -> RetryLayer<HttpPolicy> {
    let layer = RetryLayer::builder(HttpPolicy::new());
    layer.backoff(backoff).build().unwrap()
}

/// How much time a handler sees, when it is called and when it is polled.
async fn seen(layer: DeadlineFromHeaderLayer, values: &[&str]) -> Option<Duration> {
    let remaining = || Deadline::current().map(|deadline| deadline.remaining());
    let service = layer.layer(tower::service_fn(move |_: Request<Body>| {
        let called = remaining();
        async move {
            let polled = remaining();
            assert_eq!(called, polled);
            Ok::<_, Infallible>(polled)
        }
    }));
    let seen = service.oneshot(request(values)).await.unwrap();
    assert_eq!(Deadline::current(), None, "the scope has ended");
    seen
}

#[tokio::test(start_paused = true)]
async fn a_valid_header_is_a_deadline_and_no_other() {
    assert_eq!(seen(layer(), &["250"]).await, Some(250 * MS));
    assert_eq!(seen(layer(), &["0"]).await, Some(Duration::ZERO));
    for none in [&[][..], &[""], &["soon"], &["-1"], &["1.5"], &["250m"]] {
        assert_eq!(seen(layer(), none).await, None, "{none:?}");
        let limited = layer().default_limit(3 * SECOND);
        assert_eq!(seen(limited, none).await, Some(3 * SECOND), "{none:?}");
    }
    // As long as it takes.
    assert_eq!(seen(layer(), &["99999999999999999999"]).await, None);
    assert_eq!(
        seen(layer(), &["400", "soon", "250", "300"]).await,
        Some(250 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn no_request_has_more_than_the_longest() {
    let limited = layer().default_limit(3 * SECOND).max_limit(SECOND);
    for values in [&[][..], &["soon"], &["1001"], &["99999999999999999999"]] {
        assert_eq!(
            seen(limited.clone(), values).await,
            Some(SECOND),
            "{values:?}"
        );
    }
    assert_eq!(seen(limited, &["999"]).await, Some(999 * MS));
    assert_eq!(seen(layer().max_limit(SECOND), &[]).await, Some(SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_nearer_deadline_in_scope_stays_and_so_does_who_ends_it() {
    for (outer, header) in [(100, "250"), (400, "250"), (250, "250")] {
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::call(outer * MS))
            .layer(layer())
            .service_fn(|_| async { Ok::<_, BoxError>(Deadline::current().unwrap().remaining()) });
        let seen = service.oneshot(request(&[header])).await.unwrap();
        assert_eq!(seen, (outer * MS).min(250 * MS));
    }

    let server = Script::<Request<()>, Response<()>, &str>::new([
        Step::Ok(Response::builder().status(503).body(()).unwrap()),
        Step::Hang,
    ]);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::call(100 * MS))
        .layer(layer())
        .layer(retry(Backoff::none()))
        .layer(DeadlineLayer::attempt(3 * SECOND))
        .service(server);
    let error = service
        .oneshot(request(&["250"]).map(drop))
        .await
        .unwrap_err();
    let exceeded = DeadlineExceeded::find(&*error).unwrap();
    assert_eq!(
        exceeded.report().unwrap().attempts(),
        2,
        "the outer layer knows"
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_above_ends_is_ended_below() {
    for limit in [
        DeadlineLayer::attempt(3 * SECOND),
        DeadlineLayer::call(3 * SECOND),
    ] {
        let start = Instant::now();
        let hanging = Script::<Request<String>, (), &str>::new([Step::Hang]);
        let service = layer().layer(limit.layer(hanging.clone()));
        let request = Request::get("/")
            .header(X_TIMEOUT, "250")
            .body(String::new());
        let outcome = timeout(SECOND, service.oneshot(request.unwrap())).await;
        let error = outcome.unwrap().unwrap_err();
        assert!(DeadlineExceeded::find(&*error).unwrap().is_call());
        assert_eq!(start.elapsed(), 250 * MS);
        assert_eq!(hanging.in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_already_up_calls_nobody() {
    let server = Script::<Request<String>, (), &str>::new([Step::Ok(())]);
    let service = layer().layer(DeadlineLayer::call(SECOND).layer(server.clone()));
    let request = Request::get("/").header(X_TIMEOUT, "0").body(String::new());
    let error = service.oneshot(request.unwrap()).await.unwrap_err();
    assert!(DeadlineExceeded::find(&*error).unwrap().is_before_call());
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_router_keeps_its_error_and_ends_with_its_caller() {
    let slow = || async {
        sleep(300 * MS).await;
        "done"
    };
    // The scope alone ends nothing, and cannot fail.
    let app: Router = Router::new().route("/", get(slow)).layer(layer());
    let response: Result<Response<Body>, Infallible> = app.oneshot(request(&["250"])).await;
    assert_eq!(response.unwrap().status(), StatusCode::OK);

    let app: Router = Router::new().route("/", get(slow)).layer(
        ServiceBuilder::new()
            .layer(layer())
            .layer(HandleErrorLayer::new(|error: BoxError| async move {
                composure::error_response::<Body>(&*error)
            }))
            .layer(DeadlineLayer::call(SECOND)),
    );
    for (header, expected, after) in [
        ("250", StatusCode::GATEWAY_TIMEOUT, 250),
        ("2000", StatusCode::OK, 300),
        ("soon", StatusCode::OK, 300),
    ] {
        let start = Instant::now();
        let response = app.clone().oneshot(request(&[header])).await.unwrap();
        assert_eq!(response.status(), expected, "{header}");
        assert_eq!(start.elapsed(), after * MS, "{header}");
    }
}

// Over sockets.

/// A test that hangs has failed.
const HANG: Duration = Duration::from_secs(20);

async fn serve(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/")
}

fn http_client() -> Client<HttpConnector, Body> {
    Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http()
}

/// What a server was told, and what it then believed.
type Log = Arc<Mutex<Vec<(u64, Duration)>>>;

fn note(log: &Log, headers: &HeaderMap) {
    let told = headers[X_TIMEOUT].to_str().unwrap().parse().unwrap();
    let believed = Deadline::current().unwrap().remaining();
    log.lock().unwrap().push((told, believed));
}

/// Calls on with the deadline in scope and the retries of its own.
async fn call_on(uri: String) -> Result<Response<impl Sized>, BoxError> {
    let stack = Stack::builder(HttpPolicy::new())
        .call_deadline(60 * SECOND)
        .attempt_deadline(60 * SECOND)
        .backoff(Backoff::none())
        .build()?;
    let service = ServiceBuilder::new()
        .layer(stack)
        .layer(DeadlineHeaderLayer::millis(X_TIMEOUT))
        .map_request(|request: Request<()>| request.map(|()| Body::empty()))
        .service(http_client());
    service.oneshot(Request::get(uri).body(())?).await
}

#[tokio::test]
async fn a_deadline_crosses_two_servers_and_only_shrinks() {
    let (at_a, at_b) = (Log::default(), Log::default());

    let log = Arc::clone(&at_b);
    let last = move |headers: HeaderMap| async move {
        note(&log, &headers);
        match log.lock().unwrap().len() {
            1 => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        }
    };
    let b = serve(Router::new().route("/", get(last)).layer(layer())).await;

    let log = Arc::clone(&at_a);
    let middle = move |headers: HeaderMap| async move {
        note(&log, &headers);
        call_on(b)
            .await
            .map_or(StatusCode::BAD_GATEWAY, |response| response.status())
    };
    let a = serve(Router::new().route("/", get(middle)).layer(layer())).await;

    let limit = 10 * SECOND;
    let client = DeadlineLayer::call(limit).layer(tower::service_fn(call_on));
    let response = timeout(HANG, client.oneshot(a)).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);

    let (at_a, at_b) = (at_a.lock().unwrap(), at_b.lock().unwrap());
    let [(told_a, believed_a)] = at_a[..] else {
        panic!("{at_a:?}");
    };
    let [(told_b, believed_b), (again_b, believed_again)] = at_b[..] else {
        panic!("{at_b:?}");
    };
    let never_grows = [
        limit,
        Duration::from_millis(told_a),
        believed_a,
        Duration::from_millis(told_b),
        believed_b,
    ];
    assert!(
        never_grows.is_sorted_by(|one, next| one >= next),
        "{never_grows:?}"
    );
    assert!(again_b <= told_b && believed_again <= Duration::from_millis(again_b));
    assert!(believed_again > Duration::ZERO);
}

/// Says that it was dropped.
struct Dropped(Option<tokio::sync::oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[tokio::test]
async fn when_the_time_is_up_no_server_works_on() {
    let (dropped, is_dropped) = tokio::sync::oneshot::channel();
    let dropped = Arc::new(Mutex::new(Some(dropped)));
    let hang = move || {
        let dropped = Dropped(dropped.lock().unwrap().take());
        async move {
            let _dropped = dropped;
            std::future::pending::<()>().await;
        }
    };
    let b = serve(Router::new().route("/", get(hang))).await;
    let middle = move || async move {
        call_on(b)
            .await
            .map(|_| ())
            .map_err(|_| StatusCode::BAD_GATEWAY)
    };
    let a = serve(
        Router::new().route("/", get(middle)).layer(
            ServiceBuilder::new()
                .layer(layer())
                .layer(HandleErrorLayer::new(|error: BoxError| async move {
                    composure::error_response::<Body>(&*error)
                }))
                .layer(DeadlineLayer::call(60 * SECOND)),
        ),
    )
    .await;
    let request = Request::get(a).header(X_TIMEOUT, "100").body(Body::empty());
    let answer = http_client().request(request.unwrap());
    let response = timeout(HANG, answer).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    timeout(HANG, is_dropped).await.unwrap().unwrap();
}
