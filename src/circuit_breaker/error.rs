use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::see;

/// The breaker is open, or half-open with all its probes out: the call was not made.
///
/// Found in a boxed error, by itself or among the sources:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::{BoxError, BreakerOpen, CircuitBreaker, CircuitBreakerLayer, Effect};
///
/// let breaker = CircuitBreaker::default();
/// breaker.force_open();
/// let service = ServiceBuilder::new()
///     .layer(CircuitBreakerLayer::new(breaker, Effect::Read))
///     .service_fn(|()| async { Ok::<_, BoxError>(()) });
/// let error = service.oneshot(()).await.unwrap_err();
/// assert_eq!(BreakerOpen::find(&*error).unwrap().remaining(), std::time::Duration::MAX);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOpen {
    remaining: Duration,
}

impl BreakerOpen {
    pub(crate) const fn new(remaining: Duration) -> Self {
        Self { remaining }
    }

    /// Looks for one in an error and in its sources.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{BoxError, BreakerOpen, CircuitBreaker, CircuitBreakerLayer, Effect};
    ///
    /// let breaker = CircuitBreaker::default();
    /// breaker.force_open();
    /// let service = ServiceBuilder::new()
    ///     .layer(CircuitBreakerLayer::new(breaker, Effect::Read))
    ///     .service_fn(|()| async { Ok::<_, BoxError>(()) });
    /// let error = service.oneshot(()).await.unwrap_err();
    /// assert!(BreakerOpen::find(&*error).is_some());
    /// # Ok(()) }
    /// ```
    pub fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        see::find(error)
    }

    /// How long it will stay open: zero where it is half-open and may close at any moment, `Duration::MAX` where it
    /// stays open until it is told otherwise.
    ///
    /// ```
    /// use tower_composure::BreakerOpen;
    ///
    /// /// For a header that tells the caller when to come back.
    /// fn retry_after(open: &BreakerOpen) -> u64 {
    ///     open.remaining().as_secs().max(1)
    /// }
    /// ```
    pub const fn remaining(&self) -> Duration {
        self.remaining
    }
}

impl fmt::Display for BreakerOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the circuit breaker is open")
    }
}

impl Error for BreakerOpen {}
