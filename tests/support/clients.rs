//! The same stack around three real clients.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it"
)]

use std::future::Future;
use std::pin::Pin;

use axum::body::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tower::{Layer, ServiceExt};
#[cfg(feature = "reqwest")]
use tower_composure::http::reqwest::{TryCloneRequest, same_method};
use tower_composure::stack::StackBuilder;
use tower_composure::{BoxError, CallReport, HttpPolicy};

/// A client and the version of HTTP that it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Http1,
    Http2,
    #[cfg(feature = "reqwest")]
    Reqwest,
}

impl Kind {
    pub const ALL: &[Self] = &[
        Self::Http1,
        Self::Http2,
        #[cfg(feature = "reqwest")]
        Self::Reqwest,
    ];
}

/// A request, whichever client sends it.
#[derive(Debug, Clone)]
pub struct Ask {
    pub method: Method,
    pub url: String,
    pub key: Option<&'static str>,
    pub body: &'static str,
}

impl Ask {
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            key: None,
            body: "",
        }
    }
}

/// How a call ended.
#[derive(Debug)]
pub struct Outcome {
    pub head: Result<(StatusCode, HeaderMap), BoxError>,
    /// None where the response broke off, or there was none.
    pub body: Option<String>,
    pub report: CallReport,
}

impl Outcome {
    /// The status, or none where there was an error.
    pub fn status(&self) -> Option<u16> {
        Some(self.head.as_ref().ok()?.0.as_u16())
    }
}

type Sending = Pin<Box<dyn Future<Output = Outcome>>>;

/// A client in a stack. Its calls share connections, budget and breaker.
pub struct Client(Box<dyn Fn(Ask) -> Sending>);

impl Client {
    pub fn new(kind: Kind, stack: StackBuilder<HttpPolicy>) -> Self {
        match kind {
            Kind::Http1 => Self::hyper(false, stack),
            Kind::Http2 => Self::hyper(true, stack),
            #[cfg(feature = "reqwest")]
            Kind::Reqwest => Self::reqwest(stack),
        }
    }

    pub async fn send(&self, ask: Ask) -> Outcome {
        (self.0)(ask).await
    }

    fn hyper(http2: bool, stack: StackBuilder<HttpPolicy>) -> Self {
        let client: legacy::Client<HttpConnector, Full<Bytes>> =
            legacy::Client::builder(TokioExecutor::new())
                .http2_only(http2)
                .retry_canceled_requests(false)
                .build_http();
        let service = stack.build().unwrap().layer(client);
        Self(Box::new(move |ask| {
            let mut request = Request::builder().method(ask.method).uri(ask.url);
            if let Some(key) = ask.key {
                request = request.header("idempotency-key", key);
            }
            let request = request.body(Full::from(ask.body)).unwrap();
            let service = service.clone();
            Box::pin(async move {
                let (outcome, report) = CallReport::of(service.oneshot(request)).await;
                Outcome::of(outcome, report).await
            })
        }))
    }

    #[cfg(feature = "reqwest")]
    fn reqwest(stack: StackBuilder<HttpPolicy>) -> Self {
        let client = reqwest::Client::builder()
            .retry(reqwest::retry::never())
            .redirect(same_method(10))
            .build()
            .unwrap();
        let service = stack.replay(TryCloneRequest).build().unwrap().layer(client);
        Self(Box::new(move |ask| {
            let mut request = reqwest::Request::new(ask.method, ask.url.parse().unwrap());
            if let Some(key) = ask.key {
                let headers = request.headers_mut();
                headers.insert("idempotency-key", key.parse().unwrap());
            }
            *request.body_mut() = Some(ask.body.into());
            let service = service.clone();
            Box::pin(async move {
                let (outcome, report) = CallReport::of(service.oneshot(request)).await;
                Outcome::of(outcome.map(Response::from), report).await
            })
        }))
    }
}

impl Outcome {
    async fn of<B>(outcome: Result<Response<B>, BoxError>, report: Option<CallReport>) -> Self
    where
        B: BodyExt,
    {
        let (head, body) = match outcome {
            Err(error) => (Err(error), None),
            Ok(response) => {
                let (head, body) = response.into_parts();
                let bytes = body.collect().await.ok().map(Collected::to_bytes);
                let body = bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
                (Ok((head.status, head.headers)), body)
            }
        };
        Self {
            head,
            body,
            report: report.unwrap(),
        }
    }
}
