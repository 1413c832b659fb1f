//! A stack whose every number is known, for what its observers say of it.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tower_composure::{
    Backoff, Budget, CircuitBreaker, HttpPolicy, IdempotencyKeyLayer, Jitter, Observer, Stack,
};

use super::{Script, Step};

pub type Client = Script<Request<()>, Response<()>, &'static str>;

const SECOND: Duration = Duration::from_secs(1);

pub fn answer(status: StatusCode) -> Step<Response<()>, &'static str> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    Step::Ok(response)
}

/// Three attempts with waits of 100 ms, two tokens, a breaker that opens after two failed calls for a second and closes
/// after one probe.
pub fn stack(observer: &Arc<dyn Observer>) -> Stack<HttpPolicy, IdempotencyKeyLayer> {
    let breaker = CircuitBreaker::builder()
        .name("payments")
        .consecutive_failures(2)
        .open_time(SECOND)
        .open_jitter(0.0)
        .probes(1)
        .observer(Arc::clone(observer));
    Stack::builder(HttpPolicy::new())
        .dependency("payments")
        .observer(Arc::clone(observer))
        .breaker(breaker.build().unwrap())
        .budget(Budget::new(0.5, 2).unwrap())
        .backoff(Backoff::constant(SECOND / 10).jitter(Jitter::None))
        .max_attempts(3)
        .attempt_deadline(SECOND)
        .call_deadline(5 * SECOND)
        .idempotency_key(IdempotencyKeyLayer::new())
        .build()
        .unwrap()
}
