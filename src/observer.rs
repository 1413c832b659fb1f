//! Where an operator listens.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::Attempt;
use crate::circuit_breaker::Transition;
use crate::deadline::DeadlineExceeded;
use crate::report::{CallReport, StopReason};
use crate::verdict::Verdict;

/// Receives what the layers decide. Every method has a default that does nothing.
///
/// Give it once to a stack ([`StackBuilder::observer`](crate::stack::StackBuilder::observer)), which hands it to its
/// layers, or to each layer that stands alone. Each event comes once, from the layer that decided. Calls and attempts
/// are told of apart: a call that took three attempts is three [`attempt_finished`](Self::attempt_finished) and one
/// [`call_finished`](Self::call_finished).
///
/// `dependency` is the name that the stack or the layer was given, `""` where it was given none. Nothing that comes here
/// holds a URL, a header, a key, an argument or the text of an error.
///
/// Several observers are one: a pair `(A, B)`, a `Vec` of them, an `Arc` of one.
///
/// It is called in the middle of a poll: keep it short, and do not block. A panic in it is caught and dropped, so that
/// it cannot break a call. Where there is no observer an event costs one branch.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tower_composure::{CallReport, Observer};
///
/// #[derive(Default)]
/// struct Attempts(AtomicU64);
///
/// impl Observer for Attempts {
///     fn call_finished(&self, _dependency: &str, report: &CallReport) {
///         self.0.fetch_add(report.attempts().into(), Ordering::Relaxed);
///     }
/// }
/// ```
///
/// All that there is to hear, for a debugger's eyes:
///
/// ```
/// use std::time::Duration;
/// use tower_composure::circuit_breaker::Transition;
/// use tower_composure::{Attempt, AttemptFinished, CallReport, DeadlineExceeded, Observer, RetryScheduled, StopReason};
///
/// struct Everything;
///
/// impl Observer for Everything {
///     fn attempt_started(&self, _: &str, attempt: &Attempt) { println!("{attempt:?}"); }
///     fn attempt_finished(&self, _: &str, finished: &AttemptFinished) { println!("{finished:?}"); }
///     fn retry_scheduled(&self, _: &str, retry: &RetryScheduled) { println!("{retry:?}"); }
///     fn retry_refused(&self, _: &str, _: &Attempt, reason: StopReason) { println!("{reason:?}"); }
///     fn call_finished(&self, _: &str, report: &CallReport) { println!("{report:?}"); }
///     fn budget_deposited(&self, _: &str, balance: f64) { println!("up to {balance}"); }
///     fn budget_withdrawn(&self, _: &str, balance: f64) { println!("down to {balance}"); }
///     fn budget_exhausted(&self, _: &str, balance: f64) { println!("only {balance}"); }
///     fn breaker_transition(&self, _: &str, transition: &Transition) { println!("{transition:?}"); }
///     fn breaker_rejected(&self, _: &str, remaining: Duration) { println!("open for {remaining:?}"); }
///     fn breaker_probe(&self, breaker: &str) { println!("{breaker} probes"); }
///     fn deadline_exceeded(&self, _: &str, exceeded: &DeadlineExceeded) { println!("{exceeded:?}"); }
///     fn key_minted(&self, dependency: &str) { println!("{dependency}: a new key"); }
///     fn key_kept(&self, dependency: &str) { println!("{dependency}: the caller's key"); }
/// }
/// ```
#[expect(unused_variables, reason = "the defaults do nothing")]
pub trait Observer: Send + Sync {
    /// The inner service has been called.
    fn attempt_started(&self, dependency: &str, attempt: &Attempt) {}

    /// An attempt has ended and been classified. One that is cut off with its call does not come here.
    fn attempt_finished(&self, dependency: &str, finished: &AttemptFinished) {}

    /// A retry has been decided, and is waited for.
    fn retry_scheduled(&self, dependency: &str, retry: &RetryScheduled) {}

    /// A retry that the verdict allowed is not made.
    fn retry_refused(&self, dependency: &str, attempt: &Attempt, reason: StopReason) {}

    /// A call has ended, from the retry layer that ran it: its outcome is about to go up, or it was dropped
    /// ([`CallReport::is_cancelled`]), by its caller or by a deadline above.
    fn call_finished(&self, dependency: &str, report: &CallReport) {}

    /// A success has earned its part of a token; `balance` is what the budget now holds, in tokens.
    fn budget_deposited(&self, dependency: &str, balance: f64) {}

    /// A retry has taken its tokens; `balance` is what the budget still holds.
    fn budget_withdrawn(&self, dependency: &str, balance: f64) {}

    /// The budget could not pay for a retry; `balance` is what it holds.
    fn budget_exhausted(&self, dependency: &str, balance: f64) {}

    /// A breaker has changed its state. Once a transition, from whoever caused it: the call whose outcome opened or
    /// closed it, the first one to look after its time was up, or the one who forced it. `breaker` is its name.
    fn breaker_transition(&self, breaker: &str, transition: &Transition) {}

    /// A breaker has refused a call; it will do so for as long as `remaining`.
    fn breaker_rejected(&self, breaker: &str, remaining: Duration) {}

