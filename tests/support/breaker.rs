//! A dependency that says what its outcomes mean, behind a breaker.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::circuit_breaker::{CircuitBreakerBuilder, CircuitBreakerService};
use tower_composure::{Attempt, CircuitBreaker, CircuitBreakerLayer, Effect, Policy, Verdict};

pub use super::Step;

pub const SECOND: Duration = Duration::from_secs(1);

/// An outcome: a response or an error of this verdict.
pub type Outcome = Result<Verdict, Verdict>;

/// A script whose responses and errors say what they mean.
pub type Script = super::Script<u32, Verdict, Says>;

/// An error that says what it means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Says(pub Verdict);

impl fmt::Display for Says {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scripted failure")
    }
}

impl std::error::Error for Says {}

/// Reads the verdict out of the outcome.
#[derive(Debug, Clone, Copy)]
pub struct Told;

impl Policy<u32, Verdict, Says> for Told {
    fn effect(&self, _: &u32) -> Effect {
        Effect::Read
    }

    fn classify(&self, _: &Attempt, outcome: Result<&Verdict, &Says>) -> Verdict {
        match outcome {
            Ok(verdict) | Err(Says(verdict)) => *verdict,
        }
    }
}

/// A scripted dependency behind a breaker.
#[derive(Clone)]
pub struct Dependency(CircuitBreakerService<Script, Told>);

impl Dependency {
    pub fn of(
        breaker: &CircuitBreaker,
        steps: impl IntoIterator<Item = Step<Verdict, Says>>,
    ) -> Self {
        Self::around(breaker, Script::new(steps))
    }

    pub fn around(breaker: &CircuitBreaker, script: Script) -> Self {
        Self(CircuitBreakerLayer::new(breaker.clone(), Told).layer(script))
    }
}

impl Service<u32> for Dependency {
    type Response = Verdict;
    type Error = BoxError;
    type Future = <CircuitBreakerService<Script, Told> as Service<u32>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, number: u32) -> Self::Future {
        self.0.call(number)
    }
}

/// The breaker of the cases: a count window of 10, at least 5, 50 %; open for 30 s, one probe.
pub fn cases() -> CircuitBreakerBuilder {
    CircuitBreaker::builder()
        .window(10)
        .minimum_calls(5)
        .open_time(30 * SECOND)
        .max_open_time(30 * SECOND)
        .open_jitter(0.0)
        .probes(1)
        .probe_lease(60 * SECOND)
}

pub const fn success() -> Outcome {
    Ok(Verdict::Success)
}

pub const fn failure() -> Outcome {
    Err(Verdict::UNKNOWN)
}

/// Makes one call with this outcome, and says what its caller saw.
pub async fn seen(breaker: &CircuitBreaker, outcome: Outcome) -> Result<Verdict, BoxError> {
    let step = match outcome {
        Ok(verdict) => Step::Ok(verdict),
        Err(verdict) => Step::Err(Says(verdict)),
    };
    Dependency::of(breaker, [step]).oneshot(1).await
}

/// Makes one call with this outcome.
pub async fn call(breaker: &CircuitBreaker, outcome: Outcome) {
    let _ = seen(breaker, outcome).await;
}

pub async fn calls(breaker: &CircuitBreaker, outcomes: &[Outcome]) {
    for outcome in outcomes {
        call(breaker, *outcome).await;
    }
}

/// Outcomes in the window, and the failures among them.
pub fn counts(breaker: &CircuitBreaker) -> (u32, u32) {
    let metrics = breaker.metrics();
    (metrics.recorded(), metrics.failures())
}
