//! An axum gateway that calls a flaky upstream through the stack.
//!
//! ```text
//! cargo run --example axum_gateway
//! ```
//!
//! Upstream, gateway and caller are in one process, over real sockets. The gateway owns the retries: its caller makes one
//! attempt, and so does hyper-util below it. A deadline around the router bounds what a request may take: the caller's,
//! where it sends one in a header, and at most a second. The stack inside the handler finds it in scope: it never starts
//! an attempt, or a wait, that would not end in time, and tells the upstream how much time is left.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::error_handling::HandleErrorLayer;
use axum::extract::State;
use axum::routing::get;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tower::{ServiceBuilder, ServiceExt};
use tower_composure::stack::StackService;
use tower_composure::wire::DeadlineHeaderService;
use tower_composure::{
    Backoff, BoxError, CallReport, CircuitBreaker, DeadlineFromHeaderLayer, DeadlineHeaderLayer,
    DeadlineLayer, HttpPolicy, Stack, http as composure,
};

type Client = legacy::Client<HttpConnector, Full<Bytes>>;

/// The milliseconds that are left, between services that have agreed on it.
const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

/// What each handler has a clone of: they share connections, budget and breaker.
#[derive(Clone)]
struct Gateway {
    upstream: String,
    client: StackService<DeadlineHeaderService<Client>, HttpPolicy>,
}

/// The requests that the upstream has seen.
#[derive(Clone, Default)]
struct Seen {
    all: Arc<AtomicU32>,
    /// Those that came with a deadline no later than the caller's.
    in_time: Arc<AtomicU32>,
}

/// The time that the caller gives the gateway.
const CALLER_MILLIS: u32 = 800;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let seen = Seen::default();
    let upstream = serve(upstream(&seen)).await?;
    let gateway = serve(gateway(upstream)?).await?;
    let caller = client();
    for path in ["flaky", "silent", "down", "down", "down", "flaky"] {
        let request = Request::get(format!("{gateway}/{path}")).header(TIMEOUT, CALLER_MILLIS);
        let response = caller.request(request.body(Full::default())?).await?;
        let status = response.status();
        let all = seen.all.swap(0, Ordering::Relaxed);
        let in_time = seen.in_time.swap(0, Ordering::Relaxed);
        print!("GET /{path}: {status}, requests upstream: {all}, with a deadline: {in_time}");
        if let Some(seconds) = response.headers().get("retry-after") {
            print!(", retry after: {} s", seconds.to_str()?);
        }
        println!();
    }
    Ok(())
}

fn client() -> Client {
    legacy::Client::builder(TokioExecutor::new())
        // One layer owns the retries, and this is not it: left on, hyper-util repeats a request by itself when the
        // pooled connection it was given turns out to be dead, and no budget hears of that.
        .retry_canceled_requests(false)
        .build_http()
}

/// The gateway. What its layers answer with an error becomes a response: a 504 for the deadline, say.
fn gateway(upstream: String) -> Result<Router, BoxError> {
    let breaker = CircuitBreaker::builder()
        .consecutive_failures(3)
        .open_jitter(0.0);
    let stack = Stack::builder(HttpPolicy::new())
        .dependency("upstream")
        .breaker(breaker.probe_lease(Duration::from_secs(8)).build()?)
        .backoff(Backoff::constant(Duration::from_millis(10)))
        .max_attempts(3)
        .build()?;
    let client = ServiceBuilder::new()
        .layer(stack)
        .layer(DeadlineHeaderLayer::millis(TIMEOUT))
        .service(client());
    Ok(Router::new()
        .fallback(pass_on)
        .layer(
            ServiceBuilder::new()
                .layer(DeadlineFromHeaderLayer::millis(TIMEOUT))
                .layer(HandleErrorLayer::new(|error: BoxError| async move {
                    composure::error_response::<Body>(&*error)
                }))
                .layer(DeadlineLayer::call(Duration::from_secs(1))),
        )
        .with_state(Gateway { upstream, client }))
}

/// Passes a request on, and what comes back. An open breaker is a 503 that says when to come back.
async fn pass_on(State(gateway): State<Gateway>, uri: Uri) -> Response<Body> {
    let request = Request::get(format!("{}{}", gateway.upstream, uri.path())).body(Full::default());
    let Ok(request) = request else {
        return composure::error_response(&io::Error::other("no URI"));
    };
    let (outcome, _report) = CallReport::of(gateway.client.oneshot(request)).await;
    match outcome {
        Ok(response) => response.map(Body::new),
        Err(error) => composure::error_response(&*error),
    }
}

/// A service that fails in three ways.
fn upstream(seen: &Seen) -> Router {
    let (at_flaky, at_silent, at_down) = (seen.clone(), seen.clone(), seen.clone());
    let flaky = Arc::new(AtomicU32::new(0));
    Router::new()
        .route(
            "/flaky",
            get(|headers: HeaderMap| async move {
                at_flaky.count(&headers);
                match flaky.fetch_add(1, Ordering::Relaxed) % 3 {
                    2 => StatusCode::OK,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                }
            }),
        )
        .route(
            "/silent",
            get(|headers: HeaderMap| async move {
                at_silent.count(&headers);
                pending::<()>().await;
            }),
        )
        .route(
            "/down",
            get(|headers: HeaderMap| async move {
                at_down.count(&headers);
                StatusCode::SERVICE_UNAVAILABLE
            }),
        )
}

impl Seen {
    fn count(&self, headers: &HeaderMap) {
        self.all.fetch_add(1, Ordering::Relaxed);
        let millis = headers.get(TIMEOUT).and_then(|value| value.to_str().ok());
        let millis = millis.and_then(|millis| millis.parse::<u32>().ok());
        if millis.is_some_and(|millis| millis <= CALLER_MILLIS) {
            self.in_time.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Serves on a free port, and gives the address.
async fn serve(app: Router) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(format!("http://{address}"))
}
