//! What real clients of hyper-util say when something real goes wrong, over loopback sockets.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Frame};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::http_policy::policy;
use support::pipe::Pipe;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_composure::{
    Attempt, Backoff, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer, Effect, Policy,
    RetryLayer, Verdict,
};

/// Against a hang only.
const LONG: Duration = Duration::from_secs(30);

type Connector = BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>;

type Response = http::Response<hyper::body::Incoming>;

/// The verdict on an error as the client has it, which boxes around it do not change.
fn verdict(error: legacy::Error) -> Verdict {
    let attempt = Attempt::first(Effect::Write);
    let bare: &dyn Policy<Request<()>, Response, legacy::Error> = &policy();
    let verdict = bare.classify(&attempt, Err(&error));
    let boxed: &dyn Policy<Request<()>, Response, BoxError> = &policy();
    let error = BoxError::from(io::Error::other(BoxError::from(error)));
    assert_eq!(boxed.classify(&attempt, Err(&error)), verdict);
    verdict
}

fn charge(uri: &str) -> Request<Empty<Bytes>> {
    post(uri, Empty::new())
}

fn has<T: Error + 'static>(error: &legacy::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<T>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn http1<C, B>(connector: C) -> Client<C, B>
where
    C: Connect + Clone,
    B: Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new()).build(connector)
}

/// A way to connect that a test makes up.
fn connector<S>(service: S) -> Connector
where
    S: Service<Uri, Response = TokioIo<TcpStream>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
{
    BoxCloneSyncService::new(service.map_err(Into::into))
}

fn post<B>(uri: impl AsRef<str>, body: B) -> Request<B> {
    Request::post(uri.as_ref()).body(body).unwrap()
}

/// The error of a POST through this client.
async fn fails<C, B>(client: &Client<C, B>, request: Request<B>) -> legacy::Error
where
    C: Connect + Clone + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let answer = tokio::time::timeout(LONG, client.request(request)).await;
    answer.unwrap().unwrap_err()
}

/// A server that does this to each of its connections.
async fn server<F>(mut on: impl FnMut(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            on(stream).await;
        }
    });
    address
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        seen.push(stream.read_u8().await.unwrap());
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A port of this machine on which nobody listens.
async fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

// What was not sent.