    /// A half-open breaker has let a call through to see how it ends.
    fn breaker_probe(&self, breaker: &str) {}

    /// A deadline has passed, of an attempt or of a call.
    fn deadline_exceeded(&self, dependency: &str, exceeded: &DeadlineExceeded) {}

    /// A request had no idempotency key and has been given a new one.
    fn key_minted(&self, dependency: &str) {}

    /// A request goes with the key that its caller gave it, on the request or in scope.
    fn key_kept(&self, dependency: &str) {}
}

/// How an attempt ended.
///
/// ```
/// use tower_composure::{AttemptFinished, Observer};
///
/// struct Times;
///
/// impl Observer for Times {
///     fn attempt_finished(&self, dependency: &str, finished: &AttemptFinished) {
///         println!("{dependency} {} {:?}", finished.verdict().as_str(), finished.elapsed());
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptFinished {
    pub(crate) attempt: Attempt,
    pub(crate) verdict: Verdict,
    pub(crate) elapsed: Duration,
}

impl AttemptFinished {
    /// The attempt.
    ///
    /// ```
    /// use tower_composure::AttemptFinished;
    ///
    /// fn is_retry(finished: &AttemptFinished) -> bool {
    ///     finished.attempt().number() > 1
    /// }
    /// ```
    pub const fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// What the policy says of its outcome.
    ///
    /// ```
    /// use tower_composure::AttemptFinished;
    ///
    /// fn is_worth_counting(finished: &AttemptFinished) -> bool {
    ///     finished.verdict().is_unknown()
    /// }
    /// ```
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// From the call of the inner service to the outcome.
    ///
    /// ```
    /// use tower_composure::AttemptFinished;
    ///
    /// fn millis(finished: &AttemptFinished) -> u128 {
    ///     finished.elapsed().as_millis()
    /// }
    /// ```
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

/// A retry that is going to be made.
///
/// ```
/// use tower_composure::{DelayedBy, Observer, RetryScheduled};
///
/// struct Waits;
///
/// impl Observer for Waits {
///     fn retry_scheduled(&self, dependency: &str, retry: &RetryScheduled) {
///         if retry.delayed_by() == DelayedBy::Hint {
///             println!("{dependency} asked for {:?} after attempt {}", retry.delay(), retry.after().number());
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryScheduled {
    pub(crate) after: Attempt,
    pub(crate) delay: Duration,
    pub(crate) by: DelayedBy,
}

impl RetryScheduled {
    /// The attempt that has failed.
    ///
    /// ```
    /// use tower_composure::RetryScheduled;
    ///
    /// fn number_of_the_failed_one(retry: &RetryScheduled) -> u32 {
    ///     retry.after().number()
    /// }
    /// ```
    pub const fn after(&self) -> &Attempt {
        &self.after
    }

    /// The wait before the next one.
    ///
    /// ```
    /// use tower_composure::RetryScheduled;
    ///
    /// fn seconds(retry: &RetryScheduled) -> f64 {
    ///     retry.delay().as_secs_f64()
    /// }
    /// ```
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// What decided the wait.
    ///
    /// ```
    /// use tower_composure::RetryScheduled;
    ///
    /// fn label(retry: &RetryScheduled) -> &'static str {
    ///     retry.delayed_by().as_str()
    /// }
    /// ```
    pub const fn delayed_by(&self) -> DelayedBy {
        self.by
    }
}

/// What decided the wait before a retry.
///
/// ```
/// use tower_composure::{DelayedBy, RetryScheduled};
///
/// fn was_told_to_wait(retry: &RetryScheduled) -> bool {
///     retry.delayed_by() == DelayedBy::Hint
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DelayedBy {
    /// The backoff of the retry layer.
    Backoff,
    /// The server, which asked for a longer wait.
    Hint,
}

impl DelayedBy {
    /// The name in events and labels.
    ///
    /// ```
    /// use tower_composure::DelayedBy;
    ///
    /// assert_eq!(DelayedBy::Hint.as_str(), "hint");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backoff => "backoff",
            Self::Hint => "hint",
        }
    }
}

/// Who listens, and the name of what is called.
#[derive(Clone)]
pub(crate) struct Watch {
    observer: Arc<dyn Observer>,
    dependency: Arc<str>,
}

impl Watch {
    pub(crate) fn new(observer: Arc<dyn Observer>, dependency: Arc<str>) -> Self {
        Self {
            observer,
            dependency,
        }
    }

    /// Tells the observer, whose panic is not the call's.
    pub(crate) fn tell(&self, event: &dyn Fn(&dyn Observer, &str)) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            event(&*self.observer, &self.dependency);
        }));
    }

    /// Tells whether a request goes with a new key or with its caller's.
    #[cfg(any(feature = "http", feature = "tool"))]
    pub(crate) fn tell_key(&self, minted: bool) {
        self.tell(&|observer, dependency| {
            if minted {
                observer.key_minted(dependency);
            } else {
                observer.key_kept(dependency);
            }
        });
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("dependency", &self.dependency)
            .finish_non_exhaustive()
    }
}
