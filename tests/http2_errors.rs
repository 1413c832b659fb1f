//! What it means when an HTTP/2 peer resets a stream or goes away, from a real client over loopback sockets.
#![cfg(all(not(loom), feature = "http2"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::{Method, Request};
use http_body_util::Empty;
use hyper::body::{Body, Frame};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use support::http_policy::policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_composure::{Attempt, Backoff, Effect, Policy, RetryLayer, Verdict};

/// Against a hang only.
const LONG: Duration = Duration::from_secs(30);

fn verdict<E: 'static>(error: &E) -> Verdict {
    let policy: &dyn Policy<Request<()>, http::Response<()>, E> = &policy();
    policy.classify(&Attempt::first(Effect::Write), Err(error))
}

fn client<B>() -> Client<HttpConnector, B>
where
    B: Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http()
}

async fn fails<B>(address: SocketAddr, body: B) -> legacy::Error
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let request = Request::post(format!("http://{address}/")).body(body);
    let answer = tokio::time::timeout(LONG, client().request(request.unwrap())).await;
    answer.unwrap().unwrap_err()
}

async fn listening<F>(mut on: impl FnMut(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(on(stream));
        }
    });
    address
}

/// A server that resets its first streams for this reason, and says OK to those after them.
async fn resets(reason: Reason, mut streams: u32) -> SocketAddr {
    listening(move |stream| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut answer))) = connection.accept().await {
            if streams > 0 {
                streams -= 1;
                answer.send_reset(reason);
            } else {
                let _ = answer.send_response(http::Response::new(()), true);
            }
        }
    })
    .await
}

#[tokio::test]
async fn only_a_stream_that_was_refused_is_known_to_have_had_no_effect() {
    for (reason, expected) in [
        (Reason::REFUSED_STREAM, Verdict::REFUSED),
        (Reason::INTERNAL_ERROR, Verdict::UNKNOWN),
        (Reason::CANCEL, Verdict::UNKNOWN),
        (Reason::ENHANCE_YOUR_CALM, Verdict::UNKNOWN),
        (Reason::HTTP_1_1_REQUIRED, Verdict::UNKNOWN),
    ] {
        let address = resets(reason, u32::MAX).await;
        let error = fails(address, Empty::<Bytes>::new()).await;
        let hyper = error.source().unwrap();
        let h2 = hyper.source().unwrap().downcast_ref::<h2::Error>().unwrap();
        assert!(h2.is_reset() && h2.reason() == Some(reason));
        assert_eq!(verdict(&error), expected, "{reason}");
        let boxed: BoxError = std::io::Error::other(BoxError::from(error)).into();
        assert_eq!(verdict(&boxed), expected, "{reason}");
    }
}

#[tokio::test]
async fn case_042_a_refused_stream_is_sent_again() {
    for (method, reason, expected) in [
        (Method::POST, Reason::REFUSED_STREAM, 200),
        (Method::GET, Reason::INTERNAL_ERROR, 200),
        (Method::POST, Reason::INTERNAL_ERROR, 0),
    ] {
        let address = resets(reason, 1).await;
        let layer = RetryLayer::builder(policy()).backoff(Backoff::none());
        let service = ServiceBuilder::new()
            .layer(layer.build().unwrap())
            .service(client());
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{address}/"));
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let answer = tokio::time::timeout(LONG, service.oneshot(request))
            .await
            .unwrap();
        let status = answer.map_or(0, |response| response.status().as_u16());
        assert_eq!(status, expected);
    }
}

/// Answers the first stream with a GOAWAY that says up to which stream things may have been processed, and closes.
async fn goes_away(last: u32, reason: Reason) -> SocketAddr {
    listening(move |mut stream| async move {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        // SETTINGS, empty.
        stream
            .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.unwrap();
            if head[3] == 1 {
                break;
            }
        }
        let mut away = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
        away.extend(last.to_be_bytes());
        away.extend(u32::from(reason).to_be_bytes());
        stream.write_all(&away).await.unwrap();
        stream.shutdown().await.unwrap();
        // Until the client has gone too.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await
}

#[tokio::test]
async fn case_044_a_peer_that_goes_away_proves_nothing() {
    for (last, reason) in [
        (0, Reason::NO_ERROR),
        (0, Reason::ENHANCE_YOUR_CALM),
        (0, Reason::REFUSED_STREAM),
        (1, Reason::NO_ERROR),
        (1, Reason::REFUSED_STREAM),
    ] {
        let address = goes_away(last, reason).await;
        let error = fails(address, Empty::<Bytes>::new()).await;
        let hyper = error.source().unwrap();
        let h2 = hyper
            .source()
            .and_then(<dyn Error>::downcast_ref::<h2::Error>);
        assert_eq!(
            h2.is_some_and(h2::Error::is_go_away),
            last == 0,
            "{error:?}"
        );
        assert_eq!(
            verdict(&error),
            Verdict::UNKNOWN,
            "{last}, {reason}: {error:?}"
        );
    }
}

/// A body that fails as if its own source had been an HTTP/2 stream that was refused.
struct Failing(bool);

impl Body for Failing {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let first = std::mem::replace(&mut self.0, false);
        let bytes = Bytes::from_static(b"amount=");
        Poll::Ready(Some(if first {
            Ok(Frame::data(bytes))
        } else {
            Err(Reason::REFUSED_STREAM.into())
        }))
    }
}

#[tokio::test]
async fn a_stream_that_we_reset_ourselves_was_not_refused() {
    let address = listening(|stream| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        // Never answers.
        let mut open = Vec::new();
        while let Some(Ok(stream)) = connection.accept().await {
            open.push(stream);
        }
    })
    .await;
    let error = fails(address, Failing(true)).await;
    assert_eq!(verdict(&error), Verdict::UNKNOWN, "{error:?}");
    assert_eq!(
        verdict(&h2::Error::from(Reason::REFUSED_STREAM)),
        Verdict::UNKNOWN
    );
}

#[tokio::test]
async fn a_refused_stream_is_seen_without_a_client_of_hyper_util() {
    let address = resets(Reason::REFUSED_STREAM, u32::MAX).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let request = Request::post("http://payments.test/").body(()).unwrap();
    let (answer, _) = client.send_request(request, true).unwrap();
    let error = tokio::time::timeout(LONG, answer)
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(verdict(&error), Verdict::REFUSED);
}
