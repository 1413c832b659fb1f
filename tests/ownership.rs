//! Who repeats a request whose pooled connection turns out to be dead: hyper-util's client, or the retry above it.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/pipe.rs"]
mod pipe;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use axum::body::Bytes;
use http::{Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pipe::Pipe;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tower::{Layer, Service, ServiceExt};
use tower_composure::{
    Backoff, Budget, BudgetLayer, CallReport, HttpPolicy, RetryLayer, StopReason,
};

/// Hands the other ends to the test.
#[derive(Clone)]
struct Connector(mpsc::UnboundedSender<DuplexStream>);

impl Service<Uri> for Connector {
    type Response = TokioIo<Pipe>;
    type Error = Infallible;
    type Future = Ready<Result<TokioIo<Pipe>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (near, far) = duplex(4096);
        self.0.send(far).unwrap();
        ready(Ok(TokioIo::new(Pipe(near))))
    }
}

/// Reads a request without a body, answers it, and gives its first line.
async fn answer(connection: &mut DuplexStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert_ne!(connection.read_buf(&mut request).await.unwrap(), 0);
    }
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    connection.write_all(response).await.unwrap();
    let request = String::from_utf8(request).unwrap();
    request.lines().next().unwrap().to_owned()
}

fn request(method: Method, path: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://payments{path}"))
        .body(Full::default())
        .unwrap()
}

/// What became of a call whose pooled connection had died.
#[derive(Debug, PartialEq)]
struct Told {
    status: Option<u16>,
    attempts: u32,
    stop: Option<StopReason>,
    /// Tokens that the budget gave.
    withdrawn: f64,
    connections: usize,
    /// What the server was asked.
    at_server: Vec<String>,
}

/// A first call leaves its connection in the pool, the server drops it, and in the same breath comes this one.
async fn over_a_dead_connection(
    method: Method,
    hyper_util_retries: bool,
    max_attempts: u32,
) -> Told {
    let (connector, mut accept) = mpsc::unbounded_channel();
    let client: Client<Connector, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(hyper_util_retries)
        .build(Connector(connector));
    let budget = Budget::new(0.0, 10).unwrap();
    let retry = RetryLayer::builder(HttpPolicy::new())
        .max_attempts(max_attempts)
        .backoff(Backoff::none())
        .build()
        .unwrap();
    let service = BudgetLayer::new(budget.clone()).layer(retry.layer(client));

    let mut at_server = Vec::new();
    let warm = service.clone().oneshot(request(Method::GET, "/warm"));
    let first = async {
        let mut connection = accept.recv().await.unwrap();
        at_server.push(answer(&mut connection).await);
        connection
    };
    let (warm, connection) = tokio::join!(warm, first);
    assert_eq!(warm.unwrap().status(), 200);
    // Until it is back in the pool.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    drop(connection);

    let call = CallReport::of(service.oneshot(request(method, "/charge")));
    let mut connections = 1;
    let serving = async {
        while let Some(mut connection) = accept.recv().await {
            connections += 1;
            at_server.push(answer(&mut connection).await);
        }
    };
    let (outcome, report) = tokio::select! {
        biased;
        outcome = call => outcome,
        () = serving => unreachable!("the client lives"),
    };
    let report = report.unwrap();
    Told {
        status: outcome.ok().map(|response| response.status().as_u16()),
        attempts: report.attempts(),
        stop: report.stop_reason(),
        withdrawn: 10.0 - budget.balance(),
        connections,
        at_server,
    }
}

/// A read, and a write without a key: hyper-util gives the request back, which is proof that nothing of it was sent.
const METHODS: [Method; 2] = [Method::GET, Method::POST];

#[tokio::test]
async fn left_on_hyper_util_repeats_it_and_no_budget_hears_of_it() {
    for method in METHODS {
        let charge = format!("{method} /charge HTTP/1.1");
        let told = Told {
            status: Some(200),
            attempts: 1,
            stop: None,
            withdrawn: 0.0,
            connections: 2,
            at_server: vec!["GET /warm HTTP/1.1".to_owned(), charge],
        };
        assert_eq!(over_a_dead_connection(method, true, 3).await, told);
    }
}

#[tokio::test]
async fn turned_off_the_retry_does_it_and_spends_a_token() {
    for method in METHODS {
        let charge = format!("{method} /charge HTTP/1.1");
        let told = Told {
            status: Some(200),
            attempts: 2,
            stop: None,
            withdrawn: 1.0,
            connections: 2,
            at_server: vec!["GET /warm HTTP/1.1".to_owned(), charge],
        };
        assert_eq!(over_a_dead_connection(method, false, 3).await, told);
    }
}

#[tokio::test]
async fn turned_off_with_one_attempt_nobody_does_it() {
    for method in METHODS {
        let told = Told {
            status: None,
            attempts: 1,
            stop: Some(StopReason::Attempts),
            withdrawn: 0.0,
            connections: 1,
            at_server: vec!["GET /warm HTTP/1.1".to_owned()],
        };
        assert_eq!(over_a_dead_connection(method, false, 1).await, told);
    }
}
