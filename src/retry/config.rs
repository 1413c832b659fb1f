use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::{Backoff, RetrySwitch};
use crate::budget::LentBudget;
use crate::circuit_breaker::CircuitBreaker;
use crate::context::AttemptScope;
use crate::observer::{Observer, Watch};
use crate::rng::Random;

/// What all services of a layer share.
pub(super) struct Config<P, R, D> {
    pub(super) policy: P,
    pub(super) replay: R,
    pub(super) release: D,
    pub(super) settings: Settings,
}

/// What does not depend on a type.
pub(super) struct Settings {
    // The largest number there is: as many as the other limits allow.
    pub(super) max_attempts: u32,
    pub(super) backoff: Backoff,
    pub(super) max_hint: Duration,
    pub(super) nested: bool,
    pub(super) honours_keys: bool,
    pub(super) switch: RetrySwitch,
    pub(super) random: Random,
    pub(super) budget: Allowance,
    /// The breaker that entrusts calls to this retry.
    pub(super) breaker: Option<CircuitBreaker>,
    pub(super) watch: Option<Watch>,
    /// When the layer was built, which the times of calls that are watched count from.
    pub(super) built: Instant,
    pub(super) unwatched: Unwatched,
}

/// What is so where there is no observer: looked at once a call, or once a failure.
pub(super) struct Unwatched {
    /// There can be more than one attempt.
    pub(super) retries: bool,
    /// There is no backoff.
    pub(super) at_once: bool,
}

impl Settings {
    /// Whether a call has no more to it than what a policy says, at least until something fails.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.unwatched.retries && self.switch.is_on()
    }

    /// Whether a retry is made at once that nobody watches, unless an answer asks for a wait.
    #[inline]
    pub(super) fn retries_at_once(&self) -> bool {
        self.unwatched.at_once && self.switch.is_on()
    }

    #[inline]
    pub(super) fn allows_attempt_after(&self, number: u32) -> bool {
        number < self.max_attempts || self.is_unlimited()
    }

    pub(super) const fn is_unlimited(&self) -> bool {
        self.max_attempts == u32::MAX
    }

    /// Whether there is an observer.
    #[inline]
    pub(super) const fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Tells the observer, where there is one.
    #[inline]
    pub(super) fn tell(&self, event: &dyn Fn(&dyn Observer, &str)) {
        if let Some(watch) = &self.watch {
            watch.tell(event);
        }
    }
}

/// Where the tokens of retries come from.
pub(super) enum Allowance {
    /// From the budget in scope, where there is one.
    Lent,
    Own(LentBudget),
    /// Retries cost nothing.
    Free,
}

impl Settings {
    /// The budget of this call, where it has one.
    #[inline]
    pub(super) fn budget<R>(
        &self,
        scope: &AttemptScope<'_>,
        at: impl FnOnce(&LentBudget) -> R,
    ) -> Option<R> {
        match &self.budget {
            Allowance::Own(budget) => Some(at(budget)),
            Allowance::Lent => scope.budget(at),
            Allowance::Free => None,
        }
    }

    /// Whether a budget that was in scope when a call began has to be there when a retry is decided.
    pub(super) const fn borrows(&self) -> bool {
        matches!(self.budget, Allowance::Lent)
    }

    pub(super) fn debug(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        f.debug_struct(name)
            .field(
                "max_attempts",
                &(!self.is_unlimited()).then_some(self.max_attempts),
            )
            .field("backoff", &self.backoff)
            .field("max_hint", &self.max_hint)
            .field("mode", &self.switch.mode())
            .finish_non_exhaustive()
    }
}
