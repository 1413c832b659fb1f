//! A real HTTP server, 1.1 and 2, that carries out what it is sent and remembers it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The body of each of its answers. What is before the bar is a half of it.
pub const BODY: &str = "one half|the other half";

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: String,
}

impl Seen {
    pub fn key(&self) -> Option<&str> {
        let key = self.headers.get("idempotency-key")?;
        Some(key.to_str().unwrap())
    }
}

/// The server while it runs: until the test's runtime ends.
#[derive(Debug, Clone)]
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    carried_out: watch::Receiver<usize>,
}

struct Api {
    seen: Arc<Mutex<Vec<Seen>>>,
    carried_out: watch::Sender<usize>,
}

impl Server {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::default();
        let (sender, carried_out) = watch::channel(0);
        let api = Arc::new(Api {
            seen: Arc::clone(&seen),
            carried_out: sender,
        });
        let app = Router::new().fallback(carry_out).with_state(api);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            address,
            seen,
            carried_out,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The requests that were carried out, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Their number, to be waited on.
    pub fn carried_out(&self) -> watch::Receiver<usize> {
        self.carried_out.clone()
    }
}

/// Answers `/303/x` and the like with that status and a `Location` of `/x`, `/to/303/1.2.3.4:5` with one of that
/// authority, `/large/503` with a large body, and everything else with 200.
async fn carry_out(
    State(api): State<Arc<Api>>,
    request: Request<Body>,
) -> (StatusCode, HeaderMap, String) {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    api.seen.lock().unwrap().push(Seen {
        method: head.method,
        uri: head.uri.clone(),
        version: head.version,
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    api.carried_out.send_modify(|count| *count += 1);
    let mut headers = HeaderMap::new();
    let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    let (status, location) = match path[..] {
        ["large", status] => {
            let body = BODY.repeat(2500);
            return (status.parse().unwrap(), headers, body);
        }
        ["to", status, authority] => (status, format!("http://{authority}/")),
        [status, name] => (status, format!("/{name}")),
        _ => return (StatusCode::OK, headers, BODY.to_owned()),
    };
    headers.insert("location", location.parse().unwrap());
    (status.parse().unwrap(), headers, BODY.to_owned())
}
