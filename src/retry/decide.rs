//! Whether another attempt follows on a verdict, and when. The order of the questions is the module's.

use std::time::Duration;

use super::RetryMode;
use super::config::Settings;
use super::facts::Spare;
use super::ownership::has_repeated;
use super::progress::Progress;
use super::wait::Wait;
use crate::budget::Withdrawal;
use crate::context::{self, AttemptScope};
use crate::observer::DelayedBy;
use crate::report::StopReason;
use crate::verdict::{Hint, Verdict};

/// A retry that is going to be made.
pub(super) struct Planned {
    pub(super) wait: Duration,
    pub(super) by: DelayedBy,
    pub(super) token: Withdrawal,
}

impl Progress {
    pub(super) fn decide(
        &self,
        settings: &Settings,
        verdict: Verdict,
        scope: &AttemptScope<'_>,
        replayable: impl FnOnce() -> bool,
    ) -> Result<Planned, StopReason> {
        let mode = settings.switch.mode();
        let once_again = verdict.hint().is_some_and(Hint::is_once) && self.waits.have_spent_once();
        self.check(settings, verdict, once_again, mode, scope, replayable)?;
        let (wait, by) = self.plan_wait(settings, verdict)?;
        let token = self.withdraw(settings, verdict, mode, scope)?;
        Ok(Planned { wait, by, token })
    }

    /// The same where retries are on and there is neither a backoff nor a hint.
    #[inline(always)]
    pub(super) fn decide_at_once(
        &self,
        settings: &Settings,
        verdict: Verdict,
        scope: &AttemptScope<'_>,
        replayable: impl FnOnce() -> bool,
    ) -> Result<Withdrawal, StopReason> {
        let mode = RetryMode::On;
        self.check(settings, verdict, false, mode, scope, replayable)?;
        Wait::NONE.within(time_left()?)?;
        self.withdraw(settings, verdict, mode, scope)
    }

    /// What is asked before the wait is known. A hint that allows one retry may ask for it once again.
    #[inline(always)]
    fn check(
        &self,
        settings: &Settings,
        verdict: Verdict,
        once_again: bool,
        mode: RetryMode,
        scope: &AttemptScope<'_>,
        replayable: impl FnOnce() -> bool,
    ) -> Result<(), StopReason> {
        let below = scope.below();
        if below.is_nested() || (!below.is_owned() && has_repeated()) {
            return Err(StopReason::Nested);
        }
        // Nobody else owns the call, so this is the attempt in scope.
        if once_again || !settings.allows_attempt_after(self.number_in_scope()) {
            return Err(StopReason::Attempts);
        }
        if verdict.is_unknown() && !self.attempt().is_repeatable() {
            return Err(StopReason::OutcomeUnknown);
        }
        self.check_spare(replayable)?;
        if mode == RetryMode::Off {
            return Err(StopReason::SwitchedOff);
        }
        match scope.breaker() {
            Some(breaker) if !breaker.is_current() => Err(StopReason::BreakerOpen),
            Some(breaker) if breaker.is_probe() => Err(StopReason::Probe),
            _ => Ok(()),
        }
    }

    /// Whether there is a request to send.
    #[inline(always)]
    fn check_spare(&self, replayable: impl FnOnce() -> bool) -> Result<(), StopReason> {
        if self.facts.has(Spare::Kept) && replayable() {
            Ok(())
        } else if self.facts.has(Spare::NotMade) {
            Err(StopReason::SwitchedOff)
        } else {
            Err(StopReason::NotReplayable)
        }
    }

    #[inline]
    fn plan_wait(
        &self,
        settings: &Settings,
        verdict: Verdict,
    ) -> Result<(Duration, DelayedBy), StopReason> {
        let hint = verdict.hint();
        // Nothing is drawn where there is nothing to spread.
        if hint.is_none() && settings.backoff.is_none() {
            let wait = Wait::NONE.within(time_left()?)?;
            return Ok((wait, DelayedBy::Backoff));
        }
        self.plan_long_wait(settings, hint)
    }

    #[inline(never)]
    fn plan_long_wait(
        &self,
        settings: &Settings,
        hint: Option<Hint>,
    ) -> Result<(Duration, DelayedBy), StopReason> {
        let (number, last_wait) = (self.attempt().number(), self.waits.last());
        let draw = || settings.random.draw();
        let wait = Wait {
            backoff: settings.backoff.delay(number, last_wait, draw()),
            hint,
            base: settings.backoff.base(),
            max_hint: settings.max_hint,
            limited: !settings.is_unlimited(),
            random: draw(),
        };
        wait.check_hint()?;
        let delay = wait.within(time_left()?)?;
        let by = if delay == wait.backoff {
            DelayedBy::Backoff
        } else {
            DelayedBy::Hint
        };
        Ok((delay, by))
    }

    #[inline(always)]
    fn withdraw(
        &self,
        settings: &Settings,
        verdict: Verdict,
        mode: RetryMode,
        scope: &AttemptScope<'_>,
    ) -> Result<Withdrawal, StopReason> {
        let Some(token) = settings.budget(scope, |budget| budget.try_withdraw(verdict)) else {
            // A budget that was there when the call began has not been carried along: without it, no retry.
            return if self.facts.is_budgeted() && settings.borrows() {
                Err(StopReason::BudgetExhausted)
            } else if mode == RetryMode::ObserveOnly {
                Err(StopReason::ObserveOnly)
            } else {
                Ok(Withdrawal::NOTHING)
            };
        };
        let token = token.ok_or(StopReason::BudgetExhausted)?;
        if mode == RetryMode::ObserveOnly {
            // The token goes back: nothing is sent.
            return Err(StopReason::ObserveOnly);
        }
        Ok(token)
    }
}

/// What is left before the deadline, where there is one.
#[inline(always)]
fn time_left() -> Result<Option<Duration>, StopReason> {
    if context::expired().is_some_and(|expired| expired.absolute) {
        // A deadline below has passed, and the next attempt would run into the same instant.
        return Err(StopReason::Deadline);
    }
    Ok(context::time_left())
}
