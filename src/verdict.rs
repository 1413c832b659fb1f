//! What a policy says of one outcome, and the wait that an answer asked for.

use std::time::Duration;

/// What a policy says of the outcome of one attempt. Retry, budget and breaker all read this one answer.
///
/// | verdict | it means | `Read`, `IdempotentWrite` | `Write` | budget | breaker |
/// |---|---|---|---|---|---|
/// | `Success` | it did what was asked | return | return | deposit | success |
/// | `Throttled` | told to come back later; provably had no effect | retry | retry | withdraw | neutral |
/// | `Refused` | failed; provably had no effect | retry | retry | withdraw | failure |
/// | `Unknown` | failed; may have had its effect | retry | stop: outcome unknown | withdraw | failure, or neutral where a deadline from above the breaker ran out |
/// | `Fault` | the dependency failed and a repeat will not help | stop | stop | – | failure |
/// | `Rejected` | a repeat will not help and it is not the dependency's fault | stop | stop | – | neutral; as a probe, success if it came as a response |
///
/// Tokens are withdrawn only when a retry is really made, and no retry comes before its hint.
///
/// ```
/// use tower_composure::Verdict;
///
/// assert!(Verdict::REFUSED.is_retryable());
/// assert!(Verdict::UNKNOWN.is_retryable() && Verdict::UNKNOWN.is_unknown());
/// assert!(!Verdict::Fault.is_retryable());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did what was asked.
    Success,
    /// The server said to come back later, before it did anything (429, 421, 425).
    Throttled {
        /// When it said to come back.
        hint: Option<Hint>,
    },
    /// It failed and provably had no effect (no connection, `REFUSED_STREAM`).
    Refused {
        /// A wait that came with it.
        hint: Option<Hint>,
    },
    /// It failed and may have had its effect (a timeout, a broken connection, 408, 502, 503, 504).
    Unknown {
        /// A wait that came with it.
        hint: Option<Hint>,
    },
    /// The dependency failed and a repeat will not help (500, 501, a generic internal error).
    Fault,
    /// A repeat will not help and it is not the dependency's fault (a bad argument, 404, an inner open breaker).
    Rejected,
}

impl Verdict {
    /// [`Verdict::Throttled`] with no hint.
    pub const THROTTLED: Self = Self::Throttled { hint: None };
    /// [`Verdict::Refused`] with no hint.
    pub const REFUSED: Self = Self::Refused { hint: None };
    /// [`Verdict::Unknown`] with no hint.
    pub const UNKNOWN: Self = Self::Unknown { hint: None };

    /// The same verdict with this hint, where the verdict can carry one. `None` keeps the hint it has.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{Hint, Verdict};
    ///
    /// let hint = Hint::after(Duration::from_secs(7));
    /// assert_eq!(Verdict::THROTTLED.with_hint(Some(hint)).hint(), Some(hint));
    /// assert_eq!(Verdict::Rejected.with_hint(Some(hint)).hint(), None); // carries none
    /// ```
    #[must_use]
    pub fn with_hint(self, new: Option<Hint>) -> Self {
        match self {
            Self::Throttled { hint } => Self::Throttled { hint: new.or(hint) },
            Self::Refused { hint } => Self::Refused { hint: new.or(hint) },
            Self::Unknown { hint } => Self::Unknown { hint: new.or(hint) },
            Self::Success | Self::Fault | Self::Rejected => self,
        }
    }

    /// The wait that came with it.
    ///
    /// ```
    /// use tower_composure::Verdict;
    ///
    /// assert_eq!(Verdict::THROTTLED.hint(), None);
    /// ```
    pub const fn hint(self) -> Option<Hint> {
        match self {
            Self::Throttled { hint } | Self::Refused { hint } | Self::Unknown { hint } => hint,
            Self::Success | Self::Fault | Self::Rejected => None,
        }
    }

    /// Whether the answer has asked for a wait.
    #[inline]
    pub(crate) const fn has_hint(&self) -> bool {
        match self {
            Self::Throttled { hint } | Self::Refused { hint } | Self::Unknown { hint } => {
                hint.is_some()
            }
            Self::Success | Self::Fault | Self::Rejected => false,
        }
    }

