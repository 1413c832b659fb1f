//! A server of charges that may refuse them, a retry for it, and the keys that reached it.

use http::{Method, Request, StatusCode};
use tower_composure::retry::RetryLayerBuilder;
use tower_composure::{Attempt, Backoff, RetryLayer, Verdict, policy_fn};

use super::{Script, Seen};

pub type Answer = StatusCode;
pub type Server = Script<Request<()>, Answer, &'static str>;

/// 503 was refused before anything was done, so a POST is retried with or without a key.
pub fn retry() -> RetryLayer<impl tower_composure::Policy<Request<()>, Answer, &'static str>> {
    let policy = policy_fn(
        |_: &Attempt, outcome: Result<&Answer, &&str>| match outcome {
            Ok(status) if status.is_server_error() => Verdict::REFUSED,
            Ok(_) => Verdict::Success,
            Err(_) => Verdict::UNKNOWN,
        },
    );
    at_once(RetryLayer::builder(policy))
}

pub fn at_once<P>(builder: RetryLayerBuilder<P>) -> RetryLayer<P> {
    builder.backoff(Backoff::none()).build().unwrap()
}

pub fn request(method: Method) -> Request<()> {
    Request::builder()
        .method(method)
        .uri("/charges")
        .body(())
        .unwrap()
}

/// The keys of all calls, one line each.
pub fn keys(server: &Server) -> Vec<Vec<String>> {
    let seen = server.seen();
    let lines = |seen: &Seen<Request<()>>| {
        let lines = seen.request.headers().get_all("idempotency-key").iter();
        lines
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    };
    seen.iter().map(lines).collect()
}
