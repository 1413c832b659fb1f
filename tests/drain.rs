//! What happens to a response that a retry replaces, and to its connection.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use support::body::{Event, Scripted, Seen};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::http::DrainBody;
use tower_composure::retry::{CloneRequest, DropResponse, Release, RetryLayerBuilder};
use tower_composure::{
    Backoff, BoxError, BreakerOpen, Budget, BudgetLayer, CallReport, CircuitBreaker,
    CircuitBreakerLayer, DeadlineLayer, HttpPolicy, Jitter, RetryLayer, Stack,
};

const MS: Duration = Duration::from_millis(1);

fn retry(wait: Duration) -> RetryLayerBuilder<HttpPolicy> {
    let backoff = Backoff::constant(wait).jitter(Jitter::None);
    let attempts = RetryLayer::builder(HttpPolicy::new()).max_attempts(2);
    attempts.backoff(backoff)
}

/// A 503 with this body.
fn busy(body: Scripted) -> Response<Scripted> {
    answer(503, body)
}

fn answer(status: u16, body: Scripted) -> Response<Scripted> {
    Response::builder().status(status).body(body).unwrap()
}

/// Calls through the layer a service that answers with this first, and with 200 after it. When the second attempt came, in
/// milliseconds, whether the first body was gone by then, and how often it had been polled.
async fn second_attempt<D>(
    layer: RetryLayer<HttpPolicy, CloneRequest, D>,
    response: Response<Scripted>,
) -> (u128, bool, usize)
where
    D: Release<Response<Scripted>>,
{
    let start = now();
    let body = response.body().seen();
    let last = answer(200, Scripted::new([]));
    let responses = Arc::new(Mutex::new(vec![last, response]));
    let seen = Arc::new(Mutex::new(None));
    let log = Arc::clone(&seen);
    let service = layer.layer(tower::service_fn(move |_: Request<()>| {
        let response = responses.lock().unwrap().pop().unwrap();
        if response.status() == StatusCode::OK {
            let at = (now() - start).as_millis();
            *log.lock().unwrap() = Some((at, body.is_dropped(), body.polls()));
        }
        async { Ok::<_, BoxError>(response) }
    }));
    service.oneshot(Request::new(())).await.unwrap();
    seen.lock().unwrap().take().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the paused clock")]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

fn drain() -> DrainBody {
    DrainBody::new()
}

#[tokio::test(start_paused = true)]
async fn a_drain_runs_inside_the_wait() {
    let body = || Scripted::new([Event::Wait(40 * MS), Event::Data(b"busy")]);
    for (wait, at) in [(100 * MS, 100), (10 * MS, 40), (Duration::ZERO, 40)] {
        let layer = retry(wait).release(drain()).build().unwrap();
        assert_eq!(
            second_attempt(layer, busy(body())).await,
            (at, true, 3),
            "{wait:?}"
        );
    }
    // Without it the body is dropped unread.
    let layer = retry(100 * MS).build().unwrap();
    assert_eq!(second_attempt(layer, busy(body())).await, (100, true, 0));
    let layer = retry(100 * MS).release(DropResponse).build().unwrap();
    assert_eq!(second_attempt(layer, busy(body())).await, (100, true, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_there_costs_no_time() {
    let layer = retry(Duration::ZERO).release(drain().max_time(Duration::ZERO));
    let body = Scripted::new([b"busy"; 100].map(|data| Event::Data(data)));
    let outcome = second_attempt(layer.build().unwrap(), busy(body)).await;
    // More frames than one poll takes.
    assert_eq!(outcome, (0, true, 64));
    let layer = retry(Duration::ZERO).release(drain());
    let body = Scripted::new([b"busy"; 100].map(|data| Event::Data(data)));
    assert_eq!(
        second_attempt(layer.build().unwrap(), busy(body)).await,
        (0, true, 101)
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_at_its_bounds() {
    let wait = retry(10 * MS);
    let layer = wait.release(drain()).build().unwrap();
    let hangs = || Scripted::new([Event::Data(b"a"), Event::Never]);
    assert_eq!(second_attempt(layer.clone(), busy(hangs())).await.0, 100);
    let drips = [Event::Wait(9 * MS), Event::Data(b".")].into_iter().cycle();
    let drips = Scripted::new(drips.take(10_000));
    assert_eq!(
        second_attempt(layer.clone(), busy(drips)).await.0,
        100,
        "it never starts anew"
    );

    // In bytes: exactly as many are read, one more is not waited for.
    let layer = retry(10 * MS)
        .release(drain().max_bytes(3))
        .build()
        .unwrap();
    let more = || {
        Scripted::new([
            Event::Data(b"ab"),
            Event::Data(b"c"),
            Event::Data(b"d"),
            Event::Never,
        ])
    };
    assert_eq!(
        second_attempt(layer.clone(), busy(more())).await,
        (10, true, 3)
    );
    let fits = Scripted::new([Event::Data(b"ab"), Event::Data(b"c")]);
    assert_eq!(
        second_attempt(layer.clone(), busy(fits)).await,
        (10, true, 3)
    );
    // One that announces more is not begun.
    assert_eq!(
        second_attempt(layer, busy(more().exact(4))).await,
        (10, true, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_could_use_again_is_not_drained() {
    let body = || Scripted::new([Event::Data(b"a"), Event::Never]);
    for (value, drained) in [("close", false), ("x, Close", false), ("keep-alive", true)] {
        let mut response = answer(503, body());
        let value: HeaderValue = value.parse().unwrap();
        response.headers_mut().insert("connection", value.clone());
        let layer = retry(MS).release(drain()).build().unwrap();
        assert_eq!(
            second_attempt(layer, response).await.2 > 0,
            drained,
            "{value:?}"
        );
    }
    // A body that breaks off has ended.
    let layer = retry(MS).release(drain()).build().unwrap();
    let broken = Scripted::new([Event::Error, Event::Never]);
    assert_eq!(second_attempt(layer, busy(broken)).await, (1, true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_drain_leaves_half_of_what_is_left_of_the_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::call(80 * MS))
        .layer(retry(Duration::ZERO).release(drain()).build().unwrap())
        .service_fn(move |_: Request<()>| {
            let first = count.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if first {
                    return Ok(answer(503, Scripted::new([Event::Never])));
                }
                sleep(39 * MS).await;
                Ok::<_, BoxError>(answer(200, Scripted::new([])))
            }
        });
    let response = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

/// A service whose answers never end, and what is seen of their bodies.
fn endless(
    seen: &Arc<Mutex<Vec<Seen>>>,
) -> impl tower::Service<
    Request<()>,
    Response = Response<Scripted>,
    Error = BoxError,
    Future = std::future::Ready<Result<Response<Scripted>, BoxError>>,
> + Clone
+ use<> {
    let seen = Arc::clone(seen);
    tower::service_fn(move |_: Request<()>| {
        let body = Scripted::new([Event::Never]);
        seen.lock().unwrap().push(body.seen());
        std::future::ready(Ok(answer(503, body)))
    })
}

#[tokio::test(start_paused = true)]
async fn case_065_a_drop_at_any_point_lets_go_of_the_body_and_gives_the_token_back() {
    // In the drain, in the wait after it, and in the attempt after that.
    for (dropped_after, dropped, tokens) in [(50, 0, 20.0), (150, 1, 20.0), (250, 1, 19.0)] {
        let seen = Arc::default();
        let budget = Budget::new(0.1, 20).unwrap();
        let service = ServiceBuilder::new()
            .layer(BudgetLayer::new(budget.clone()))
            .layer(retry(200 * MS).release(drain()).build().unwrap())
            .service(endless(&seen));
        let mut call = Box::pin(service.oneshot(Request::new(())));
        let cut = timeout(dropped_after * MS, &mut call).await;
        let released = seen
            .lock()
            .unwrap()
            .iter()
            .filter(|seen| seen.is_dropped())
            .count();
        assert_eq!(released, dropped, "after {dropped_after} ms");
        drop((call, cut));
        assert!(seen.lock().unwrap().iter().all(Seen::is_dropped));
        assert!(
            (budget.balance() - tokens).abs() < 1e-9,
            "after {dropped_after} ms"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_during_the_drain_ends_the_call_after_it() {
    let seen = Arc::default();
    let breaker = CircuitBreaker::default();
    let budget = Budget::new(0.1, 20).unwrap();
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(breaker.clone(), HttpPolicy::new()))
        .layer(BudgetLayer::new(budget.clone()))
        .layer(retry(10 * MS).release(drain()).build().unwrap())
        .service(endless(&seen));
    let call = tokio::spawn(service.oneshot(Request::new(())));
    sleep(50 * MS).await;
    breaker.force_open();
    let error = call.await.unwrap().err().unwrap();
    assert!(BreakerOpen::find(&*error).is_some());
    assert_eq!(seen.lock().unwrap().len(), 1, "no second attempt");
    assert!(budget.is_full());
}

#[tokio::test(start_paused = true)]
async fn the_last_response_is_the_callers_and_not_drained() {
    let seen = Arc::default();
    let layer = retry(MS).release(drain()).build().unwrap();
    let response = layer.layer(endless(&seen)).oneshot(Request::new(())).await;
    let seen = seen.lock().unwrap();
    let dropped: Vec<_> = seen.iter().map(Seen::is_dropped).collect();
    assert_eq!((dropped, seen[1].polls()), (vec![true, false], 0));
    drop(response);
}

/// A body that keeps its connection, of which there is one.
struct Held(
    Scripted,
    #[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit,
);

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        let _ = &self.0;
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn case_065_a_pool_of_one_starves_nobody() {
    let pool = Arc::new(Semaphore::new(1));
    let attempts = Arc::new(AtomicUsize::new(0));
    let stack = Stack::builder(HttpPolicy::new()).seed(1).release(drain());
    let stack = stack.build().unwrap();
    let count = Arc::clone(&attempts);
    let inner = tower::service_fn(move |_: Request<()>| {
        let pool = Arc::clone(&pool);
        let count = Arc::clone(&count);
        async move {
            let permit = pool.acquire_owned().await?;
            let status = match count.fetch_add(1, Ordering::SeqCst) % 4 {
                3 => 200,
                _ => 503,
            };
            let body = Held(Scripted::new([]), permit);
            Ok::<_, BoxError>(Response::builder().status(status).body(body).unwrap())
        }
    });
    let service = stack.layer(ConcurrencyLimit::new(inner, 1));
    for _ in 0..3 {
        let response = service.clone().oneshot(Request::new(())).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 12);
}

/// A listener that counts the connections it accepts.
struct Counting(TcpListener, Arc<AtomicUsize>);

impl axum::serve::Listener for Counting {
    type Io = TcpStream;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (TcpStream, Self::Addr) {
        loop {
            if let Ok(accepted) = self.0.accept().await {
                self.1.fetch_add(1, Ordering::SeqCst);
                return accepted;
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

type Pooled = Client<HttpConnector, Full<Bytes>>;
type Answer = <Pooled as tower::Service<Request<Full<Bytes>>>>::Response;

/// How many connections a call of four attempts takes, of which three are answered with 32 KiB of error.
async fn connections<D>(release: D) -> usize
where
    D: Release<Answer>,
{
    let calls = Arc::new(AtomicUsize::new(0));
    let app = Router::new().fallback(move || {
        let last = calls.fetch_add(1, Ordering::SeqCst) % 4 == 3;
        async move {
            if last {
                return (StatusCode::OK, Bytes::from_static(b"calm"));
            }
            let error = Bytes::from(vec![b'x'; 32 * 1024]);
            (StatusCode::SERVICE_UNAVAILABLE, error)
        }
    });
    let accepted = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    let listener = Counting(listener, Arc::clone(&accepted));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let client: Pooled = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .pool_max_idle_per_host(1)
        .build_http();
    let layer = retry(20 * MS).max_attempts(4).release(release).build();
    let service = layer.unwrap().layer(ConcurrencyLimit::new(client, 1));
    let request = Request::get(uri).body(Full::default()).unwrap();
    let (outcome, report) = CallReport::of(service.oneshot(request)).await;
    let body = outcome.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "calm");
    assert_eq!(report.unwrap().attempts(), 4);
    accepted.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_connection_survives_the_responses_that_lose() {
    assert_eq!(connections(drain()).await, 1);
    let without = connections(DropResponse).await;
    assert!(without > 1, "{without}");
}
