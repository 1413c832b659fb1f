//! The errors that belong to no single layer.

use std::error::Error;
use std::fmt;

/// A boxed error, as tower's layers use it.
///
/// ```
/// use tower_composure::BoxError;
///
/// fn parse(port: &str) -> Result<u16, BoxError> {
///     Ok(port.parse()?)
/// }
/// assert!(parse("none").is_err());
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A setting that cannot work, found when a layer is built and never later.
///
/// Its text names the setting and the values that contradict each other.
///
/// ```
/// use std::time::Duration;
/// use tower_composure::{Backoff, Effect, RetryLayer};
///
/// let error = RetryLayer::builder(Effect::Read)
///     .backoff(Backoff::exponential(Duration::from_secs(5), Duration::from_secs(1)))
///     .build()
///     .unwrap_err();
/// assert_eq!(error.setting(), "backoff");
/// assert_eq!(error.to_string(), "backoff: the base 5s is above the cap 1s");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    setting: &'static str,
    reason: String,
}

impl ConfigError {
    pub(crate) fn new(setting: &'static str, reason: impl Into<String>) -> Self {
        Self {
            setting,
            reason: reason.into(),
        }
    }

    /// The name of the setting, as the builder's method is called.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let error = RetryLayer::builder(Effect::Read).max_attempts(0).build().unwrap_err();
    /// assert_eq!(error.setting(), "max_attempts");
    /// ```
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.reason)
    }
}

impl Error for ConfigError {}
