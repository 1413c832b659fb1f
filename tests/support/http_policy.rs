//! A policy with a wall clock that stands still, what it says of an answer, and a call over it.

use std::io;
use std::time::{Duration, SystemTime};

use http::{Method, Request, Response};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, Backoff, CallReport, Effect, Hint, HttpPolicy, Jitter, Policy, RetryLayer, Verdict,
};

use super::{Script, Step};

pub const SECOND: Duration = Duration::from_secs(1);

/// 2026-01-01T00:00:00Z.
pub fn w0() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

pub fn policy() -> HttpPolicy {
    HttpPolicy::new().wall_clock(w0)
}

pub fn classify(policy: &HttpPolicy, outcome: Result<&Response<()>, &BoxError>) -> Verdict {
    let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = policy;
    policy.classify(&Attempt::first(Effect::Read), outcome)
}

pub fn answer(status: u16, headers: &[(&str, &[u8])]) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap()
}

/// The hint of a 503 with these headers.
pub fn hint_of(policy: &HttpPolicy, headers: &[(&str, &[u8])]) -> Option<Duration> {
    classify(policy, Ok(&answer(503, headers)))
        .hint()
        .map(Hint::wait)
}

pub fn hint(value: &str) -> Option<Duration> {
    hint_of(&policy(), &[("retry-after", value.as_bytes())])
}

/// A scripted answer: a status and headers, or an error of a kind.
#[derive(Debug, Clone)]
pub struct Reply(pub u16, pub Vec<(&'static str, String)>);

pub type Server = Script<Request<String>, Reply, io::ErrorKind>;

pub fn ok(status: u16) -> Step<Reply, io::ErrorKind> {
    Step::Ok(Reply(status, Vec::new()))
}

pub fn told(status: u16, retry_after: &str) -> Step<Reply, io::ErrorKind> {
    Step::Ok(Reply(status, vec![("retry-after", retry_after.to_owned())]))
}

pub fn request(method: Method) -> Request<String> {
    Request::builder()
        .method(method)
        .uri("/")
        .body("hello".to_owned())
        .unwrap()
}

/// The settings of the cases: 3 attempts; 100, 200 ms; hints up to `max_hint`.
pub async fn run(
    policy: HttpPolicy,
    request: Request<String>,
    max_hint: Duration,
    server: &Server,
) -> (Result<Response<()>, BoxError>, CallReport) {
    let backoff = Backoff::exponential(SECOND / 10, 10 * SECOND).jitter(Jitter::None);
    let layer = RetryLayer::builder(policy)
        .max_attempts(3)
        .backoff(backoff)
        .max_hint(max_hint)
        .seed(1)
        .build()
        .unwrap();
    let service = layer.layer(
        ServiceBuilder::new()
            .map_response(|Reply(status, headers): Reply| {
                let mut response = answer(status, &[]);
                for (name, value) in headers {
                    response.headers_mut().append(name, value.parse().unwrap());
                }
                response
            })
            .map_err(|kind: io::ErrorKind| BoxError::from(io::Error::from(kind)))
            .service(server.clone()),
    );
    let (outcome, report) = CallReport::of(service.oneshot(request)).await;
    (outcome, report.unwrap())
}

pub async fn calls(method: Method, steps: Vec<Step<Reply, io::ErrorKind>>) -> usize {
    let server = Server::new(steps);
    run(policy(), request(method), 60 * SECOND, &server)
        .await
        .1
        .attempts() as usize
}
