//! Streamed bodies that are sent again through a real client to a real server.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body as Received;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use support::body::{Event, Scripted, trailers};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_composure::http::{
    CollectBodyLayer, DrainBody, ReplayBody, ReplayBodyLayer, ReplayRequest,
};
use tower_composure::{
    Attempt, Backoff, BoxError, HttpPolicy, IdempotencyKeyLayer, RetryLayer, Stack,
};

/// Longer than any of this takes.
const HANG: Duration = Duration::from_secs(20);

fn client<B>() -> Client<HttpConnector, ReplayBody<B>>
where
    B: Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http()
}

fn retry() -> RetryLayer<HttpPolicy, ReplayRequest> {
    RetryLayer::builder(HttpPolicy::new())
        .backoff(Backoff::none())
        .replay(ReplayRequest)
        .build()
        .unwrap()
}

async fn serve(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    uri
}

#[tokio::test]
async fn case_057_the_wire_says_the_same_of_each_attempt() {
    for exact in [true, false] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let app = Router::new().fallback(move |headers: HeaderMap, body: Received| async move {
            let collected = body.collect().await.unwrap();
            let trailers = collected.trailers().cloned();
            let all = |name| {
                let values = headers.get_all(name).iter();
                values
                    .map(|value| value.to_str().unwrap().to_owned())
                    .collect::<Vec<_>>()
            };
            let mut log = log.lock().unwrap();
            log.push((
                all("content-length"),
                all("transfer-encoding"),
                trailers,
                collected.to_bytes(),
            ));
            match log.len() {
                1 => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::OK,
            }
        });
        let uri = serve(app).await;
        let service = ServiceBuilder::new()
            .layer(ReplayBodyLayer::new())
            .layer(retry())
            .service(client());
        let pieces = [Event::Data(b"hel"), Event::Yield, Event::Data(b"lo")];
        let mut request = Request::put(uri);
        let body = if exact {
            Scripted::new(pieces).exact(5)
        } else {
            request = request.header("trailer", "x-sum");
            let end = Event::Trailers(trailers("x-sum", "7"));
            Scripted::new(pieces.into_iter().chain([end]))
        };
        let call = service.oneshot(request.body(body).unwrap());
        let response = timeout(HANG, call).await.unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let seen = seen.lock().unwrap();
        let expected = if exact {
            (vec!["5".to_owned()], vec![], None, Bytes::from("hello"))
        } else {
            let chunked = vec!["chunked".to_owned()];
            (
                vec![],
                chunked,
                Some(trailers("x-sum", "7")),
                Bytes::from("hello"),
            )
        };
        assert_eq!(*seen, [expected.clone(), expected]);
    }
}

/// A body that a test feeds.
struct Fed(mpsc::UnboundedReceiver<Bytes>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|data| Some(Ok(Frame::data(data?))))
    }
}

/// A server that tells when it has begun to read a request, and keeps what it has read whole.
#[derive(Clone, Default)]
struct Reader {
    requests: Arc<AtomicU32>,
    begun: Arc<[Notify; 2]>,
    whole: Arc<Mutex<Vec<Bytes>>>,
}

impl Reader {
    /// Answers the first request early, with a 503 and its body unread, or not at all.
    async fn serve(&self, early: bool) -> String {
        let reader = self.clone();
        let app = Router::new().fallback(move |body: Received| async move {
            let mut body = body;
            let first = reader.requests.fetch_add(1, Ordering::SeqCst) == 0;
            if first && early {
                return StatusCode::SERVICE_UNAVAILABLE;
            }
            let begin = body.frame().await.unwrap().unwrap().into_data().unwrap();
            reader.begun[usize::from(!first)].notify_one();
            let Ok(rest) = body.collect().await else {
                return StatusCode::BAD_REQUEST;
            };
            let all = [begin, rest.to_bytes()].concat();
            reader.whole.lock().unwrap().push(all.into());
            StatusCode::OK
        });
        serve(app).await
    }

    /// From a client whose body goes on when the second attempt has begun to send it.
    async fn gets_all_of_it<S, B>(&self, uri: String, client: S)
    where
        S: Service<Request<Fed>, Response = Response<B>, Error: Debug + Send> + Send + 'static,
        S::Future: Send,
        B: Send + 'static,
    {
        let (feed, body) = mpsc::unbounded_channel();
        feed.send(Bytes::from("first,")).unwrap();
        let call = client.oneshot(Request::put(uri).body(Fed(body)).unwrap());
        let call = tokio::spawn(timeout(HANG, call));
        timeout(HANG, self.begun[1].notified()).await.unwrap();
        feed.send(Bytes::from("second")).unwrap();
        drop(feed);
        let response = call.await.unwrap().unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(*self.whole.lock().unwrap(), ["first,second"]);
    }
}

#[tokio::test]
async fn a_server_that_answers_early_gets_the_whole_body_from_the_next_attempt() {
    let reader = Reader::default();
    let uri = reader.serve(true).await;
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(retry())
        .service(client());
    reader.gets_all_of_it(uri, service).await;
}

#[tokio::test]
async fn an_attempt_that_is_cut_off_half_way_hands_the_stream_on() {
    let reader = Reader::default();
    let uri = reader.serve(false).await;
    let client = client();
    let begun = Arc::clone(&reader.begun);
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(retry())
        .service_fn(move |request| {
            let call = client.request(request);
            let begun = Arc::clone(&begun);
            async move {
                // As a deadline does it, at an event instead of a time.
                let cut = Attempt::current().is_some_and(|attempt| attempt.number() == 1);
                tokio::select! {
                    outcome = call => outcome.map_err(BoxError::from),
                    () = begun[0].notified(), if cut => Err("cut off".into()),
                }
            }
        });
    reader.gets_all_of_it(uri, service).await;
}

#[tokio::test]
async fn all_of_them_work_together_in_a_stack() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let app = Router::new().fallback(move |headers: HeaderMap, body: Received| async move {
        let sent = body.collect().await.unwrap().to_bytes();
        let mut log = log.lock().unwrap();
        log.push((headers["idempotency-key"].clone(), sent));
        match log.len() {
            1 => (StatusCode::BAD_GATEWAY, "down"),
            2 => (StatusCode::TOO_MANY_REQUESTS, "busy"),
            _ => (StatusCode::CREATED, "charged"),
        }
    });
    let uri = serve(app).await;
    let stack = Stack::builder(HttpPolicy::new())
        .backoff(Backoff::none())
        .idempotency_key(IdempotencyKeyLayer::new())
        .replay(ReplayRequest)
        .release(DrainBody::new());
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(stack.build().unwrap())
        .layer(CollectBodyLayer::new().all())
        .service(client());
    let body = Scripted::new([Event::Data(b"7 "), Event::Yield, Event::Data(b"EUR")]);
    let call = service.oneshot(Request::post(uri).body(body).unwrap());
    let response = timeout(HANG, call).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    assert_eq!(response.body().collected().unwrap(), "charged");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|call| *call == seen[0]));
    assert_eq!(seen[0].1, "7 EUR");
}
