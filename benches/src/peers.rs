//! The peers as tower services, with the settings that come closest to ours.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use failsafe::futures::CircuitBreaker;
use recloser::{AsyncRecloser, Recloser};
use tower::retry::budget::{Budget, TpsBudget};
use tower::retry::{Policy, Retry};
use tower::timeout::Timeout;
use tower::{Layer, Service};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_timelimiter::{FixedTimeout, TimeLimiterLayer};

use crate::{Bare, Never};

/// A service behind a breaker that wraps futures.
#[derive(Clone)]
pub struct Wrapped<B, S = Bare> {
    inner: S,
    breaker: B,
}

/// recloser over the last hundred calls.
#[must_use]
pub fn recloser() -> Wrapped<AsyncRecloser> {
    recloser_over(Bare)
}

fn recloser_over<S>(inner: S) -> Wrapped<AsyncRecloser, S> {
    Wrapped {
        inner,
        breaker: Recloser::custom().closed_len(100).build().into(),
    }
}

impl<R, S: Service<R>> Service<R> for Wrapped<AsyncRecloser, S> {
    type Response = S::Response;
    type Error = recloser::Error<S::Error>;
    type Future = recloser::RecloserFuture<S::Future, recloser::AnyError>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(recloser::Error::Inner)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        self.breaker.call(self.inner.call(request))
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
        Service::<u64>::poll_ready(&mut self.inner, cx).map_err(failsafe::Error::Inner)
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

/// A policy of tower's as small as it can be, and with a budget as its documentation shows: it deposits for a success
/// and withdraws for a retry.
#[derive(Clone)]
pub struct TowerPolicy(pub Option<Arc<TpsBudget>>);

impl<R: Clone, T, E> Policy<R, T, E> for TowerPolicy {
    type Future = std::future::Ready<()>;

    #[inline]
    fn retry(&mut self, _: &mut R, outcome: &mut Result<T, E>) -> Option<Self::Future> {
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
    fn clone_request(&mut self, request: &R) -> Option<R> {
        Some(request.clone())
    }
}

/// With a budget that deposits as much as a retry withdraws, so that it never runs out.
#[must_use]
pub fn tower_budget() -> TowerPolicy {
    let budget = TpsBudget::new(Duration::from_secs(10), 10, 1.0);
    TowerPolicy(Some(Arc::new(budget)))
}

const SECOND: Duration = Duration::from_secs(1);

/// The stack that tower's own parts and a breaker make: retry with a budget over recloser over timeout.
pub fn tower_stack<S>(inner: S) -> Retry<TowerPolicy, Wrapped<AsyncRecloser, Timeout<S>>> {
    let breaker = recloser_over(Timeout::new(inner, SECOND));
    Retry::new(tower_budget(), breaker)
}

/// tower-resilience's: retry with a token bucket over breaker over time limiter.
pub fn resilience_stack<R, S>(
    inner: S,
) -> impl Service<R, Response: Send, Error: Send, Future: Send> + Clone + Send + 'static
where
    R: Clone + Send + 'static,
    S: Service<R, Response: Send, Future: Send, Error: Send> + Clone + Send + 'static,
{
    let budget = tower_resilience_retry::RetryBudgetBuilder::new()
        .token_bucket()
        .build()
        .expect("settings that work");
    let limiter = TimeLimiterLayer::<FixedTimeout>::builder()
        .timeout_duration(SECOND)
        .build();
    let breaker = CircuitBreakerLayer::builder()
        .sliding_window_size(100)
        .build()
        .expect("settings that work");
    let retry = tower_resilience_retry::RetryLayer::builder()
        .budget(budget)
        .build();
    retry.layer(Layer::layer(&breaker, limiter.layer(inner)))
}

/// tower's parts around calls that fail once: recloser sees calls here, since at one failure an attempt it would open.
pub fn tower_stack_around<S>(inner: S) -> Wrapped<AsyncRecloser, Retry<TowerPolicy, Timeout<S>>> {
    recloser_over(Retry::new(tower_budget(), Timeout::new(inner, SECOND)))
}

/// Asks its inner service twice and takes the second answer: what two attempts cost without a retry.
#[derive(Debug, Clone, Copy)]
pub struct Twice<S>(pub S);

impl<S: Service<u64>> Service<u64> for Twice<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, number: u64) -> Self::Future {
        drop(std::hint::black_box(self.0.call(number)));
        self.0.call(number)
    }
}
