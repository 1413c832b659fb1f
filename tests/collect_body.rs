//! What a policy can see of a body, and that the caller gets all of it.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use proptest::prelude::*;
use support::body::{Event, Scripted, Seen, Sent, next, read, trailers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::http::{CollectBodyLayer, CollectedBody};
use tower_composure::{
    Attempt, Backoff, BoxError, CallReport, DeadlineExceeded, DeadlineLayer, Effect, HttpPolicy,
    Policy, RetryLayer, StopReason, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);

fn data(bytes: &'static str) -> Sent {
    Sent::Data(Bytes::from_static(bytes.as_bytes()))
}

/// A response as it comes out of the layer.
async fn through(
    layer: &CollectBodyLayer,
    status: u16,
    body: Scripted,
) -> Response<CollectedBody<Scripted>> {
    let response = Response::builder().status(status).body(body).unwrap();
    let response = Mutex::new(Some(response));
    let service = layer.layer(tower::service_fn(move |()| {
        let response = response.lock().unwrap().take().unwrap();
        async { Ok::<_, BoxError>(response) }
    }));
    service.oneshot(()).await.unwrap()
}

fn pieces<const N: usize>(pieces: [&'static str; N]) -> Scripted {
    Scripted::new(pieces.map(|piece| Event::Data(piece.as_bytes())))
}

#[tokio::test]
async fn only_errors_are_collected_unless_told_otherwise() {
    let layer = CollectBodyLayer::new();
    for (status, collected) in [(200, false), (304, false), (404, true), (503, true)] {
        let body = through(&layer, status, pieces(["a"])).await.into_body();
        assert_eq!(body.collected().is_some(), collected, "{status}");
    }
    let body = through(&layer.clone().all(), 200, pieces(["a"])).await;
    assert_eq!(body.body().collected().unwrap(), "a");
    let picky = layer.when(|head| head.headers.contains_key("x-look") || head.status == 202);
    for (status, collected) in [(202, true), (503, false)] {
        let body = through(&picky, status, pieces(["a"])).await.into_body();
        assert_eq!(body.collected().is_some(), collected, "{status}");
    }
}

#[tokio::test]
async fn a_success_is_not_held_up_by_its_body() {
    let stream = Scripted::new([Event::Never]);
    let seen = stream.seen();
    let response = through(&CollectBodyLayer::new(), 200, stream).await;
    assert_eq!(seen.polls(), 0);
    drop(response);
    assert!(seen.is_dropped());
}

#[tokio::test]
async fn what_fits_is_seen_whole_and_reaches_the_caller_whole() {
    let end = trailers("x-sum", "7");
    let events = [
        Event::Data(b"one "),
        Event::Yield,
        Event::Data(b""),
        Event::Data(b"two"),
        Event::Trailers(end.clone()),
    ];
    let layer = CollectBodyLayer::new().max_bytes(7);
    let body = through(&layer, 500, Scripted::new(events))
        .await
        .into_body();
    assert_eq!(body.collected().unwrap(), "one two");
    assert_eq!(body.size_hint().exact(), Some(7));
    assert!(!body.is_end_stream());
    let mut body = Box::pin(body);
    assert_eq!(next(&mut body).await, Some(data("one two")));
    assert!(!body.is_end_stream(), "the trailers");
    assert_eq!(next(&mut body).await, Some(Sent::Trailers(end)));
    assert!(body.is_end_stream());
    assert_eq!(next(&mut body).await, None);
    assert_eq!(body.collected().unwrap(), "one two", "still");
}

#[tokio::test]
async fn an_empty_body_is_collected() {
    let service = CollectBodyLayer::new()
        .max_bytes(0)
        .all()
        .layer(tower::service_fn(|()| async {
            Ok::<_, BoxError>(Response::new(Empty::<Bytes>::new()))
        }));
    let body = service.oneshot(()).await.unwrap().into_body();
    assert_eq!(body.collected().unwrap(), "");
    assert!(body.is_end_stream());
}

#[tokio::test]
async fn what_does_not_fit_is_a_stream_from_where_it_was() {
    let layer = CollectBodyLayer::new().max_bytes(4);
    let stream = Scripted::new([
        Event::Data(b"one"),
        Event::Data(b"two"),
        Event::Yield,
        Event::Data(b"three"),
    ]);
    let seen = stream.seen();
    let body = through(&layer, 500, stream).await.into_body();
    assert_eq!((body.collected(), seen.polls()), (None, 2));
    assert_eq!(body.size_hint().lower(), 6);
    let read = read(&mut Box::pin(body)).await;
    assert_eq!(read, ["one", "two", "three"].map(data));

    // One that announces it is not even begun.
    let stream = pieces(["12345"]).exact(5);
    let seen = stream.seen();
    let body = through(&layer, 500, stream).await.into_body();
    assert_eq!((body.collected(), seen.polls()), (None, 0));
    assert_eq!(body.size_hint().exact(), Some(5));
}

#[tokio::test]
async fn an_error_of_the_body_reaches_the_caller_in_its_place() {
    let stream = Scripted::new([Event::Data(b"half"), Event::Error]);
    let mut body = Box::pin(
        through(&CollectBodyLayer::new(), 500, stream)
            .await
            .into_body(),
    );
    assert_eq!(body.collected(), None);
    assert_eq!(body.error().unwrap().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(body.size_hint().upper(), None);
    assert!(!body.is_end_stream());
    assert_eq!(next(&mut body).await, Some(data("half")));
    assert!(!body.is_end_stream());
    assert!(matches!(next(&mut body).await, Some(Sent::Error(_))));
    assert!(body.is_end_stream());
    assert_eq!(next(&mut body).await, None);
}

fn retry() -> RetryLayer<HttpPolicy> {
    let builder = RetryLayer::builder(HttpPolicy::new());
    builder.backoff(Backoff::none()).build().unwrap()
}

#[tokio::test]
async fn a_write_whose_answer_broke_off_is_unknown_and_not_repeated() {
    let service = ServiceBuilder::new()
        .layer(retry())
        .layer(CollectBodyLayer::new().all())
        .service_fn(|_: Request<()>| async {
            let body = Scripted::new([Event::Data(b"{\"id\":"), Event::Error]);
            Ok::<_, BoxError>(Response::builder().status(201).body(body).unwrap())
        });
    let call = service.oneshot(Request::post("/charges").body(()).unwrap());
    let (outcome, report) = CallReport::of(call).await;
    let report = report.unwrap();
    assert_eq!((report.attempts(), report.outcome_unknown()), (1, true));
    assert_eq!(report.stop_reason(), Some(StopReason::OutcomeUnknown));
    // What there is goes up.
    let response = outcome.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let mut body = Box::pin(response.into_body());
    assert_eq!(next(&mut body).await, Some(data("{\"id\":")));
}

/// A server that ends a download of ten bytes after four, once, and how often it was asked.
async fn cut_short_once() -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&calls);
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(connection.read_u8().await.unwrap());
            }
            let body = match count.fetch_add(1, Ordering::SeqCst) {
                0 => "0123",
                _ => "0123456789",
            };
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{body}");
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (uri, calls)
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http()
}