#[tokio::test]
async fn what_never_began_to_connect_and_would_not_the_next_time_is_rejected() {
    let breaker = CircuitBreaker::default();
    breaker.force_open();
    let guarded = CircuitBreakerLayer::new(breaker, Effect::Read).layer(HttpConnector::new());
    let invalid = service_fn(|_| async { Err("http://[/".parse::<Uri>().unwrap_err()) });
    for connector in [connector(guarded), connector(invalid)] {
        let error = fails(&http1(connector), charge("http://localhost/")).await;
        assert!(error.is_connect());
        assert_eq!(verdict(error), Verdict::Rejected);
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_refused() {
    let client = http1(HttpConnector::new());
    let uri = format!("http://{}/", closed_port().await);
    let error = fails(&client, charge(&uri)).await;
    assert!(error.is_connect());
    assert_eq!(verdict(error), Verdict::REFUSED);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_refused() {
    let resolver = service_fn(async |_: Name| {
        Err::<std::vec::IntoIter<SocketAddr>, _>(io::Error::other("temporary failure"))
    });
    let client = http1(HttpConnector::new_with_resolver(resolver));
    let error = fails(&client, charge("http://payments.test/")).await;
    assert!(error.is_connect());
    assert_eq!(verdict(error), Verdict::REFUSED);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_takes_too_long_is_refused() {
    let never = || service_fn(|_: Uri| std::future::pending::<io::Result<TokioIo<TcpStream>>>());
    let request = || charge("http://payments.test/");
    let tower = ServiceBuilder::new()
        .timeout(Duration::from_secs(1))
        .service(never());
    let error = fails(&http1(connector(tower)), request()).await;
    assert!(has::<tower::timeout::error::Elapsed>(&error));
    assert_eq!(verdict(error), Verdict::REFUSED);
    let ours = DeadlineLayer::attempt(Duration::from_secs(1));
    let ours = ServiceBuilder::new().layer(ours).service(never());
    let error = fails(&http1(connector(ours)), request()).await;
    assert!(has::<tower_composure::DeadlineExceeded>(&error));
    assert_eq!(verdict(error), Verdict::REFUSED);
}

#[tokio::test]
async fn a_request_that_a_closing_connection_gives_back_is_refused() {
    let (near, far) = tokio::io::duplex(1024);
    let near = Arc::new(Mutex::new(Some(near)));
    let connect = service_fn(move |_: Uri| {
        let near = near.lock().unwrap().take().unwrap();
        async { io::Result::Ok(TokioIo::new(Pipe(near))) }
    });
    let client = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build(BoxCloneSyncService::new(connect));
    let answering = tokio::spawn(async move {
        let mut far = far;
        read_request(&mut far).await;
        far.write_all(OK).await.unwrap();
        far
    });
    let first = client.request(charge("http://payments.test/")).await;
    first.unwrap().into_body().collect().await.unwrap();
    let far = answering.await.unwrap();
    // The client finds it idle, and then that it has closed.
    drop(far);
    let error = fails(&client, charge("http://payments.test/")).await;
    assert_eq!(verdict(error), Verdict::REFUSED);
}

// What is not worth sending.

#[tokio::test]
async fn case_040_a_connect_error_may_be_for_good() {
    let client = http1(HttpConnector::new());
    for uri in ["ftp://payments.test/", "https://payments.test/"] {
        let error = fails(&client, charge(uri)).await;
        assert!(error.is_connect(), "a phase");
        assert_eq!(verdict(error), Verdict::Rejected, "{uri}");
    }
    // A source that nobody knows is retried.
    let unknown = service_fn(async |_: Uri| Err::<TokioIo<TcpStream>, BoxError>("?".into()));
    let error = fails(&http1(connector(unknown)), charge("http://payments.test/")).await;
    assert_eq!(verdict(error), Verdict::REFUSED);
}

#[tokio::test]
async fn a_request_that_the_client_refuses_is_rejected() {
    let client = http1(HttpConnector::new());
    let error = fails(&client, charge("/charges")).await;
    assert_eq!(verdict(error), Verdict::Rejected, "no host");

    let mut old = charge("http://payments.test/");
    *old.version_mut() = Version::HTTP_09;
    assert_eq!(verdict(fails(&client, old).await), Verdict::Rejected);

    let address = server(async |_| {}).await;
    let mut newer = charge(&format!("http://{address}/"));
    *newer.version_mut() = Version::HTTP_2;
    assert_eq!(verdict(fails(&client, newer).await), Verdict::Rejected);
}

#[tokio::test]
async fn case_041_what_a_handshake_does_not_like_is_a_fault_and_a_cut_off_one_is_not() {
    #[derive(Debug)]
    struct UnknownIssuer;
    impl std::fmt::Display for UnknownIssuer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("x")
        }
    }
    impl Error for UnknownIssuer {}
    for (kind, expected) in [
        (io::ErrorKind::InvalidData, Verdict::Fault),
        (io::ErrorKind::UnexpectedEof, Verdict::REFUSED),
        (io::ErrorKind::ConnectionReset, Verdict::REFUSED),
        (io::ErrorKind::InvalidInput, Verdict::Rejected),
    ] {
        // As hyper-rustls wraps the errors of tokio-rustls.
        let connect = service_fn(move |_: Uri| async move {
            let error = io::Error::other(io::Error::new(kind, UnknownIssuer));
            Err::<TokioIo<TcpStream>, BoxError>(error.into())
        });
        let error = fails(&http1(connector(connect)), charge("http://payments.test/")).await;
        assert_eq!(verdict(error), expected, "{kind:?}");
    }
}

// What was sent.

#[tokio::test]
async fn case_046_a_connection_that_closes_before_the_answer_proves_nothing() {
    let client = http1(HttpConnector::new());
    let address = server(async |mut stream: TcpStream| read_request(&mut stream).await).await;
    let error = fails(&client, charge(&format!("http://{address}/"))).await;
    let hyper = error.source().unwrap().downcast_ref::<hyper::Error>();
    assert!(hyper.unwrap().is_incomplete_message());
    assert_eq!(verdict(error), Verdict::UNKNOWN);
}

#[tokio::test]
async fn a_connection_that_closes_at_once_looks_like_one_that_had_the_request() {
    let connect = service_fn(async |_: Uri| {
        let (near, _far) = tokio::io::duplex(1024);
        io::Result::Ok(TokioIo::new(Pipe(near)))
    });
    let client = http1(BoxCloneSyncService::new(connect));
    let error = fails(&client, charge("http://payments.test/")).await;
    let hyper = error.source().unwrap().downcast_ref::<hyper::Error>();
    assert!(hyper.unwrap().is_incomplete_message());
    assert_eq!(verdict(error), Verdict::UNKNOWN);
}

#[tokio::test]
async fn a_connection_that_is_reset_proves_nothing() {
    let client = http1(HttpConnector::new());
    // What it has not read when it closes makes it a reset.
    let address = server(async |mut stream: TcpStream| {
        stream.read_u8().await.unwrap();
    })
    .await;
    let error = fails(&client, charge(&format!("http://{address}/"))).await;
    assert_eq!(verdict(error), Verdict::UNKNOWN);
}

#[tokio::test]
async fn an_answer_that_is_no_http_proves_nothing() {
    let client = http1(HttpConnector::new());
    let address = server(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        stream.write_all(b"what?\r\n\r\n").await.unwrap();
    })
    .await;
    let error = fails(&client, charge(&format!("http://{address}/"))).await;
    assert_eq!(verdict(error), Verdict::UNKNOWN);
}

/// A body that fails after its first bytes.
struct Failing(Option<Bytes>, fn() -> BoxError);

impl Body for Failing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let first = self.0.take().map(|bytes| Ok(Frame::data(bytes)));
        Poll::Ready(Some(first.unwrap_or_else(|| Err((self.1)()))))
    }
}

