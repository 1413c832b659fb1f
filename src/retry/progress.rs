//! What a call has been through, and what is decided from it.

use std::time::Duration;

use tokio::time::Instant;

use super::RetryMode;
use super::config::Settings;
use super::wait::Wait;
use crate::attempt::Attempt;
use crate::budget::{LentBudget, Withdrawal};
use crate::clock;
use crate::context::{self, AttemptScope, Frame, SharedKey};
use crate::observer::DelayedBy;
use crate::report::{CallReport, StopReason};
use crate::verdict::{Hint, Verdict};

/// The state of a call that outlives its attempts.
pub(super) struct Progress {
    /// The attempt that is being made, and whether this layer or one above owns the call.
    frame: Frame,
    /// What is in scope below as it is around.
    keep: Frame,
    spare: Spare,
    /// A budget was lent when the call began.
    budgeted: bool,
    /// When the call began, where an observer wants to know and until it has heard of its end.
    pub(super) started: Option<Instant>,
    /// When the attempt began, in nanoseconds after the call.
    pub(super) attempt_began: u64,
    /// What there is to remember once something has failed. Most calls never need it, so they do not carry it around.
    failed: Option<Box<Failed>>,
}

/// What is known of the attempts that have failed.
struct Failed {
    verdict: Verdict,
    unknown: bool,
    once_spent: bool,
    last_wait: Duration,
    backoff: Duration,
}

/// Whether there is a copy of the request for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spare {
    Kept,
    /// The request cannot be copied.
    Impossible,
    /// No retry could be made when the call began.
    NotMade,
}

/// A retry that is going to be made.
pub(super) struct Planned {
    pub(super) wait: Duration,
    pub(super) by: DelayedBy,
    pub(super) token: Option<Withdrawal>,
}

impl Progress {
    #[inline]
    pub(super) fn begin(settings: &Settings, attempt: Attempt) -> Self {
        let outer = context::frame();
        let keep = if outer.is_owned() && !settings.nested {
            Frame::BELOW_OWNER
        } else if outer.has_key() {
            Frame::BELOW_WITH_KEY
        } else {
            Frame::BELOW
        };
        Self {
            frame: Frame::of(attempt).owned(outer.is_owned()),
            keep,
            spare: Spare::NotMade,
            budgeted: outer.has_budget(),
            started: settings.watch.is_some().then(clock::now),
            attempt_began: 0,
            failed: None,
        }
    }

    /// Copies the request, where a retry is possible at all. A retry that can act owns the call; one over a write
    /// without a key mostly cannot, so that a read below keeps its retries.
    #[inline]
    pub(super) fn copy<Req>(
        &mut self,
        settings: &Settings,
        copy: impl FnOnce() -> Option<Req>,
    ) -> Option<Req> {
        let mode = settings.switch.mode();
        self.spare = Spare::NotMade;
        if self.is_nested()
            || mode == RetryMode::Off
            || !settings.allows_attempt_after(self.attempt().number())
        {
            return None;
        }
        let copy = copy();
        if copy.is_some() {
            self.spare = Spare::Kept;
            let can_act = self.attempt().effect().is_repeatable() && mode == RetryMode::On;
            self.frame = self.frame.owned(can_act);
        } else {
            self.spare = Spare::Impossible;
        }
        copy
    }

    /// The current attempt.
    #[inline]
    pub(super) const fn attempt(&self) -> Attempt {
        self.frame.as_attempt()
    }

