//! What goes on the wire: attempt numbers and deadlines, as a server receives them.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderName, Request, Response};
use static_assertions::assert_impl_all;
use support::{Script, Step};
use tokio::time::{sleep, timeout};
use tokio_test::task::spawn;
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};
use tower_composure::wire::{
    DeadlineFromHeaderFuture, DeadlineHeaderFuture, Numbering, TimeoutFormat,
};
use tower_composure::{
    AttemptHeaderLayer, Backoff, CallReport, Deadline, DeadlineExceeded, DeadlineFromHeaderLayer,
    DeadlineHeaderLayer, DeadlineLayer, HttpPolicy, Jitter, RetryLayer, StopReason,
};

const MS: Duration = Duration::from_millis(1);
const X_TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

type Server = Script<Request<()>, Response<()>, &'static str>;

assert_impl_all!(AttemptHeaderLayer: Send, Sync, Unpin, Clone);
assert_impl_all!(DeadlineHeaderLayer: Send, Sync, Unpin, Clone);
assert_impl_all!(DeadlineFromHeaderLayer: Send, Sync, Unpin, Clone);
assert_impl_all!(DeadlineHeaderFuture<std::future::Ready<u8>>: Send, Sync, Unpin);
assert_impl_all!(DeadlineFromHeaderFuture<std::future::Ready<u8>>: Send, Sync, Unpin);

fn status(status: u16) -> Step<Response<()>, &'static str> {
    Step::Ok(Response::builder().status(status).body(()).unwrap())
}

