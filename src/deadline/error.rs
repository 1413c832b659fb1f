use std::error::Error;
use std::fmt;

use super::Limit;
use crate::report::CallReport;
use crate::see;

/// The deadline passed before there was an outcome.
///
/// What the call did is unknown, unless it [was never made](Self::is_before_call). [`report`](Self::report) tells what had failed before,
/// where the deadline ended a call that was being retried.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use std::time::Duration;
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::{BoxError, DeadlineExceeded, DeadlineLayer};
///
/// let service = ServiceBuilder::new()
///     .layer(DeadlineLayer::call(Duration::from_secs(1)))
///     .service_fn(|()| std::future::pending::<Result<(), BoxError>>());
/// let error = service.oneshot(()).await.unwrap_err();
/// let exceeded = DeadlineExceeded::find(&*error).unwrap();
/// assert!(exceeded.is_call() && !exceeded.is_before_call());
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadlineExceeded {
    limit: Limit,
    called: bool,
    report: Option<CallReport>,
}

impl DeadlineExceeded {
    pub(crate) const fn new(limit: Limit, report: Option<CallReport>) -> Self {
        Self {
            limit,
            called: true,
            report,
        }
    }

    pub(crate) const fn before_call(limit: Limit) -> Self {
        Self {
            limit,
            called: false,
            report: None,
        }
    }

    /// Looks for one in an error and in its sources.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{BoxError, DeadlineExceeded, DeadlineLayer};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(DeadlineLayer::call(Duration::from_secs(8)))
    ///     .service_fn(|()| std::future::pending::<Result<(), BoxError>>());
    /// let error = service.oneshot(()).await.unwrap_err();
    /// assert!(DeadlineExceeded::find(&*error).is_some());
    /// # Ok(()) }
    /// ```
    pub fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        see::find(error)
    }

    /// Whether the whole call ran out of time. A retry is then of no use.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{BoxError, DeadlineExceeded, DeadlineLayer};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(DeadlineLayer::call(Duration::from_secs(8)))
    ///     .service_fn(|()| std::future::pending::<Result<(), BoxError>>());
    /// let error = service.oneshot(()).await.unwrap_err();
    /// assert!(DeadlineExceeded::find(&*error).unwrap().is_call());
    /// # Ok(()) }
    /// ```
    pub const fn is_call(&self) -> bool {
        matches!(self.limit, Limit::Call)
    }

    /// Whether only this attempt ran out of time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{BoxError, DeadlineExceeded, DeadlineLayer};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(DeadlineLayer::attempt(Duration::from_secs(3)))
    ///     .service_fn(|()| std::future::pending::<Result<(), BoxError>>());
    /// let error = service.oneshot(()).await.unwrap_err();
    /// assert!(DeadlineExceeded::find(&*error).unwrap().is_attempt());
    /// # Ok(()) }
    /// ```
    pub const fn is_attempt(&self) -> bool {
        matches!(self.limit, Limit::Attempt)
    }

    /// Whether the deadline had passed before the inner service was called: then nothing was sent.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{BoxError, DeadlineExceeded, DeadlineLayer};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(DeadlineLayer::call(Duration::ZERO))
    ///     .service_fn(|()| async { Ok::<_, BoxError>(()) });
    /// let error = service.oneshot(()).await.unwrap_err();
    /// assert!(DeadlineExceeded::find(&*error).unwrap().is_before_call());
    /// # Ok(()) }
    /// ```
    pub const fn is_before_call(&self) -> bool {
        !self.called
    }

    /// What had happened in the call before: the attempts made, the last verdict, and whether the outcome of a write
    /// is unknown. `None` where nothing below had failed yet.
    ///
    /// ```
    /// use tower_composure::DeadlineExceeded;
    ///
    /// fn must_be_looked_up(error: &DeadlineExceeded) -> bool {
    ///     error.report().is_some_and(|report| report.outcome_unknown())
    /// }
    /// ```
    pub const fn report(&self) -> Option<&CallReport> {
        self.report.as_ref()
    }
}

impl fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.limit {
            Limit::Call => "call",
            Limit::Attempt => "attempt",
        };
        write!(f, "the deadline of the {what} has passed")?;
        if let Some(report) = &self.report {
            write!(
                f,
                " in attempt {}, after an outcome that was {}",
                report.attempts(),
                report.verdict().as_str()
            )?;
        }
        Ok(())
    }
}

impl Error for DeadlineExceeded {}
