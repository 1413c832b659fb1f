//! seatbelt's middleware as tower services. Its clock is tokio's, so each is made in a runtime. A task of that runtime drives
//! its timers; calls that are ready at once need none.

use std::time::Duration;

use seatbelt::{RecoveryInfo, ResilienceContext};
use tower::{Layer, Service};

use crate::Never;

type Outcome = Result<u64, Never>;
type Context = ResilienceContext<u64, Outcome>;

/// What a service has to be to stand in one of seatbelt's.
pub trait Inner:
    Service<u64, Response = u64, Error = Never, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S> Inner for S where
    S: Service<u64, Response = u64, Error = Never, Future: Send> + Clone + Send + Sync + 'static
{
}

fn context() -> Context {
    ResilienceContext::new(tick::Clock::new_tokio())
}

fn recovery(outcome: &Outcome) -> RecoveryInfo {
    match outcome {
        Ok(_) => RecoveryInfo::never(),
        Err(_) => RecoveryInfo::retry(),
    }
}

fn breaker_of<S: Inner>(context: &Context, inner: S) -> impl Inner + use<S> {
    seatbelt::breaker::Breaker::layer("breaker", context)
        .recovery_with(|outcome: &Outcome, _| recovery(outcome))
        .rejected_input_error(|_: u64, _| Never)
        .layer(inner)
}

fn retry_of<S: Inner>(context: &Context, delay: Option<Duration>, inner: S) -> impl Inner + use<S> {
    let mut layer = seatbelt::retry::Retry::layer("retry", context)
        .clone_input()
        .recovery_with(|outcome: &Outcome, _| recovery(outcome));
    if let Some(delay) = delay {
        layer = layer.base_delay(delay);
    }
    layer.layer(inner)
}

fn timeout_of<S: Inner>(context: &Context, inner: S) -> impl Inner + use<S> {
    seatbelt::timeout::Timeout::layer("timeout", context)
        .timeout(Duration::from_secs(1))
        .timeout_error(|_| Never)
        .layer(inner)
}

/// The breaker alone.
#[must_use]
pub fn breaker(inner: impl Inner) -> impl Inner {
    breaker_of(&context(), inner)
}

/// Retry over breaker over timeout.
#[must_use]
pub fn stack(inner: impl Inner) -> impl Inner {
    let context = context();
    let inner = breaker_of(&context, timeout_of(&context, inner));
    retry_of(&context, None, inner)
}

/// The retry alone, without a wait.
#[must_use]
pub fn retry_at_once(inner: impl Inner) -> impl Inner {
    retry_of(&context(), Some(Duration::ZERO), inner)
}

/// Breaker over retry, without a wait, over timeout: the breaker sees calls, since at one failure an attempt it would open.
#[must_use]
pub fn stack_around(inner: impl Inner) -> impl Inner {
    let context = context();
    let inner = timeout_of(&context, inner);
    breaker_of(&context, retry_of(&context, Some(Duration::ZERO), inner))
}
