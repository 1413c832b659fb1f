//! An inner service whose errors say what they mean, and a retry with the settings of the cases.

use std::time::Duration;

use tower::{Service, ServiceExt};
use tower_composure::retry::RetryLayerBuilder;
use tower_composure::{
    Attempt, Backoff, CallReport, Effect, Jitter, Observer, Policy, RetryLayer, StopReason,
    Verdict, policy_fn,
};

use super::Script;

pub const SECOND: Duration = Duration::from_secs(1);

pub type Inner = Script<u32, u32, &'static str>;

/// The settings of the cases: 3 attempts; 100, 200, 400 ms without jitter.
pub fn cases<P>(policy: P) -> RetryLayerBuilder<P> {
    let backoff = Backoff::exponential(SECOND / 10, 10 * SECOND).jitter(Jitter::None);
    RetryLayer::builder(policy).max_attempts(3).backoff(backoff)
}

/// An error that says what it means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Said(pub Verdict);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a scripted failure")
    }
}

impl std::error::Error for Said {}

/// A policy that takes its verdict out of the error, and every response for a success.
pub fn told(effect: Effect) -> impl Policy<u32, u32, Said> + Clone {
    policy_fn(|_: &Attempt, outcome: Result<&u32, &Said>| match outcome {
        Ok(_) => Verdict::Success,
        Err(Said(verdict)) => *verdict,
    })
    .with_effect(effect)
}

/// Hears nothing: a retry that it watches takes the way of one that is watched.
pub struct Deaf;

impl Observer for Deaf {}

pub type Told = Script<u32, u32, Said>;

pub async fn stops<S, T, E>(service: S) -> (u32, Option<StopReason>)
where
    S: Service<u32, Response = T, Error = E>,
{
    let (_, report) = CallReport::of(service.oneshot(1)).await;
    let report = report.unwrap();
    (report.attempts(), report.stop_reason())
}
