//! What happened in a call.

use std::time::Duration;

use crate::attempt::Attempt;
use crate::context;
use crate::effect::Effect;
use crate::verdict::{Hint, Verdict};

/// Why a retry that the verdict allowed was not made. In the order in which they are asked.
///
/// ```
/// use tower_composure::StopReason;
///
/// assert_eq!(StopReason::BudgetExhausted.as_str(), "budget_exhausted");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// A retry layer above owns this call; or nobody does, as over a write without a key, and one below has repeated it.
    Nested,
    /// No attempts are left.
    Attempts,
    /// The request is a write without a key, and it may have had its effect.
    OutcomeUnknown,
    /// The request could not be copied.
    NotReplayable,
    /// Retries are switched off.
    SwitchedOff,
    /// The breaker in scope has opened since this call was admitted.
    BreakerOpen,
    /// The call is a probe of a half-open breaker, which makes one attempt.
    Probe,
    /// The server asked for a longer wait than the limit allows.
    HintExceedsLimit,
    /// The wait would not end before the deadline.
    Deadline,
    /// The shared budget is empty.
    BudgetExhausted,
    /// Retries are in observe-only mode: this one would have been made.
    ObserveOnly,
}

impl StopReason {
    /// The reason's name in events, labels and reports.
    ///
    /// ```
    /// use tower_composure::StopReason;
    ///
    /// assert_eq!(StopReason::OutcomeUnknown.as_str(), "outcome_unknown");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nested => "nested",
            Self::Attempts => "attempts",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::NotReplayable => "not_replayable",
            Self::SwitchedOff => "switched_off",
            Self::BreakerOpen => "breaker_open",
            Self::Probe => "probe",
            Self::HintExceedsLimit => "hint_exceeds_limit",
            Self::Deadline => "deadline",
            Self::BudgetExhausted => "budget_exhausted",
            Self::ObserveOnly => "observe_only",
        }
    }
}

/// What happened in a call: how many attempts, how the last one ended, why there was no further one.
///
/// The retry layer that ran the call leaves it in the call context, where the layers above read it; an
/// [`Observer`](crate::Observer) receives it, a [`DeadlineExceeded`](crate::DeadlineExceeded) carries it, a policy may
/// put it into the response ([`Policy::report`](crate::Policy::report)), and [`CallReport::of`] gives it to a caller.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::{CallReport, Effect, RetryLayer, StopReason, Verdict};
///
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(Effect::Read).max_attempts(2).build()?)
///     .service_fn(|()| async { Err::<(), _>("down") });
/// let (_, report) = CallReport::of(async { service.oneshot(()).await }).await;
/// let report = report.unwrap();
/// assert_eq!((report.attempts(), report.verdict()), (2, Verdict::UNKNOWN));
/// assert_eq!(report.stop_reason(), Some(StopReason::Attempts));
/// assert!(!report.outcome_unknown()); // a read changes nothing
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallReport {
    pub(crate) attempt: Attempt,
    pub(crate) verdict: Verdict,
    pub(crate) stop: Option<StopReason>,
    pub(crate) outcome_unknown: bool,
    pub(crate) cancelled: bool,
    pub(crate) backoff: Duration,
    pub(crate) elapsed: Option<Duration>,
}

impl CallReport {
    /// Of no call.
    pub(crate) const EMPTY: Self = Self::success(Attempt::first(Effect::Read));

    /// Of a call that has succeeded at this attempt.
    pub(crate) const fn success(attempt: Attempt) -> Self {
        Self {
            attempt,
            verdict: Verdict::Success,
            stop: None,
            outcome_unknown: false,
            cancelled: false,
            backoff: Duration::ZERO,
            elapsed: None,
        }
    }

    /// Attempts made: calls of the inner service that have started.
    ///
    /// ```
    /// use tower_composure::CallReport;
    ///
    /// fn retries(report: &CallReport) -> u32 {
    ///     report.attempts() - 1
    /// }
    /// ```
    pub const fn attempts(&self) -> u32 {
        self.attempt.number()
    }