fn failing(error: fn() -> BoxError) -> Failing {
    Failing(Some(Bytes::from_static(b"amount=")), error)
}

#[tokio::test]
async fn why_the_requests_own_body_failed_says_nothing_of_the_request() {
    let address = server(async |mut stream: TcpStream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused).into();
    let request = post(format!("http://{address}/"), failing(refused));
    let error = fails(&http1(HttpConnector::new()), request).await;
    assert!(has::<io::Error>(&error));
    assert_eq!(verdict(error), Verdict::UNKNOWN);
}

#[tokio::test]
async fn nor_does_it_without_a_client_of_hyper_util() {
    let (near, _far) = tokio::io::duplex(1024);
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(near));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused).into();
    let answer = sender.send_request(post("/", failing(refused)));
    let error = tokio::time::timeout(LONG, answer)
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.is_user());
    let policy: &dyn Policy<Request<()>, Response, hyper::Error> = &policy();
    let attempt = Attempt::first(Effect::Write);
    assert_eq!(policy.classify(&attempt, Err(&error)), Verdict::UNKNOWN);
}

#[tokio::test]
async fn case_039_a_write_that_was_not_sent_is_sent_again() {
    let address = server(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        stream.write_all(OK).await.unwrap();
    })
    .await;
    let closed = closed_port().await;
    let connects = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&connects);
    let connect = service_fn(move |_: Uri| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            let stream = TcpStream::connect(if first { closed } else { address }).await;
            stream.map(TokioIo::new)
        }
    });
    let layer = RetryLayer::builder(policy()).backoff(Backoff::none());
    let service = ServiceBuilder::new()
        .layer(layer.build().unwrap())
        .service(http1(connector(connect)));
    let request = charge("http://payments.test/");
    let response = tokio::time::timeout(LONG, service.oneshot(request)).await;
    assert_eq!(response.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(connects.load(Ordering::SeqCst), 2);
}
