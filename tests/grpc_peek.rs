//! Answers that are trailers and nothing else, found without waiting for anything; and what a server answers in our
//! place.
#![cfg(all(not(loom), feature = "grpc"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use static_assertions::assert_impl_all;
use tokio_test::task::spawn;
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::grpc::{self, PeekStatusFuture, PeekStatusLayer, PeekStatusService, Peeked};
use tower_composure::{
    Backoff, CallReport, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer, Effect, GrpcPolicy,
    RetryLayer, StopReason,
};

assert_impl_all!(PeekStatusLayer: Send, Sync, Unpin, Copy);
assert_impl_all!(PeekStatusFuture<std::future::Ready<u8>>: Send, Sync, Unpin);
assert_impl_all!(Peeked<Frames>: Send, Sync, Unpin);

/// A body that plays its frames, and counts how often it was polled.
#[derive(Clone)]
struct Frames {
    frames: VecDeque<Play>,
    polls: Arc<AtomicUsize>,
}

#[derive(Clone)]
enum Play {
    Data(&'static str),
    Trailers(Vec<(&'static str, &'static str)>),
    Fail,
    /// Is pending once.
    Wait,
}

impl Frames {
    fn new(frames: impl IntoIterator<Item = Play>) -> Self {
        Self {
            frames: frames.into_iter().collect(),
            polls: Arc::default(),
        }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(match self.frames.pop_front() {
            Some(Play::Wait) => return Poll::Pending,
            Some(Play::Data(data)) => Some(Ok(Frame::data(Bytes::from(data)))),
            Some(Play::Trailers(fields)) => Some(Ok(Frame::trailers(map(&fields)))),
            Some(Play::Fail) => Some(Err("cut off")),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let sizes = self.frames.iter().map(|frame| match frame {
            Play::Data(data) => data.len() as u64,
            _ => 0,
        });
        SizeHint::with_exact(sizes.sum())
    }
}

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let named =
        |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
    fields.iter().map(named).collect()
}

fn trailers(code: &'static str) -> Play {
    Play::Trailers(vec![("grpc-status", code)])
}

/// A service that answers with these frames, in turn, and what it was asked.
fn server(
    answers: Vec<Frames>,
) -> impl Service<Request<()>, Response = Response<Peeked<Frames>>, Error = Infallible, Future: Send>
+ Clone {
    let answers = Arc::new(std::sync::Mutex::new(VecDeque::from(answers)));
    let inner = tower::service_fn(move |_| {
        let body = answers.lock().unwrap().pop_front().unwrap();
        std::future::ready(Ok(Response::new(body)))
    });
    PeekStatusLayer::new().layer(inner)
}

async fn retried(answers: Vec<Frames>) -> (Response<Peeked<Frames>>, CallReport) {
    let policy = GrpcPolicy::new().effect_fn(|_| Effect::Read);
    let retry = RetryLayer::builder(policy).backoff(Backoff::none());
    let service = retry.build().unwrap().layer(server(answers));
    let (outcome, report) = CallReport::of(service.oneshot(Request::new(()))).await;
    (outcome.unwrap(), report.unwrap())
}

/// Everything in a body: its data, its trailers, its error.
async fn read(body: Peeked<Frames>) -> (String, Option<HeaderMap>, Option<&'static str>) {
    let (mut data, mut trailers, mut error) = (String::new(), None, None);
    let mut body = body;
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(bytes)) => data.push_str(std::str::from_utf8(&bytes).unwrap()),
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(cut) => error = Some(cut),
        }
    }
    (data, trailers, error)
}

#[tokio::test(start_paused = true)]
async fn trailers_alone_are_retried_and_the_last_go_up_as_they_came() {
    let empty = |code| Frames::new([trailers(code)]);
    let (response, report) = retried(vec![empty("14"), empty("14"), empty("0")]).await;
    assert_eq!((report.attempts(), report.stop_reason()), (3, None));
    let (data, trailers, _) = read(response.into_body()).await;
    assert_eq!(
        (data.as_str(), trailers),
        ("", Some(map(&[("grpc-status", "0")])))
    );

    let no = Play::Trailers(vec![
        ("grpc-status", "14"),
        ("grpc-retry-pushback-ms", "-1"),
    ]);
    let (response, report) = retried(vec![Frames::new([no])]).await;
    assert_eq!(report.stop_reason(), Some(StopReason::HintExceedsLimit));
    let (_, trailers, _) = read(response.into_body()).await;
    assert_eq!(trailers.unwrap()["grpc-retry-pushback-ms"], "-1");
}