#[tokio::test]
async fn case_064_a_download_that_breaks_off_is_made_again() {
    let get = |uri: &str| Request::get(uri).body(Full::default()).unwrap();
    let (uri, calls) = cut_short_once().await;
    let service = ServiceBuilder::new()
        .layer(retry())
        .layer(CollectBodyLayer::new().all())
        .service(client());
    let response = service.oneshot(get(&uri)).await.unwrap();
    assert_eq!(
        response
            .extensions()
            .get::<CallReport>()
            .unwrap()
            .attempts(),
        2
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "0123456789");
    assert_eq!(calls.load(Ordering::SeqCst), 2);

    // Without it, the retry is done when the head is there.
    let (uri, calls) = cut_short_once().await;
    let response = retry().layer(client()).oneshot(get(&uri)).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// Knows that a spent quota does not come back.
#[derive(Clone)]
struct Quota(HttpPolicy);

impl<A, B: Body, E: 'static> Policy<Request<A>, Response<CollectedBody<B>>, E> for Quota {
    fn effect(&self, request: &Request<A>) -> Effect {
        Policy::<_, Response<()>, E>::effect(&self.0, request)
    }

    fn classify(
        &self,
        attempt: &Attempt,
        outcome: Result<&Response<CollectedBody<B>>, &E>,
    ) -> Verdict {
        let body = outcome
            .ok()
            .and_then(|response| response.body().collected());
        match body {
            Some(body) if body.starts_with(b"insufficient_quota") => Verdict::Rejected,
            _ => Policy::<Request<A>, _, E>::classify(&self.0, attempt, outcome),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_147_a_spent_quota_is_final_and_throttling_is_not() {
    for (code, attempts) in [("insufficient_quota", 1), ("rate_limited", 4)] {
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(Quota(HttpPolicy::new())))
            .layer(CollectBodyLayer::new())
            .service_fn(move |_: Request<()>| async move {
                let body = Full::<Bytes>::from(code);
                Ok::<_, BoxError>(Response::builder().status(429).body(body).unwrap())
            });
        let (outcome, report) = CallReport::of(service.oneshot(Request::new(()))).await;
        assert_eq!(report.unwrap().attempts(), attempts);
        let body = outcome.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_ended_by_the_attempts_deadline() {
    let seen = Arc::new(Mutex::new(Vec::<Seen>::new()));
    let log = Arc::clone(&seen);
    let service = ServiceBuilder::new()
        .layer(
            RetryLayer::builder(HttpPolicy::new())
                .max_attempts(2)
                .build()
                .unwrap(),
        )
        .layer(DeadlineLayer::attempt(SECOND))
        .layer(CollectBodyLayer::new())
        .service_fn(move |_: Request<()>| {
            let drip = [Event::Wait(SECOND / 4), Event::Data(b".")];
            let body = Scripted::new(drip.into_iter().cycle().take(100));
            log.lock().unwrap().push(body.seen());
            async { Ok::<_, BoxError>(Response::builder().status(500).body(body).unwrap()) }
        });
    let error = service.oneshot(Request::new(())).await.unwrap_err();
    assert!(!DeadlineExceeded::find(&*error).unwrap().is_call());
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2, "what ran out is retried like any attempt");
    assert!(seen.iter().all(Seen::is_dropped));
}

/// What a stream gives, with or without an error at its end.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let frame = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|data| Event::Bytes(data.into())),
        1 => Just(Event::Yield),
    ];
    let end = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Event::Trailers(trailers("x-sum", "12345")))),
        1 => Just(Some(Event::Error)),
    ];
    (prop::collection::vec(frame, 0..12), end).prop_map(|(mut events, end)| {
        events.extend(end);
        events
    })
}

