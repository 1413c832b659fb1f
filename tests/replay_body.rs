//! What every attempt sends where the body can be read once: the same, or nothing.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{Empty, Full};
use support::body::{Event, Scripted, Sent, next, read, trailers};
use tokio_test::{assert_pending, task};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::http::replay_body::ReplayBodyError;
use tower_composure::http::{ReplayBody, ReplayBodyLayer, ReplayRequest};
use tower_composure::retry::RetryLayerBuilder;
use tower_composure::{Attempt, Backoff, BoxError, CallReport, HttpPolicy, RetryLayer, StopReason};

type Replayed = ReplayBody<Scripted>;

const CAP: usize = 64 * 1024;

fn data(bytes: &'static str) -> Sent {
    Sent::Data(Bytes::from_static(bytes.as_bytes()))
}

fn retry() -> RetryLayerBuilder<HttpPolicy, ReplayRequest> {
    RetryLayer::builder(HttpPolicy::new())
        .max_attempts(3)
        .backoff(Backoff::none())
        .replay(ReplayRequest)
}

/// What a server saw of one attempt.
#[derive(Debug, Clone, PartialEq)]
struct Received {
    attempt: u32,
    version: Version,
    headers: HeaderMap,
    ctx: Option<Ctx>,
    hint: (u64, Option<u64>),
    body: Vec<Sent>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Ctx(u32);

type Log = Arc<Mutex<Vec<Received>>>;

/// Reads each body as far as it is told, then answers with the status.
fn server<B>(
    log: &Log,
    answers: &'static [(usize, u16)],
) -> impl Service<
    Request<B>,
    Response = Response<()>,
    Error = BoxError,
    Future = impl Future<Output = Result<Response<()>, BoxError>>,
> + Clone
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: ToString,
{
    let log = Arc::clone(log);
    tower::service_fn(move |request: Request<B>| {
        let log = Arc::clone(&log);
        let attempt = Attempt::current().unwrap().number();
        async move {
            let (head, mut body) = request.into_parts();
            let hint = (body.size_hint().lower(), body.size_hint().upper());
            let answered = log.lock().unwrap().len();
            let (frames, status) = answers[answered];
            let mut sent = Vec::new();
            while sent.len() < frames {
                let Some(frame) = next(&mut body).await else {
                    break;
                };
                sent.push(frame);
            }
            log.lock().unwrap().push(Received {
                attempt,
                version: head.version,
                headers: head.headers,
                ctx: head.extensions.get().copied(),
                hint,
                body: sent,
            });
            Ok(Response::builder().status(status).body(()).unwrap())
        }
    })
}

const ALL: usize = usize::MAX;

#[tokio::test]
async fn case_055_a_streamed_replay_is_the_same_in_everything() {
    let log = Log::default();
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(retry().build().unwrap())
        .service(server(&log, &[(ALL, 502), (1, 502), (ALL, 200)]));
    let end = trailers("x-checksum", "7");
    let body = Scripted::new([
        Event::Data(b"{\"a\""),
        Event::Yield,
        Event::Data(b":1}"),
        Event::Trailers(end.clone()),
    ]);
    let request = Request::put("/upload")
        .version(Version::HTTP_2)
        .header("x-tag", "one")
        .header("x-tag", "two")
        .extension(Ctx(7))
        .body(body);
    let response = service.oneshot(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let log = log.lock().unwrap();
    let whole = [data("{\"a\""), data(":1}"), Sent::Trailers(end)];
    let bodies: Vec<_> = log.iter().map(|received| &*received.body).collect();
    assert_eq!(bodies, [&whole[..], &whole[..1], &whole[..]]);
    for (received, attempt) in log.iter().zip(1..) {
        assert_eq!(received.attempt, attempt);
        assert_eq!(received.version, Version::HTTP_2);
        assert_eq!(received.headers.get_all("x-tag").iter().count(), 2);
        assert_eq!(received.ctx, Some(Ctx(7)));
    }
}

fn copied<B: Body + Clone>(_: &B) {}

#[tokio::test]
async fn case_055_bodies_that_clone_for_free_need_none_of_this() {
    let bytes = Bytes::from_static(b"{\"a\":1}");
    let log = Log::default();
    let layer = RetryLayer::builder(HttpPolicy::new()).backoff(Backoff::none());
    let service = layer
        .build()
        .unwrap()
        .layer(server(&log, &[(ALL, 502), (ALL, 200)]));
    let request = Request::put("/").body(Full::new(bytes.clone()));
    service.oneshot(request.unwrap()).await.unwrap();
    for received in &*log.lock().unwrap() {
        let [Sent::Data(sent)] = &*received.body else {
            panic!("one frame");
        };
        assert_eq!(sent, &bytes);
        assert_eq!(sent.as_ptr(), bytes.as_ptr(), "the same memory");
    }
    // `String` and `Empty` are `Clone` too.
    copied(&String::new());
    copied(&Empty::<Bytes>::new());
}

#[tokio::test]
async fn case_056_a_body_over_the_bound_is_sent_once_and_whole() {
    for (announced, bound, calls) in [(false, 12, 2), (false, 11, 1), (true, 12, 2), (true, 11, 1)]
    {
        let log = Log::default();
        let service = ServiceBuilder::new()
            .layer(ReplayBodyLayer::new().max_bytes(bound))
            .layer(retry().build().unwrap())
            .service(server(&log, &[(ALL, 503), (ALL, 200)]));
        let mut body = Scripted::new(["one ", "two ", "tri "].map(str::as_bytes).map(Event::Data));
        if announced {
            body = body.exact(12);
        }
        let call = service.oneshot(Request::put("/").body(body).unwrap());
        let (outcome, report) = CallReport::of(call).await;
        let stop = report.unwrap().stop_reason();
        let log = log.lock().unwrap();
        assert_eq!(log.len(), calls, "{announced} {bound}");
        for received in &*log {
            assert_eq!(received.body, ["one ", "two ", "tri "].map(data));
        }
        let status = outcome.unwrap().status();
        if calls == 1 {
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(stop, Some(StopReason::NotReplayable));
        } else {
            assert_eq!((status, stop), (StatusCode::OK, None));
        }
    }
}

#[tokio::test]
async fn case_057_length_and_body_travel_together() {
    // A length that is announced is announced by every attempt; one that is not, by none, though it is known by then.
    for (exact, hint) in [(true, (5, Some(5))), (false, (0, None))] {
        let log = Log::default();
        let service = ServiceBuilder::new()
            .layer(ReplayBodyLayer::new())
            .layer(retry().build().unwrap())
            .service(server(&log, &[(ALL, 503), (ALL, 200)]));
        let mut body = Scripted::new([Event::Data(b"hello")]);
        if exact {
            body = body.exact(5);
        }
        service
            .oneshot(Request::put("/").body(body).unwrap())
            .await
            .unwrap();
        let log = log.lock().unwrap();
        let hints: Vec<_> = log.iter().map(|received| received.hint).collect();
        assert_eq!(hints, [hint, hint]);
        assert_eq!(log[1].body, [data("hello")]);
    }
}

#[tokio::test]
async fn an_error_of_the_stream_ends_replayability() {
    let log = Log::default();
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(retry().build().unwrap())
        .service(server(&log, &[(ALL, 503), (ALL, 200)]));
    let body = Scripted::new([Event::Data(b"half"), Event::Error]);
    let call = service.oneshot(Request::put("/").body(body).unwrap());
    let (_, report) = CallReport::of(call).await;
    let stop = report.unwrap().stop_reason();
    assert_eq!(stop, Some(StopReason::NotReplayable));
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 1);
    assert!(matches!(&*log[0].body, [_, Sent::Error(_)]), "as it came");
}

#[tokio::test]
async fn a_replay_waits_for_the_attempt_that_still_reads() {
    let mut first = Replayed::new(
        Scripted::new([b"a", b"b", b"c"].map(|b| Event::Data(b))),
        CAP,
    );
    let mut second = first.replay().unwrap();
    assert_eq!(next(&mut first).await, Some(data("a")));
    let mut waiting = task::spawn(next(&mut second));
    assert_pending!(waiting.poll());
    // The older attempt is not disturbed while the stream gives it something.
    assert_eq!(next(&mut first).await, Some(data("b")));
    assert!(!waiting.is_woken());
    drop(first);
    assert!(waiting.is_woken());
    assert_eq!(waiting.await, Some(data("a")));
    assert_eq!(read(&mut second).await, ["b", "c"].map(data));
}

#[tokio::test]
async fn a_replay_goes_on_when_the_older_attempt_has_read_everything() {
    let mut first = Replayed::new(Scripted::new([Event::Data(b"a")]), CAP);
    let mut second = first.replay().unwrap();
    assert_eq!(next(&mut first).await, Some(data("a")));
    let mut waiting = task::spawn(read(&mut second));
    assert_pending!(waiting.poll());
    assert_eq!(next(&mut first).await, None);
    assert!(waiting.is_woken());
    assert_eq!(waiting.await, [data("a")]);
    // It keeps saying so.
    assert_eq!(next(&mut first).await, None);
    assert!(first.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn an_older_attempt_that_waits_for_the_stream_gives_it_up() {
    let wait = Event::Wait(Duration::from_millis(1));
    let stream = Scripted::new([Event::Data(b"a"), wait, Event::Data(b"b")]);
    let first = Replayed::new(stream, CAP);
    let mut second = first.replay().unwrap();
    let mut first = task::spawn(first);
    assert!(first.enter(|cx, body| body.poll_frame(cx)).is_ready());
    let waits = first.enter(|cx, body| body.poll_frame(cx));
    assert!(waits.is_pending(), "for the stream");
    let mut reading = task::spawn(read(&mut second));
    assert!(!first.is_woken());
    assert_pending!(reading.poll());
    assert!(first.is_woken());
    let Poll::Ready(Some(Err(error))) = first.enter(|cx, body| body.poll_frame(cx)) else {
        panic!("never an early end");
    };
    assert!(ReplayBodyError::find(&*error).unwrap().is_superseded());
    let ended = first.enter(|cx, body| body.poll_frame(cx));
    assert!(matches!(ended, Poll::Ready(None)));
    assert!(reading.is_woken());
    assert_eq!(reading.await, ["a", "b"].map(data));
}

#[tokio::test]
async fn a_waiting_replay_whose_stream_is_lost_meanwhile_fails() {
    let mut first = Replayed::new(Scripted::new([b"a", b"b"].map(|b| Event::Data(b))), 1);
    let mut second = first.replay().unwrap();
    assert_eq!(next(&mut first).await, Some(data("a")));
    let mut waiting = task::spawn(read(&mut second));
    assert_pending!(waiting.poll());
    assert!(first.is_replayable());
    assert_eq!(next(&mut first).await, Some(data("b")));
    assert!(!first.is_replayable() && first.replay().is_none());
    assert!(waiting.is_woken());
    let [Sent::Error(error)] = &*waiting.await else {
        panic!("never an early end");
    };
    assert_eq!(error, "a part of the request body is lost");
    assert_eq!(next(&mut first).await, None, "it ends as it would have");
}

#[tokio::test]
async fn of_several_attempts_the_newest_gets_the_stream() {
    let first = Replayed::new(Scripted::new([Event::Data(b"a")]), CAP);
    let mut second = first.replay().unwrap();
    let mut third = second.replay().unwrap();
    let mut first = first;
    assert_eq!(next(&mut first).await, Some(data("a")));
    let mut second_waits = task::spawn(read(&mut second));
    let mut third_waits = task::spawn(read(&mut third));
    assert_pending!(second_waits.poll());
    assert_pending!(third_waits.poll());
    assert!(
        second_waits.is_woken(),
        "it learns that it is not the newest"
    );
    assert!(matches!(&*second_waits.await, [Sent::Error(_)]));
    drop(first);
    assert_eq!(third_waits.await, [data("a")]);
}

#[tokio::test]
async fn nothing_is_kept_where_nobody_could_ask_for_it() {
    let mut body = Replayed::new(Scripted::new([b"a", b"b"].map(|b| Event::Data(b))), CAP);
    assert!(body.is_replayable());
    assert_eq!(next(&mut body).await, Some(data("a")));
    assert!(
        body.replay().is_none(),
        "there was no copy when it was read"
    );
    assert_eq!(next(&mut body).await, Some(data("b")));

    // A copy that was never read leaves the stream to the next.
    let mut body = Replayed::new(Scripted::new([Event::Data(b"a")]), CAP);
    drop(body.replay().unwrap());
    assert_eq!(read(&mut body).await, [data("a")]);
}

#[tokio::test]
async fn an_empty_body_is_empty_for_every_attempt() {
    let mut body = ReplayBody::new(Empty::<Bytes>::new(), 0);
    let mut copy = body.replay().unwrap();
    for body in [&mut body, &mut copy] {
        assert!(body.is_end_stream() && body.is_replayable());
        assert_eq!(body.size_hint().exact(), Some(0));
        assert_eq!(next(body).await, None);
    }
}

#[tokio::test]
async fn the_stream_goes_with_the_last_body_that_leads_to_it() {
    let stream = Scripted::new([Event::Data(b"a"), Event::Never]);
    let seen = stream.seen();
    let mut body = Replayed::new(stream, CAP);
    let copy = body.replay().unwrap();
    assert_eq!(next(&mut body).await, Some(data("a")));
    drop(body);
    assert!(!seen.is_dropped());
    drop(copy);
    assert!(seen.is_dropped());
}