    /// The last attempt.
    ///
    /// ```
    /// use tower_composure::CallReport;
    ///
    /// fn had_a_key(report: &CallReport) -> bool {
    ///     report.last_attempt().keyed()
    /// }
    /// ```
    pub const fn last_attempt(&self) -> Attempt {
        self.attempt
    }

    /// The verdict on the last attempt that has ended.
    ///
    /// ```
    /// use tower_composure::CallReport;
    ///
    /// fn label(report: &CallReport) -> &'static str {
    ///     report.verdict().as_str()
    /// }
    /// ```
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why a retry that the verdict allowed was not made. `None` after a success, after a verdict that allows no
    /// retry, and while a call is still going on.
    ///
    /// ```
    /// use tower_composure::{CallReport, StopReason};
    ///
    /// fn is_an_outage(report: &CallReport) -> bool {
    ///     report.stop_reason() == Some(StopReason::BudgetExhausted)
    /// }
    /// ```
    pub const fn stop_reason(&self) -> Option<StopReason> {
        self.stop
    }

    /// The wait that the last answer asked for.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{CallReport, Hint};
    ///
    /// fn come_back_after(report: &CallReport) -> Option<Duration> {
    ///     report.hint().map(Hint::wait)
    /// }
    /// ```
    pub const fn hint(&self) -> Option<Hint> {
        self.verdict.hint()
    }

    /// Whether the call may have changed something although it did not succeed. Once any attempt of a write, keyed or
    /// not, may have had its effect, this stays true until an attempt succeeds.
    ///
    /// ```
    /// use tower_composure::CallReport;
    ///
    /// fn tell(report: &CallReport) -> &'static str {
    ///     if report.outcome_unknown() { "we are looking into it" } else { "please try again" }
    /// }
    /// ```
    pub const fn outcome_unknown(&self) -> bool {
        self.outcome_unknown
    }

    /// Whether the call was dropped before it had an outcome, by its caller or by a deadline above.
    ///
    /// ```
    /// use tower_composure::CallReport;
    ///
    /// fn counts_as_a_failure(report: &CallReport) -> bool {
    ///     !report.verdict().is_success() && !report.is_cancelled()
    /// }
    /// ```
    pub const fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The sum of all waits between attempts.
    ///
    /// ```
    /// use tower_composure::CallReport;
    ///
    /// fn seconds_asleep(report: &CallReport) -> f64 {
    ///     report.backoff().as_secs_f64()
    /// }
    /// ```
    pub const fn backoff(&self) -> Duration {
        self.backoff
    }

    /// From the call to its end; measured only where an observer is set, since it costs two clock reads.
    ///
    /// ```
    /// use tower_composure::CallReport;
    ///
    /// fn seconds(report: &CallReport) -> Option<f64> {
    ///     report.elapsed().map(|time| time.as_secs_f64())
    /// }
    /// ```
    pub const fn elapsed(&self) -> Option<Duration> {
        self.elapsed
    }

    /// Runs a call and gives its outcome together with its report. `None` where no retry layer ran in it.
    ///
    /// Dropping the returned future drops the call.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use tower::{Service, ServiceBuilder, ServiceExt};
    /// use tower_composure::{CallReport, Effect, RetryLayer, StopReason};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(RetryLayer::new(Effect::Write))
    ///     .service_fn(|_: u32| async { Err::<(), _>("broken pipe") });
    /// let (outcome, report) = CallReport::of(async { service.oneshot(1).await }).await;
    ///
    /// assert_eq!(outcome, Err("broken pipe"));
    /// let report = report.unwrap();
    /// assert_eq!(report.attempts(), 1);
    /// assert_eq!(report.stop_reason(), Some(StopReason::OutcomeUnknown));
    /// # }
    /// ```
    pub fn of<F>(call: F) -> context::Reported<F> {
        context::Reported::new(call)
    }
}
