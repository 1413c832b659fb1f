use std::time::Duration;

use tokio::time::Instant;

use crate::{clock, context};

/// Whose time it is that runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Call,
    Attempt,
}

/// A deadline that passed in this poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Whether the inner service had been called.
    pub(crate) called: bool,
    /// Whether a repeat would run into the same instant.
    pub(crate) absolute: bool,
}

/// The instant by which a call or an attempt has to be over.
///
/// It travels in the call context and only ever narrows.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use std::time::Duration;
/// use tower_composure::Deadline;
///
/// let deadline = Deadline::after(Duration::from_secs(8));
/// tokio::time::advance(Duration::from_secs(5)).await;
/// assert_eq!(deadline.remaining(), Duration::from_secs(3));
/// assert_eq!(Deadline::current(), None); // outside of any deadline layer
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    // None: farther away than can be represented, which is no deadline.
    at: Option<Instant>,
    limit: Limit,
}

impl Deadline {
    /// This long from now. A duration that cannot be represented (`Duration::MAX`) means no deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower_composure::Deadline;
    ///
    /// assert_eq!(Deadline::after(Duration::from_secs(8)).remaining(), Duration::from_secs(8));
    /// assert_eq!(Deadline::after(Duration::MAX).instant(), None);
    /// # Ok(()) }
    /// ```
    pub fn after(limit: Duration) -> Self {
        Self::of(clock::after(clock::now(), limit), Limit::Call)
    }

    /// At this instant of tokio's clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    /// use tower_composure::Deadline;
    ///
    /// let end = Instant::now() + Duration::from_secs(8);
    /// assert_eq!(Deadline::at(end).instant(), Some(end));
    /// # Ok(()) }
    /// ```
    pub const fn at(instant: Instant) -> Self {
        Self::of(Some(instant), Limit::Call)
    }

    /// No deadline.
    ///
    /// ```
    /// use tower_composure::Deadline;
    ///
    /// assert!(!Deadline::never().has_passed());
    /// ```
    pub const fn never() -> Self {
        Self::of(None, Limit::Call)
    }

    #[inline]
    pub(crate) const fn of(at: Option<Instant>, limit: Limit) -> Self {
        Self { at, limit }
    }

    /// The deadline in scope: the nearest of all those above. `None` where there is none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{BoxError, Deadline, DeadlineLayer};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(DeadlineLayer::call(Duration::from_secs(8)))
    ///     .service_fn(|()| async { Ok::<_, BoxError>(Deadline::current().unwrap().remaining()) });
    /// assert_eq!(service.oneshot(()).await?, Duration::from_secs(8));
    /// # Ok(()) }
    /// ```
    pub fn current() -> Option<Self> {
        Some(context::deadline()).filter(|deadline| deadline.at.is_some())
    }

    /// The instant, or `None` for no deadline.
    ///
    /// ```
    /// use tower_composure::Deadline;
    ///
    /// assert_eq!(Deadline::never().instant(), None);
    /// ```
    #[inline]
    pub const fn instant(&self) -> Option<Instant> {
        self.at
    }

    /// What is left of it now: zero when it has passed, `Duration::MAX` for no deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower_composure::Deadline;
    ///
    /// let deadline = Deadline::after(Duration::from_secs(8));
    /// tokio::time::advance(Duration::from_secs(3)).await;
    /// assert_eq!(deadline.remaining(), Duration::from_secs(5));
    /// # Ok(()) }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.remaining_at(clock::now())
    }

    /// Whether nothing is left of it now.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower_composure::Deadline;
    ///
    /// let deadline = Deadline::after(Duration::from_secs(8));
    /// tokio::time::advance(Duration::from_secs(8)).await;
    /// assert!(deadline.has_passed());
    /// # Ok(()) }
    /// ```
    pub fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }

    pub(crate) fn remaining_at(&self, now: Instant) -> Duration {
        self.at
            .map_or(Duration::MAX, |at| at.saturating_duration_since(now))
    }

    #[inline]
    pub(crate) const fn limit(&self) -> Limit {
        self.limit
    }

    /// The nearer of the two; a tie keeps the outer one, so that the end of the call is reported as the call's.
    #[inline]
    pub(crate) fn narrowed_by(outer: Self, own: Self) -> Self {
        match (outer.at, own.at) {
            (Some(outer_at), Some(own_at)) if own_at < outer_at => own,
            (None, Some(_)) => own,
            _ => outer,
        }
    }
}