fn request(headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::get("/");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn retry() -> RetryLayer<HttpPolicy> {
    RetryLayer::builder(HttpPolicy::new())
        .backoff(Backoff::constant(100 * MS).jitter(Jitter::None))
        .build()
        .unwrap()
}

/// What a header said on each call, all of its fields.
fn sent(server: &Server, header: &str) -> Vec<Vec<String>> {
    let fields = |request: Request<()>| {
        let fields = request.headers().get_all(header).iter();
        fields
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    };
    server
        .seen()
        .into_iter()
        .map(|seen| fields(seen.request))
        .collect()
}

// Attempts.

#[tokio::test(start_paused = true)]
async fn each_attempt_is_numbered_by_the_rule_of_its_header() {
    let server = Server::new([status(503), status(503), status(200)]);
    let service = ServiceBuilder::new()
        .layer(retry())
        .layer(AttemptHeaderLayer::envoy())
        .layer(AttemptHeaderLayer::grpc())
        .layer(AttemptHeaderLayer::stainless())
        .layer(AttemptHeaderLayer::new(X_TIMEOUT, Numbering::RetriesOnly))
        .service(server.clone());
    // What a caller of ours said of its own attempts is not about ours.
    let stale = request(&[
        ("x-envoy-attempt-count", "9"),
        ("x-envoy-attempt-count", "8"),
        ("grpc-previous-rpc-attempts", "9"),
        ("x-stainless-retry-count", "9"),
    ]);
    service.oneshot(stale).await.unwrap();
    assert_eq!(
        sent(&server, "x-envoy-attempt-count"),
        [["1"], ["2"], ["3"]]
    );
    assert_eq!(
        sent(&server, "x-stainless-retry-count"),
        [["0"], ["1"], ["2"]]
    );
    let retries: [Vec<&str>; 3] = [vec![], vec!["1"], vec!["2"]];
    assert_eq!(sent(&server, "grpc-previous-rpc-attempts"), retries);
    assert_eq!(sent(&server, "x-timeout-ms"), retries);
}

#[tokio::test(start_paused = true)]
async fn numbers_beyond_the_first_few_are_written_too() {
    let server = Server::new([status(503)]);
    let layer = RetryLayer::builder(HttpPolicy::new()).max_attempts(12);
    let service = layer.backoff(Backoff::none()).build().unwrap();
    let service = service.layer(AttemptHeaderLayer::envoy().layer(server.clone()));
    service.oneshot(request(&[])).await.unwrap();
    let all: Vec<[String; 1]> = (1..=12).map(|number| [number.to_string()]).collect();
    assert_eq!(sent(&server, "x-envoy-attempt-count"), all);
}

#[tokio::test(start_paused = true)]
async fn without_a_retry_above_what_was_said_before_stays() {
    let server = Server::new([status(200)]);
    let service =
        AttemptHeaderLayer::envoy().layer(AttemptHeaderLayer::grpc().layer(server.clone()));
    service.clone().oneshot(request(&[])).await.unwrap();
    let passed_on = request(&[
        ("x-envoy-attempt-count", "3"),
        ("grpc-previous-rpc-attempts", "2"),
    ]);
    service.oneshot(passed_on).await.unwrap();
    assert_eq!(sent(&server, "x-envoy-attempt-count"), [vec![], vec!["3"]]);
    assert_eq!(
        sent(&server, "grpc-previous-rpc-attempts"),
        [vec![], vec!["2"]]
    );
}

#[tokio::test(start_paused = true)]
async fn the_number_is_that_of_the_retry_that_owns_the_call() {
    let server = Server::new([status(503), status(200)]);
    let nested = ServiceBuilder::new()
        .layer(retry())
        .layer(retry())
        .layer(AttemptHeaderLayer::envoy())
        .service(server.clone());
    nested.oneshot(request(&[])).await.unwrap();
    assert_eq!(sent(&server, "x-envoy-attempt-count"), [["1"], ["2"]]);
}

// Deadlines, sent.

#[tokio::test(start_paused = true)]
async fn case_091_an_outgoing_timeout_is_legal_and_never_too_long() {
    for (left, expected) in [
        (Duration::from_micros(500), "500000n"),
        (Duration::from_secs(30), "30000000u"),
        (Duration::from_secs(2 * 24 * 3600), "172800S"),
        (Duration::from_secs(100_000_000), "1666666M"),
    ] {
        let server = Server::new([status(200)]);
        let service =
            DeadlineLayer::call(left).layer(DeadlineHeaderLayer::grpc().layer(server.clone()));
        service.oneshot(request(&[])).await.unwrap();
        assert_eq!(sent(&server, "grpc-timeout"), [[expected]]);
    }

    // As long as it takes: no header.
    let server = Server::new([status(200)]);
    let service =
        DeadlineLayer::call(Duration::MAX).layer(DeadlineHeaderLayer::grpc().layer(server.clone()));
    service.oneshot(request(&[])).await.unwrap();
    assert_eq!(sent(&server, "grpc-timeout"), [[""; 0]]);

    // Nothing left: no call.
    let server = Server::new([status(200)]);
    let expired =
        DeadlineFromHeaderLayer::grpc().layer(DeadlineHeaderLayer::grpc().layer(server.clone()));
    let error = expired
        .oneshot(request(&[("grpc-timeout", "0n")]))
        .await
        .unwrap_err();
    assert!(DeadlineExceeded::find(&*error).unwrap().is_before_call());
    assert_eq!(server.calls(), 0);
}

/// A proxy: reads the caller's deadline, works for a while, then calls out with the request that it got.
async fn forward(format: TimeoutFormat, header: &'static str, incoming: &str) -> Vec<Vec<String>> {
    let (reads, sends) = match format {
        TimeoutFormat::Grpc => (DeadlineFromHeaderLayer::grpc(), DeadlineHeaderLayer::grpc()),
        TimeoutFormat::Millis => (
            DeadlineFromHeaderLayer::millis(X_TIMEOUT),
            DeadlineHeaderLayer::millis(X_TIMEOUT),
        ),
    };
    let server = Server::new([status(503), status(200)]);
    let out = retry().layer(sends.layer(server.clone()));
    let proxy = reads.layer(tower::service_fn(move |request: Request<()>| {
        let out = out.clone();
        async move {
            sleep(200 * MS).await;
            out.oneshot(request).await
        }
    }));
    proxy.oneshot(request(&[(header, incoming)])).await.unwrap();
    sent(&server, header)
}

#[tokio::test(start_paused = true)]
async fn case_093_downstream_gets_what_is_left_now() {
    let sent = forward(TimeoutFormat::Grpc, "grpc-timeout", "500m").await;
    assert_eq!(sent, [["300000u"], ["200000u"]]);
    let sent = forward(TimeoutFormat::Millis, "x-timeout-ms", "500").await;
    assert_eq!(sent, [["300"], ["200"]]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_gets_no_more_than_its_own_limit() {
    let server = Server::new([Step::Hang, Step::Hang]);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::call(500 * MS))
        .layer(retry())
        .layer(DeadlineLayer::attempt(250 * MS))
        .layer(DeadlineHeaderLayer::millis(X_TIMEOUT))
        .service(server.clone());
    service.oneshot(request(&[])).await.unwrap_err();
    assert_eq!(sent(&server, "x-timeout-ms"), [["250"], ["150"]]);
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_timeout_is_never_lengthened() {
    for (own, expected) in [
        (vec!["400"], "400"),
        (vec!["600"], "500"),
        (vec!["soon"], "500"),
        (vec!["soon", "450", "400"], "400"),
    ] {
        let server = Server::new([status(503), status(200)]);
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::call(500 * MS))
            .layer(retry())
            .layer(DeadlineHeaderLayer::millis(X_TIMEOUT))
            .service(server.clone());
        let own: Vec<_> = own
            .into_iter()
            .map(|value| ("x-timeout-ms", value))
            .collect();
        service.oneshot(request(&own)).await.unwrap();
        assert_eq!(sent(&server, "x-timeout-ms"), [[expected], ["400"]]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_the_header_is_left_alone() {
    for own in [vec![], vec!["700"], vec!["soon"]] {
        let server = Server::new([status(200)]);
        let service = DeadlineHeaderLayer::millis(X_TIMEOUT).layer(server.clone());
        let headers: Vec<_> = own.iter().map(|value| ("x-timeout-ms", *value)).collect();
        service.oneshot(request(&headers)).await.unwrap();
        assert_eq!(sent(&server, "x-timeout-ms"), [own]);
    }
}

#[tokio::test(start_paused = true)]
async fn less_than_a_millisecond_is_not_sent_and_not_retried() {
    let server = Server::new([status(200)]);
    let limited = ConcurrencyLimit::new(server.clone(), 1);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::call(Duration::from_micros(999)))
        .layer(retry())
        .layer(DeadlineHeaderLayer::millis(X_TIMEOUT))
        .service(limited.clone());
    let mut ready = service.clone();
    let ready = ready.ready().await.unwrap();
    let (outcome, report) = CallReport::of(tower::Service::call(ready, request(&[]))).await;
    let error = outcome.unwrap_err();
    let exceeded = DeadlineExceeded::find(&*error).unwrap();
    assert!(exceeded.is_call() && exceeded.is_before_call());
    let report = report.unwrap();
    assert_eq!(report.stop_reason(), Some(StopReason::Deadline));
    assert!(!report.outcome_unknown());
    assert_eq!(server.calls(), 0);
    // The readiness that was taken for it is free again.
    let next = timeout(MS, limited.oneshot(request(&[])));
    next.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_end_below_the_retry_that_all_attempts_share_is_run_into_once() {
    let server = Server::new([status(200)]);
    let service = ServiceBuilder::new()
        .layer(retry())
        .layer(DeadlineLayer::until(Deadline::after(
            Duration::from_micros(999),
        )))
        .layer(DeadlineHeaderLayer::millis(X_TIMEOUT))
        .service(server.clone());
    let (outcome, report) = CallReport::of(service.oneshot(request(&[]))).await;
    outcome.unwrap_err();
    let report = report.unwrap();
    assert_eq!(report.stop_reason(), Some(StopReason::Deadline));
    assert_eq!((report.attempts(), server.calls()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_not_sent_is_followed_by_one_that_is() {
    // The second as where the preset of a client stands below a retry of its caller.
    for of_each_attempt in [
        DeadlineLayer::attempt(100 * MS),
        DeadlineLayer::call(100 * MS),
    ] {
        let server = Server::new([status(200)]);
        let attempts = Arc::new(AtomicU32::new(0));
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::call(500 * MS))
            .layer(retry())
            .layer(of_each_attempt)
            .map_request(move |request| {
                // A layer that takes all the time that the first attempt has.
                if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                    let _ = spawn(tokio::time::advance(100 * MS)).poll();
                }
                request
            })
            .layer(DeadlineHeaderLayer::millis(X_TIMEOUT))
            .service(server.clone());
        service.oneshot(request(&[])).await.unwrap();
        assert_eq!(sent(&server, "x-timeout-ms"), [["100"]]);
        assert_eq!(server.times(), [200]);
    }
}

/// A client that reads the header and ends the call by itself, so long before the time is up.
async fn ended_by_a_client(early: Duration, watched: bool) -> BoxError {
    let client = tower::service_fn(move |request: Request<()>| async move {
        let left = TimeoutFormat::Grpc
            .read(request.headers()["grpc-timeout"].as_bytes())
            .unwrap();
        sleep(left.checked_sub(early).unwrap()).await;
        Err::<Response<()>, _>("the client's own timeout")
    });
    let service = DeadlineHeaderLayer::grpc().layer(client);
    let outcome = if watched {
        let service = DeadlineLayer::call(100 * MS).layer(retry().layer(service));
        timeout(200 * MS, service.oneshot(request(&[]))).await
    } else {
        let service = DeadlineFromHeaderLayer::grpc().layer(service);
        let request = request(&[("grpc-timeout", "100m")]);
        timeout(200 * MS, service.oneshot(request)).await
    };
    outcome.unwrap().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_the_header_does_not_race_the_deadline() {
    let is_ours = |error: BoxError| DeadlineExceeded::find(&*error).is_some();
    assert!(is_ours(ended_by_a_client(Duration::ZERO, true).await));
    // Sooner it is an error like any other, and so where nobody above ends the call.
    assert!(!is_ours(ended_by_a_client(MS, true).await));
    assert!(!is_ours(ended_by_a_client(Duration::ZERO, false).await));
}
