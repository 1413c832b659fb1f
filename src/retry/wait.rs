//! The wait before a retry, of a backoff, a hint and a deadline. Pure.

use std::time::Duration;

use super::backoff::{part, uniform};
use crate::report::StopReason;
use crate::verdict::Hint;

/// The resolution of tokio's timers: a wait that ends less than this before a deadline ends with it.
const TICK: Duration = Duration::from_millis(1);

/// What a wait is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// What the backoff drew.
    pub(super) backoff: Duration,
    /// What the server asked for.
    pub(super) hint: Option<Hint>,
    /// The least spread over a hint.
    pub(super) base: Duration,
    /// The longest hint that is honoured.
    pub(super) max_hint: Duration,
    /// Whether the number of attempts is limited.
    pub(super) limited: bool,
    /// A uniform word, for the spread.
    pub(super) random: u64,
}

impl Wait {
    /// A retry at once.
    pub(super) const NONE: Self = Self {
        backoff: Duration::ZERO,
        hint: None,
        base: Duration::ZERO,
        max_hint: Duration::MAX,
        limited: true,
        random: 0,
    };

    /// Refuses a hint beyond the limit. Asked before the clock is.
    pub(super) fn check_hint(&self) -> Result<(), StopReason> {
        match self.hint {
            Some(hint) if hint.wait() > self.max_hint || hint == Hint::never() => {
                Err(StopReason::HintExceedsLimit)
            }
            _ => Ok(()),
        }
    }

    /// How long to wait, where `remaining` is left before a deadline: max(backoff, hint + U[0, max(base, hint/4)]),
    /// and exactly the hint where it is exact. Only the jitter over the hint is trimmed to fit.
    ///
    /// Without a limit on attempts an exact hint is a floor like any other: else a server that answers "exactly at
    /// once" would be called as fast as it answers, until the deadline or for ever.
    #[inline]
    pub(super) fn within(&self, remaining: Option<Duration>) -> Result<Duration, StopReason> {
        let (least, wait) = match self.hint {
            None => (self.backoff, self.backoff),
            Some(hint) if hint.is_exact() => {
                let floor = if self.limited {
                    Duration::ZERO
                } else {
                    self.backoff
                };
                let wait = hint.wait().max(floor);
                (wait, wait)
            }
            Some(hint) => {
                let floor = hint.wait();
                let spread = self.base.max(part(floor, 4));
                let jittered = uniform(floor, floor.saturating_add(spread), self.random);
                (self.backoff.max(floor), self.backoff.max(jittered))
            }
        };
        let Some(remaining) = remaining else {
            return Ok(wait);
        };
        // A timer ends at its next tick, and then no time would remain for an attempt.
        match remaining.checked_sub(TICK) {
            Some(latest) if least <= latest => Ok(wait.min(latest)),
            _ => Err(StopReason::Deadline),
        }
    }
}
