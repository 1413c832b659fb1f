//! How long to wait, when nobody said how long. Pure: randomness comes in as a word.

use std::time::Duration;

use crate::error::ConfigError;
use crate::rng::within;

/// What of a wait is left to chance.
///
/// ```
/// use std::time::Duration;
/// use tower_composure::{Backoff, Jitter};
///
/// let second = Duration::from_secs(1);
/// let backoff = Backoff::exponential(second, 30 * second).jitter(Jitter::Equal);
/// // The smallest random word gives the shortest wait: half of the second retry's ceiling of two seconds.
/// assert_eq!(backoff.delay(2, second, 0), second);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Nothing: callers that fail together come back together.
    None,
    /// All of it: uniform from the minimum to the ceiling. Callers that fail together spread out evenly.
    #[default]
    Full,
    /// Half of it: uniform from half the ceiling to the ceiling.
    Equal,
    /// Uniform from the base to three times the wait before, up to the cap. The first wait goes up to three times the base.
    Decorrelated,
}

/// The wait before each retry: `base · factor^(n-1)`, up to a cap, with jitter inside and never on top.
///
/// Waits are computed in nanoseconds and saturate; no attempt number overflows. Defaults: base 200 ms, cap 2 s, factor
/// 2, full jitter.
///
/// ```
/// use std::time::Duration;
/// use tower_composure::{Backoff, Jitter};
///
/// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(30)).jitter(Jitter::None);
/// let waits: Vec<_> = (1..=6).map(|n| backoff.ceiling(n).as_secs()).collect();
/// assert_eq!(waits, [1, 2, 4, 8, 16, 30]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    min: Duration,
    factor: f64,
    jitter: Jitter,
}

impl Backoff {
    /// Grows from `base` by a factor of 2 up to `cap`. `Duration::MAX` is no cap; a base of zero stays zero, so that each
    /// retry follows at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Backoff;
    ///
    /// let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_millis(300));
    /// assert_eq!(backoff.ceiling(3), Duration::from_millis(300)); // and not 400
    /// ```
    pub const fn exponential(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            min: Duration::ZERO,
            factor: 2.0,
            jitter: Jitter::Full,
        }
    }

    /// Always the same ceiling.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Backoff;
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(Backoff::constant(second).ceiling(9), second);
    /// ```
    pub const fn constant(wait: Duration) -> Self {
        Self::exponential(wait, wait)
    }

    /// No wait at all: a retry follows at once, bounded by the attempts and the budget.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Backoff;
    ///
    /// assert_eq!(Backoff::none().ceiling(1), Duration::ZERO);
    /// ```
    pub const fn none() -> Self {
        Self::constant(Duration::ZERO)
    }

    /// What is left to chance. Default [`Jitter::Full`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{Backoff, Jitter};
    ///
    /// let second = Duration::from_secs(1);
    /// let backoff = Backoff::constant(second).jitter(Jitter::None);
    /// assert_eq!(backoff.delay(1, Duration::ZERO, 7), second);
    /// ```
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The least wait. Default zero. Randomness stays between it and the ceiling.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Backoff;
    ///
    /// let backoff = Backoff::default().min(Duration::from_millis(50));
    /// assert_eq!(backoff.delay(1, Duration::ZERO, 0), Duration::from_millis(50));
    /// ```
    #[must_use]
    pub const fn min(mut self, min: Duration) -> Self {
        self.min = min;
        self
    }

    /// By how much the ceiling grows with each retry, at least 1. Default 2.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Backoff;
    ///
    /// let backoff = Backoff::exponential(Duration::from_millis(100), Duration::MAX).factor(3.0);
    /// assert_eq!(backoff.ceiling(3), Duration::from_millis(900));
    /// ```
    #[must_use]
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The largest wait before the `retry`th retry, counted from 1.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Backoff;
    ///
    /// assert_eq!(Backoff::default().ceiling(2), Duration::from_millis(400));
    /// ```
    pub fn ceiling(&self, retry: u32) -> Duration {
        if retry <= 1 {
            return self.base.min(self.cap).max(self.min);
        }
        let power = i32::try_from(retry.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = if self.base.is_zero() {
            // Zero times infinity is no number, but zero stays zero.
            Duration::ZERO
        } else {
            // Infinite and out of range both end at the cap.
            let grown = self.base.as_secs_f64() * self.factor.powi(power);
            Duration::try_from_secs_f64(grown).unwrap_or(self.cap)
        };
        // A float holds fewer digits than the base may have.
        grown.max(self.base).min(self.cap).max(self.min)
    }

    /// The wait before the `retry`th retry, counted from 1, `previous` being the wait before the last one and `random`
    /// a uniform word.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Backoff;
    ///
    /// let backoff = Backoff::default();
    /// let wait = backoff.delay(1, Duration::ZERO, 12_345);
    /// assert!(wait <= backoff.ceiling(1));
    /// ```
    pub fn delay(&self, retry: u32, previous: Duration, random: u64) -> Duration {
        let ceiling = self.ceiling(retry);
        match self.jitter {
            Jitter::None => ceiling,
            Jitter::Full => uniform(self.min, ceiling, random),
            Jitter::Equal => uniform(part(ceiling, 2).max(self.min), ceiling, random),
            Jitter::Decorrelated => {
                let least = self.base.min(self.cap).max(self.min);
                let most = previous.max(least).saturating_mul(3);
                uniform(least, most.min(self.cap).max(least), random)
            }
        }
    }

    /// Whether there is no wait, whatever is drawn.
    pub(super) const fn is_none(&self) -> bool {
        self.base.is_zero() && self.min.is_zero()
    }

    /// The unit of the waits, which is also the least spread over a server's hint.
    pub(super) const fn base(&self) -> Duration {
        self.base
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let error = |reason| Err(ConfigError::new("backoff", reason));
        if self.base > self.cap {
            return error(format!(
                "the base {:?} is above the cap {:?}",
                self.base, self.cap
            ));
        }
        if self.min > self.cap {
            return error(format!(
                "the minimum {:?} is above the cap {:?}",
                self.min, self.cap
            ));
        }
        if !self.factor.is_finite() || self.factor < 1.0 {
            return error(format!("the factor {} is not at least 1", self.factor));
        }
        if self.jitter == Jitter::Decorrelated && self.base.is_zero() && !self.cap.is_zero() {
            return error("a base of 0ns never grows with decorrelated jitter".to_owned());
        }
        Ok(())
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(200), Duration::from_secs(2))
    }
}

/// A part of a duration: a division that cannot be by zero.
pub(super) fn part(whole: Duration, parts: u32) -> Duration {
    whole.checked_div(parts).unwrap_or(whole)
}

/// A point between two durations, both included.
pub(super) fn uniform(least: Duration, most: Duration, random: u64) -> Duration {
    let span = most.saturating_sub(least);
    least.saturating_add(nanoseconds(within(span.as_nanos(), random)))
}

fn nanoseconds(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % SECOND).unwrap_or(0);
    Duration::new(seconds, rest)
}
