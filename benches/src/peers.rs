//! The peers as tower services, with the settings that come closest to ours.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use failsafe::futures::CircuitBreaker;
use recloser::{AsyncRecloser, Recloser};
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{Layer, Service};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;

use crate::{Bare, Never};

/// A service behind a breaker that wraps futures.
#[derive(Clone)]
pub struct Wrapped<B> {
    inner: Bare,
    breaker: B,
}

/// recloser over the last hundred calls.
#[must_use]
pub fn recloser() -> Wrapped<AsyncRecloser> {
    Wrapped {
        inner: Bare,
        breaker: Recloser::custom().closed_len(100).build().into(),
    }
}

impl Service<u64> for Wrapped<AsyncRecloser> {
    type Response = u64;
    type Error = recloser::Error<Never>;
    type Future = recloser::RecloserFuture<<Bare as Service<u64>>::Future, recloser::AnyError>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(recloser::Error::Inner)
    }

    #[inline]
    fn call(&mut self, number: u64) -> Self::Future {
        self.breaker.call(self.inner.call(number))
    }
}

/// failsafe's breaker is `Clone` but cannot be named in full, so it is a type parameter of its own.
#[derive(Clone)]
pub struct Failsafe<B>(pub B);

impl<B: CircuitBreaker> Service<u64> for Wrapped<Failsafe<B>> {
    type Response = u64;
    type Error = failsafe::Error<Never>;
    type Future = failsafe::futures::ResponseFuture<
        <Bare as Service<u64>>::Future,
        B::FailurePolicy,
        B::Instrument,
        failsafe::Any,
    >;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(failsafe::Error::Inner)
    }

    #[inline]
    fn call(&mut self, number: u64) -> Self::Future {
        self.breaker.0.call(self.inner.call(number))
    }
}

fn failsafe<B>(breaker: B) -> Wrapped<Failsafe<B>> {
    Wrapped {
        inner: Bare,
        breaker: Failsafe(breaker),
    }
}

/// failsafe by its default policy: a moving average of the success rate over a window, or failures in a row.
#[must_use]
pub fn failsafe_default() -> impl Service<u64> + Clone + Send + 'static {
    failsafe(failsafe::Config::new().build())
}

/// failsafe by failures in a row alone.
#[must_use]
pub fn failsafe_consecutive() -> impl Service<u64> + Clone + Send + 'static {
    let backoff = failsafe::backoff::constant(Duration::from_secs(5));
    let policy = failsafe::failure_policy::consecutive_failures(5, backoff);
    failsafe(failsafe::Config::new().failure_policy(policy).build())
}

/// tower-resilience's breaker over a hundred calls.
#[must_use]
pub fn resilience_breaker() -> impl Service<u64> + Clone + Send + 'static {
    let layer = CircuitBreakerLayer::builder()
        .sliding_window_size(100)
        .build()
        .expect("settings that work");
    Layer::layer(&layer, Bare)
}

/// tower-resilience's retry with its defaults.
#[must_use]
pub fn resilience_retry() -> impl Service<u64> {
    tower_resilience_retry::RetryLayer::<u64, u64, Never>::builder()
        .build()
        .layer(Bare)
}

/// seatbelt's breaker as a tower service. It reads tokio's clock, so it is made in a runtime; nothing of it has to be
/// driven while the circuit is closed.
#[must_use]
pub fn seatbelt() -> impl Service<u64> + Clone + Send + Sync + 'static {
    let clock = tick::Clock::new_tokio();
    let context = seatbelt::ResilienceContext::new(&clock);
    seatbelt::breaker::Breaker::layer("breaker", &context)
        .recovery_with(|outcome: &Result<u64, Never>, _| match outcome {
            Ok(_) => seatbelt::RecoveryInfo::never(),
            Err(_) => seatbelt::RecoveryInfo::retry(),
        })
        .rejected_input_error(|_: u64, _| Never)
        .layer(Bare)
}

/// A policy of tower's as small as it can be, and with a budget as its documentation shows: it deposits for a success
/// and withdraws for a retry.
#[derive(Clone)]
pub struct TowerPolicy(pub Option<Arc<TpsBudget>>);

impl Policy<u64, u64, Never> for TowerPolicy {
    type Future = std::future::Ready<()>;

    #[inline]
    fn retry(&mut self, _: &mut u64, outcome: &mut Result<u64, Never>) -> Option<Self::Future> {
        match (&self.0, outcome) {
            (Some(budget), Ok(_)) => {
                budget.deposit();
                None
            }
            (None, Ok(_)) => None,
            (Some(budget), Err(_)) => budget.withdraw().then(|| std::future::ready(())),
            (None, Err(_)) => Some(std::future::ready(())),
        }
    }

    #[inline]
    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}