    /// Puts the first attempt in scope.
    #[inline]
    pub(super) fn enter_first<'a>(&self, key: &'a mut SharedKey) -> AttemptScope<'a> {
        AttemptScope::begin(self.frame, self.keep, key)
    }

    /// Puts the current attempt in scope.
    #[inline]
    pub(super) fn enter<'a>(&self, key: &'a mut SharedKey) -> AttemptScope<'a> {
        AttemptScope::enter(self.frame, self.keep, key)
    }

    /// The next attempt begins.
    pub(super) fn next_attempt(&mut self, scope: &mut AttemptScope<'_>) {
        self.frame = self.frame.at(self.attempt().next());
        self.keep = Frame::BELOW;
        scope.next(self.frame);
    }

    /// The verdict on the attempt that has just ended.
    #[inline]
    pub(super) fn note(&mut self, verdict: Verdict) {
        if verdict.is_success() && self.failed.is_none() {
            return;
        }
        self.note_failed(verdict);
    }

    fn note_failed(&mut self, verdict: Verdict) {
        let is_write = self.attempt().effect().is_write();
        // Another retry below may have seen what its last outcome does not tell.
        let below = context::published().is_some_and(|report| report.outcome_unknown());
        let failed = self.failed.get_or_insert_with(|| {
            Box::new(Failed {
                verdict,
                unknown: false,
                once_spent: false,
                last_wait: Duration::ZERO,
                backoff: Duration::ZERO,
            })
        });
        failed.verdict = verdict;
        if verdict.is_success() {
            failed.unknown = false;
        } else if (verdict.is_unknown() && is_write) || below {
            failed.unknown = true;
        }
    }

    /// Whether another attempt follows the verdict, and when. The order of the questions is the module's.
    pub(super) fn decide(
        &mut self,
        settings: &Settings,
        verdict: Verdict,
        scope: &AttemptScope<'_>,
        replayable: impl FnOnce() -> bool,
    ) -> Result<Planned, StopReason> {
        let mode = settings.switch.mode();
        self.check_call(settings, verdict, mode, replayable)?;
        if let Some(breaker) = scope.breaker() {
            if !breaker.is_current() {
                return Err(StopReason::BreakerOpen);
            }
            if breaker.is_probe() {
                return Err(StopReason::Probe);
            }
        }
        let (wait, by) = self.plan_wait(settings, verdict)?;
        let token = self.withdraw(verdict, mode, scope)?;
        if let Some(failed) = &mut self.failed {
            failed.once_spent |= verdict.hint().is_some_and(Hint::is_once);
            failed.last_wait = wait;
            failed.backoff = failed.backoff.saturating_add(wait);
        }
        Ok(Planned { wait, by, token })
    }

    /// What the call itself allows.
    fn check_call(
        &self,
        settings: &Settings,
        verdict: Verdict,
        mode: RetryMode,
        replayable: impl FnOnce() -> bool,
    ) -> Result<(), StopReason> {
        let spent = self.failed.as_ref().is_some_and(|failed| failed.once_spent);
        let once_again = spent && verdict.hint().is_some_and(Hint::is_once);
        if self.is_nested() {
            Err(StopReason::Nested)
        } else if !settings.allows_attempt_after(self.attempt().number()) || once_again {
            Err(StopReason::Attempts)
        } else if verdict.is_unknown() && !self.attempt().effect().is_repeatable() {
            Err(StopReason::OutcomeUnknown)
        } else if self.spare == Spare::Impossible || (self.spare == Spare::Kept && !replayable()) {
            Err(StopReason::NotReplayable)
        } else if self.spare == Spare::NotMade || mode == RetryMode::Off {
            Err(StopReason::SwitchedOff)
        } else {
            Ok(())
        }
    }

    fn plan_wait(
        &self,
        settings: &Settings,
        verdict: Verdict,
    ) -> Result<(Duration, DelayedBy), StopReason> {
        let last_wait = self
            .failed
            .as_ref()
            .map_or(Duration::ZERO, |failed| failed.last_wait);
        let draw = || settings.random.draw();
        let wait = Wait {
            backoff: settings
                .backoff
                .delay(self.attempt().number(), last_wait, draw()),
            hint: verdict.hint(),
            base: settings.backoff.base(),
            max_hint: settings.max_hint,
            limited: settings.max_attempts.is_some(),
            random: draw(),
        };
        wait.check_hint()?;
        if context::expired().is_some_and(|expired| expired.absolute) {
            // A deadline below has passed, and the next attempt would run into the same instant.
            return Err(StopReason::Deadline);
        }
        let deadline = context::deadline();
        let remaining = deadline
            .instant()
            .map(|_| deadline.remaining_at(clock::now()));
        let delay = wait.within(remaining)?;
        let by = if delay == wait.backoff {
            DelayedBy::Backoff
        } else {
            DelayedBy::Hint
        };
        Ok((delay, by))
    }

    fn withdraw(
        &self,
        verdict: Verdict,
        mode: RetryMode,
        scope: &AttemptScope<'_>,
    ) -> Result<Option<Withdrawal>, StopReason> {
        let Some(token) = scope.budget(|budget| budget.try_withdraw(verdict)) else {
            // A budget that was there when the call began has not been carried along: without it, no retry.
            return if self.budgeted {
                Err(StopReason::BudgetExhausted)
            } else if mode == RetryMode::ObserveOnly {
                Err(StopReason::ObserveOnly)
            } else {
                Ok(None)
            };
        };
        let token = token.ok_or(StopReason::BudgetExhausted)?;
        if mode == RetryMode::ObserveOnly {
            // The token goes back: nothing is sent.
            return Err(StopReason::ObserveOnly);
        }
        Ok(Some(token))
    }

    #[inline]
    pub(super) const fn is_nested(&self) -> bool {
        self.keep.is_of_owner()
    }

    /// The first attempt has succeeded, and nobody wants to know more.
    #[inline]
    pub(super) fn succeed(&self, scope: &AttemptScope<'_>) {
        if let Some(breaker) = scope.breaker() {
            breaker.attempt_finished(Verdict::Success, true, self.attempt().number());
        }
        if !self.is_nested() {
            scope.budget(LentBudget::deposit);
        }
        context::publish_success(self.frame);
    }

    /// Whether nothing has failed and nobody wants to know: what most calls are from their beginning to their end.
    #[inline]
    pub(super) const fn is_untroubled(&self, settings: &Settings) -> bool {
        self.failed.is_none() && settings.watch.is_none()
    }

    /// The call has ended: leaves its report for the layers above and tells the observer. The report comes back where
    /// there is anything to say.
    #[inline]
    pub(super) fn conclude(
        &mut self,
        settings: &Settings,
        stop: Option<StopReason>,
    ) -> Option<CallReport> {
        if self.is_untroubled(settings) {
            context::publish_success(self.frame);
            return None;
        }
        let report = self.report(stop);
        context::publish(report);
        settings.tell(|observer, dependency| observer.call_finished(dependency, &report));
        self.started = None;
        self.failed.is_some().then_some(report)
    }

    /// A deadline above may end the call in this poll: it learns what has failed so far.
    #[inline]
    pub(super) fn publish_so_far(&self, attempting: bool) {
        if self.failed.is_some() {
            context::publish(self.report_so_far(attempting));
        }
    }

    /// The report where the call ends here. An attempt of a write that is cut off may have had its effect.
    pub(super) fn report_so_far(&self, attempting: bool) -> CallReport {
        let mut report = self.report(None);
        report.outcome_unknown |= attempting && self.attempt().effect().is_write();
        report
    }

    /// How long the call has taken so far, where anybody wants to know.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        self.started
            .map(|started| clock::now().saturating_duration_since(started))
    }

    pub(super) fn report(&self, stop: Option<StopReason>) -> CallReport {
        let plain = CallReport {
            elapsed: self.elapsed(),
            ..CallReport::success(self.attempt())
        };
        self.failed.as_ref().map_or(plain, |failed| CallReport {
            verdict: failed.verdict,
            stop,
            outcome_unknown: failed.unknown,
            backoff: failed.backoff,
            ..plain
        })
    }
}