/// Bytes, and what came after them.
fn flat(sent: &[Sent]) -> (Vec<u8>, Vec<Sent>) {
    let mut bytes = Vec::new();
    let mut others = Vec::new();
    for sent in sent {
        match sent {
            Sent::Data(data) => bytes.extend_from_slice(data),
            other => others.push(other.clone()),
        }
    }
    (bytes, others)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_caller_gets_what_came(
        events in events(),
        bound in 0..200_usize,
        exact in any::<bool>(),
        visible in any::<bool>(),
    ) {
        support::paused(async || {
            let all = read(&mut Box::pin(Scripted::new(events.clone()))).await;
            let (bytes, others) = flat(&all);
            let broken = matches!(others[..], [Sent::Error(_)]);
            let mut stream = Scripted::new(events.clone());
            if exact && !broken {
                stream = stream.exact(bytes.len() as u64);
            }
            if visible {
                stream = stream.ends_visibly();
            }
            let layer = CollectBodyLayer::new().max_bytes(bound);
            let body = through(&layer, 400, stream).await.into_body();
            let fits = bytes.len() <= bound && !broken;
            assert_eq!(body.collected().map(|all| &all[..]), fits.then_some(&bytes[..]));
            assert_eq!(body.error().is_some(), broken && bytes.len() <= bound);
            let mut body = Box::pin(body);
            let mut sent = Vec::new();
            loop {
                let left = (bytes.len() - flat(&sent).0.len()) as u64;
                let hint = body.size_hint();
                assert!(hint.lower() <= left && hint.upper().is_none_or(|most| most >= left));
                let says_over = body.is_end_stream();
                let Some(frame) = next(&mut body).await else {
                    break;
                };
                assert!(!says_over);
                sent.push(frame);
            }
            assert_eq!(flat(&sent), (bytes, others));
        });
    }
}
