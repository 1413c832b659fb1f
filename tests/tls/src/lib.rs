//! What real TLS handshakes that fail mean, over loopback sockets.
#![cfg(test)]

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, rustls};
use tower_composure::{Attempt, Effect, HttpPolicy, Policy, Verdict};

/// Against a hang only.
const LONG: Duration = Duration::from_secs(30);

/// The error of a POST over TLS to a server that does this to its connection, by a client that trusts nobody.
async fn fails<F>(on: impl FnOnce(TcpStream) -> F + Send + 'static) -> legacy::Error
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        on(stream).await;
    });
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .build();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let request = Request::post(format!("https://localhost:{}/", address.port()));
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let answer = tokio::time::timeout(LONG, client.request(request)).await;
    answer.unwrap().unwrap_err()
}

fn verdict(error: &legacy::Error) -> Verdict {
    assert!(error.is_connect(), "a phase: {error:?}");
    let policy: &dyn Policy<Request<()>, http::Response<()>, legacy::Error> = &HttpPolicy::new();
    policy.classify(&Attempt::first(Effect::Read), Err(error))
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_a_fault() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = vec![made.cert.der().clone()];
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificate, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let error = fails(async move |stream| {
        let _ = acceptor.accept(stream).await;
    })
    .await;
    assert_eq!(verdict(&error), Verdict::Fault);
    let outer = error.source().unwrap().downcast_ref::<io::Error>();
    let inner = outer.and_then(io::Error::get_ref).unwrap();
    let inner = inner
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let tls = inner.unwrap().downcast_ref::<rustls::Error>().unwrap();
    assert!(
        matches!(tls, rustls::Error::InvalidCertificate(_)),
        "{tls:?}"
    );
}

#[tokio::test]
async fn a_peer_that_speaks_no_tls_is_a_fault() {
    let error = fails(async |mut stream| {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    assert_eq!(verdict(&error), Verdict::Fault);
}

#[tokio::test]
async fn a_handshake_that_is_cut_off_is_refused() {
    let error = fails(async |mut stream| {
        // The whole of the first message, so that this is a close and no reset.
        let mut head = [0; 5];
        stream.read_exact(&mut head).await.unwrap();
        let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        stream.read_exact(&mut hello).await.unwrap();
    })
    .await;
    assert_eq!(verdict(&error), Verdict::REFUSED);
}