#[tokio::test(start_paused = true)]
async fn what_has_begun_is_committed() {
    for (body, expected) in [
        (
            vec![Play::Data("one"), trailers("14")],
            ("one", Some("14"), None),
        ),
        (
            vec![Play::Data("one"), Play::Fail],
            ("one", None, Some("cut off")),
        ),
        (vec![Play::Fail], ("", None, Some("cut off"))),
    ] {
        let (response, report) = retried(vec![Frames::new(body)]).await;
        assert_eq!(report.attempts(), 1);
        let (data, trailers, error) = read(response.into_body()).await;
        let status = trailers
            .as_ref()
            .map(|trailers| trailers["grpc-status"].to_str().unwrap());
        assert_eq!((data.as_str(), status, error), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_and_says_nothing_is_a_fault() {
    for body in [
        Frames::new([]),
        Frames::new([Play::Trailers(vec![("x", "y")])]),
    ] {
        let (response, report) = retried(vec![body]).await;
        assert_eq!(report.verdict(), tower_composure::Verdict::Fault);
        let _ = read(response.into_body()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_looked_at_once_and_not_waited_for() {
    let body = Frames::new([Play::Wait, Play::Wait, trailers("14")]);
    let polls = Arc::clone(&body.polls);
    let mut call = spawn(server(vec![body]).oneshot(Request::new(())));
    let Poll::Ready(Ok(response)) = call.poll() else {
        panic!("it waited");
    };
    assert_eq!(polls.load(Ordering::Relaxed), 1);
    assert!(!response.body().is_end_stream());
}

#[test]
fn a_body_that_was_looked_at_is_as_long_as_before() {
    for frames in [
        vec![Play::Data("12345"), Play::Data("678")],
        vec![Play::Wait, Play::Data("12345678")],
        vec![trailers("14")],
        vec![],
    ] {
        let body = Frames::new(frames.clone());
        let (size, ends) = (body.size_hint().exact(), body.is_end_stream());
        let mut call = spawn(server(vec![body]).oneshot(Request::new(())));
        let Poll::Ready(Ok(response)) = call.poll() else {
            panic!("it waited");
        };
        let mut body = response.into_body();
        assert_eq!(body.size_hint().exact(), size);
        assert_eq!(body.is_end_stream(), ends);
        let mut next = || spawn(body.frame()).poll();
        while !matches!(next(), Poll::Ready(None)) {}
        assert!(matches!(next(), Poll::Ready(None)), "it stays over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_in_the_headers_leaves_the_body_alone() {
    let body = Frames::new([trailers("14")]);
    let polls = Arc::clone(&body.polls);
    let inner = tower::service_fn(move |_: Request<()>| {
        let response = Response::builder()
            .header("grpc-status", "0")
            .body(body.clone());
        std::future::ready(response)
    });
    let service: PeekStatusService<_> = PeekStatusLayer::new().layer(inner);
    service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(polls.load(Ordering::Relaxed), 0);
}

fn fields(error: &BoxError) -> Vec<(String, String)> {
    let response: Response<()> = grpc::error_response(&**error);
    assert_eq!(response.status(), 200);
    let fields = response.headers().iter();
    fields
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_error_of_ours_is_answered_in_trailers_only() {
    let answered = |code: &str, pushback: Option<&str>| {
        let mut fields = vec![("content-type", "application/grpc")];
        fields.extend(pushback.map(|millis| ("grpc-retry-pushback-ms", millis)));
        fields.push(("grpc-status", code));
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        fields.into_iter().map(owned).collect::<Vec<_>>()
    };
    assert_eq!(fields(&"secret".into()), answered("13", None));

    let hang = tower::service_fn(|()| std::future::pending::<Result<(), BoxError>>());
    let error = DeadlineLayer::call(Duration::from_secs(1))
        .layer(hang)
        .oneshot(())
        .await;
    assert_eq!(fields(&error.unwrap_err()), answered("4", None));

    let breaker = CircuitBreaker::builder()
        .consecutive_failures(1)
        .open_time(Duration::from_micros(1500))
        .open_jitter(0.0)
        .build()
        .unwrap();
    let layer = CircuitBreakerLayer::new(breaker.clone(), Effect::Read);
    let fails = tower::service_fn(|()| std::future::ready(Err::<(), BoxError>("down".into())));
    let refusal = || async { layer.layer(fails).oneshot(()).await.unwrap_err() };
    refusal().await;
    assert_eq!(
        fields(&refusal().await),
        answered("14", Some("2")),
        "rounded up"
    );
    breaker.force_open();
    assert_eq!(
        fields(&refusal().await),
        answered("14", Some("-1")),
        "nobody knows when"
    );
}
