use std::time::Duration;

use ::tracing::{Level, Span, event};

use crate::attempt::Attempt;
use crate::circuit_breaker::{CircuitState, Transition};
use crate::deadline::DeadlineExceeded;
use crate::effect::Effect;
use crate::observer::{AttemptFinished, Observer, RetryScheduled};
use crate::report::{CallReport, StopReason};

/// Tells `tracing` of what the layers decide. See the [module](crate::tracing).
///
/// Cost: where no subscriber wants an event it is one check. It holds nothing, so one or many make no difference.
///
/// ```
/// use std::sync::Arc;
/// use tower_composure::{Effect, Stack, TracingObserver};
///
/// let stack = Stack::builder(Effect::Read).observer(Arc::new(TracingObserver::new())).build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct TracingObserver;

impl TracingObserver {
    /// The observer.
    ///
    /// ```
    /// use tower_composure::TracingObserver;
    ///
    /// let observer = TracingObserver::new();
    /// ```
    pub const fn new() -> Self {
        Self
    }
}

/// The target of all events.
const TARGET: &str = "tower_composure";

/// OpenTelemetry's fields on the span of the call, filled where it has them.
const RESEND_COUNT: &str = "http.request.resend_count";
const ERROR_TYPE: &str = "error.type";

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::IdempotentWrite => "idempotent_write",
        Effect::Write => "write",
    }
}

impl Observer for TracingObserver {
    fn attempt_started(&self, dependency: &str, attempt: &Attempt) {
        let resends = attempt.number().saturating_sub(1);
        if resends > 0 {
            Span::current().record(RESEND_COUNT, resends);
        }
        event!(
            target: TARGET,
            Level::TRACE,
            dependency,
            attempt = attempt.number(),
            effect = effect(attempt.effect()),
            keyed = attempt.keyed(),
            "attempt started"
        );
    }

    fn attempt_finished(&self, dependency: &str, finished: &AttemptFinished) {
        event!(
            target: TARGET,
            Level::DEBUG,
            dependency,
            attempt = finished.attempt().number(),
            verdict = finished.verdict().as_str(),
            elapsed_seconds = finished.elapsed().as_secs_f64(),
            "attempt finished"
        );
    }

    fn retry_scheduled(&self, dependency: &str, retry: &RetryScheduled) {
        event!(
            target: TARGET,
            Level::DEBUG,
            dependency,
            attempt = retry.after().number(),
            delay_seconds = retry.delay().as_secs_f64(),
            delayed_by = retry.delayed_by().as_str(),
            "retry scheduled"
        );
    }

    fn retry_refused(&self, dependency: &str, attempt: &Attempt, reason: StopReason) {
        event!(
            target: TARGET,
            Level::DEBUG,
            dependency,
            attempt = attempt.number(),
            reason = reason.as_str(),
            "retry refused"
        );
    }

    fn call_finished(&self, dependency: &str, report: &CallReport) {
        let outcome = if report.is_cancelled() {
            "cancelled"
        } else {
            report.verdict().as_str()
        };
        if report.is_cancelled() || !report.verdict().is_success() {
            Span::current().record(ERROR_TYPE, outcome);
        }
        macro_rules! finished {
            ($level:expr) => {
                event!(
                    target: TARGET,
                    $level,
                    dependency,
                    outcome,
                    attempts = report.attempts(),
                    backoff_seconds = report.backoff().as_secs_f64(),
                    elapsed_seconds = report.elapsed().map(|elapsed| elapsed.as_secs_f64()),
                    outcome_unknown = report.outcome_unknown(),
                    reason = report.stop_reason().map(StopReason::as_str),
                    "call finished"
                )
            };
        }
        // The level of an event is fixed where it stands.
        if report.outcome_unknown() {
            finished!(Level::WARN);
        } else {
            finished!(Level::DEBUG);
        }
    }

    fn budget_deposited(&self, dependency: &str, balance: f64) {
        event!(target: TARGET, Level::TRACE, dependency, balance, "budget deposit");
    }

    fn budget_withdrawn(&self, dependency: &str, balance: f64) {
        event!(target: TARGET, Level::DEBUG, dependency, balance, "budget withdrawal");
    }

    fn budget_exhausted(&self, dependency: &str, balance: f64) {
        event!(target: TARGET, Level::DEBUG, dependency, balance, "budget exhausted");
    }

    fn breaker_transition(&self, breaker: &str, transition: &Transition) {
        macro_rules! changed {
            ($level:expr) => {
                event!(
                    target: TARGET,
                    $level,
                    dependency = breaker,
                    from = transition.from().as_str(),
                    to = transition.to().as_str(),
                    generation = transition.generation(),
                    "breaker transition"
                )
            };
        }
        match transition.to() {
            CircuitState::Open | CircuitState::ForcedOpen => changed!(Level::WARN),
            _ => changed!(Level::INFO),
        }
    }

    fn breaker_rejected(&self, breaker: &str, remaining: Duration) {
        event!(
            target: TARGET,
            Level::DEBUG,
            dependency = breaker,
            remaining_seconds = remaining.as_secs_f64(),
            "breaker rejected a call"
        );
    }

    fn breaker_probe(&self, breaker: &str) {
        event!(target: TARGET, Level::DEBUG, dependency = breaker, "breaker probe");
    }

    fn deadline_exceeded(&self, dependency: &str, exceeded: &DeadlineExceeded) {
        event!(
            target: TARGET,
            Level::DEBUG,
            dependency,
            limit = if exceeded.is_call() { "call" } else { "attempt" },
            before_call = exceeded.is_before_call(),
            "deadline exceeded"
        );
    }

    fn key_minted(&self, dependency: &str) {
        event!(target: TARGET, Level::TRACE, dependency, "idempotency key minted");
    }

    fn key_kept(&self, dependency: &str) {
        event!(target: TARGET, Level::TRACE, dependency, "idempotency key kept");
    }
}