    /// Whether a retry may follow at all: `Throttled`, `Refused` and `Unknown`.
    ///
    /// ```
    /// use tower_composure::Verdict;
    ///
    /// assert!(Verdict::UNKNOWN.is_retryable());
    /// assert!(!Verdict::Fault.is_retryable());
    /// ```
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Throttled { .. } | Self::Refused { .. } | Self::Unknown { .. }
        )
    }

    /// Whether it did what was asked.
    ///
    /// ```
    /// use tower_composure::Verdict;
    ///
    /// assert!(Verdict::Success.is_success());
    /// ```
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Success)
    }

    /// Whether the attempt may have had its effect although it failed.
    ///
    /// ```
    /// use tower_composure::Verdict;
    ///
    /// assert!(Verdict::UNKNOWN.is_unknown());
    /// assert!(!Verdict::REFUSED.is_unknown());
    /// ```
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// The verdict's name in events, labels and reports.
    ///
    /// ```
    /// use tower_composure::Verdict;
    ///
    /// assert_eq!(Verdict::THROTTLED.as_str(), "throttled");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Throttled { .. } => "throttled",
            Self::Refused { .. } => "refused",
            Self::Unknown { .. } => "unknown",
            Self::Fault => "fault",
            Self::Rejected => "rejected",
        }
    }
}

/// A wait that the server asked for: a floor under the backoff, never a ceiling.
///
/// ```
/// use std::time::Duration;
/// use tower_composure::{Hint, Verdict};
///
/// let verdict = Verdict::THROTTLED.with_hint(Some(Hint::after(Duration::from_secs(5))));
/// assert_eq!(verdict.hint().unwrap().wait(), Duration::from_secs(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    wait: Duration,
    exact: bool,
    once: bool,
}

impl Hint {
    /// Not before this long has passed. A little jitter is added on top, so that all who were told the same do not
    /// come back at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Hint;
    ///
    /// assert_eq!(Hint::after(Duration::from_secs(7)).wait(), Duration::from_secs(7));
    /// ```
    pub const fn after(wait: Duration) -> Self {
        Self {
            wait,
            exact: false,
            once: false,
        }
    }

    /// After exactly this long, with no backoff and no jitter: gRPC's pushback (gRFC A6). Where a layer's attempts are
    /// unlimited, which gRPC's never are, it is a floor under the backoff, so that a wait of zero is not a busy loop.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Hint;
    ///
    /// assert!(Hint::exactly(Duration::from_millis(50)).is_exact());
    /// ```
    pub const fn exactly(wait: Duration) -> Self {
        Self {
            wait,
            exact: true,
            once: false,
        }
    }

    /// No retry at all: the server said that it does not want one. It is longer than any limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Hint;
    ///
    /// assert_eq!(Hint::never().wait(), Duration::MAX);
    /// ```
    pub const fn never() -> Self {
        Self::after(Duration::MAX)
    }

    /// The same wait, but a call is retried for such a hint only once (421, 425).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Hint;
    ///
    /// assert!(Hint::after(Duration::ZERO).once().is_once());
    /// ```
    #[must_use]
    pub const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// The wait that was asked for, counted from the answer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Hint;
    ///
    /// assert_eq!(Hint::after(Duration::from_secs(7)).wait().as_secs(), 7);
    /// ```
    pub const fn wait(self) -> Duration {
        self.wait
    }

    /// Whether the wait is to be taken exactly.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Hint;
    ///
    /// assert!(!Hint::after(Duration::from_secs(7)).is_exact());
    /// ```
    pub const fn is_exact(self) -> bool {
        self.exact
    }

    /// Whether it justifies one retry only.
    ///
    /// ```
    /// use tower_composure::Hint;
    ///
    /// assert!(!Hint::never().is_once());
    /// ```
    pub const fn is_once(self) -> bool {
        self.once
    }
}
