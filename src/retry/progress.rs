//! What a call has been through, and what is decided from it.

use std::time::Duration;

use tokio::time::Instant;

use super::RetryMode;
use super::config::Settings;
use super::wait::Wait;
use crate::attempt::Attempt;
use crate::budget::Withdrawal;
use crate::clock;
use crate::context::{self, AttemptScope, SharedKey};
use crate::report::{CallReport, Published, StopReason};
use crate::verdict::{Hint, Verdict};

/// The state of a call that outlives its attempts.
pub(super) struct Progress {
    pub(super) attempt: Attempt,
    /// A retry layer above owns this call.
    nested: bool,
    /// This layer owns it, or one above does.
    owned: bool,
    spare: Spare,
    /// A budget was lent when the call began.
    budgeted: bool,
    started: Option<Instant>,
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
    pub(super) token: Option<Withdrawal>,
}

impl Progress {
    #[inline]
    pub(super) fn begin(settings: &Settings, attempt: Attempt) -> Self {
        let outer_owns = context::is_owned();
        Self {
            attempt,
            nested: outer_owns && !settings.nested,
            owned: outer_owns,
            spare: Spare::NotMade,
            budgeted: context::has_budget(),
            started: settings.observer.is_some().then(clock::now),
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
        if self.nested
            || mode == RetryMode::Off
            || !settings.allows_attempt_after(self.attempt.number())
        {
            return None;
        }
        let copy = copy();
        if copy.is_some() {
            self.spare = Spare::Kept;
            self.owned |= self.attempt.effect().is_repeatable() && mode == RetryMode::On;
        } else {
            self.spare = Spare::Impossible;
        }
        copy
    }

    /// Puts the current attempt in scope.
    #[inline]
    pub(super) fn enter<'a>(&mut self, key: &'a mut SharedKey) -> AttemptScope<'a> {
        let attempt = if self.nested {
            // The attempt in scope is that of the owner.
            context::attempt()
        } else {
            Some(self.attempt)
        };
        let keeps_outer_key = self.nested || (key.is_outer() && self.attempt.number() == 1);
        AttemptScope::enter(attempt, self.owned, key, !keeps_outer_key)
    }

    /// The next attempt begins.
    pub(super) fn next_attempt(&mut self, scope: &mut AttemptScope<'_>) {
        self.attempt = self.attempt.next();
        scope.next(self.attempt, self.owned);
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
        } else if verdict.is_unknown() && self.attempt.effect().is_write() {
            failed.unknown = true;
        }
    }

    /// Whether another attempt follows the verdict, and when. The order of the questions is the module's.
    pub(super) fn decide(
        &mut self,
        settings: &Settings,
        verdict: Verdict,
        scope: &AttemptScope<'_>,
    ) -> Result<Planned, StopReason> {
        let mode = settings.switch.mode();
        self.check_call(settings, verdict, mode)?;
        let breaker = scope.breaker(|breaker| (breaker.is_current(), breaker.is_probe()));
        match breaker {
            Some((false, _)) => return Err(StopReason::BreakerOpen),
            Some((true, true)) => return Err(StopReason::Probe),
            Some((true, false)) | None => {}
        }
        let wait = self.plan_wait(settings, verdict)?;
        let token = self.withdraw(verdict, mode, scope)?;
        if let Some(failed) = &mut self.failed {
            failed.once_spent |= verdict.hint().is_some_and(Hint::is_once);
            failed.last_wait = wait;
            failed.backoff = failed.backoff.saturating_add(wait);
        }
        Ok(Planned { wait, token })
    }

    /// What the call itself allows.
    fn check_call(
        &self,
        settings: &Settings,
        verdict: Verdict,
        mode: RetryMode,
    ) -> Result<(), StopReason> {
        let spent = self.failed.as_ref().is_some_and(|failed| failed.once_spent);
        let once_again = spent && verdict.hint().is_some_and(Hint::is_once);
        if self.nested {
            Err(StopReason::Nested)
        } else if !settings.allows_attempt_after(self.attempt.number()) || once_again {
            Err(StopReason::Attempts)
        } else if verdict.is_unknown() && !self.attempt.effect().is_repeatable() {
            Err(StopReason::OutcomeUnknown)
        } else if self.spare == Spare::Impossible {
            Err(StopReason::NotReplayable)
        } else if self.spare == Spare::NotMade || mode == RetryMode::Off {
            Err(StopReason::SwitchedOff)
        } else {
            Ok(())
        }
    }

    fn plan_wait(&self, settings: &Settings, verdict: Verdict) -> Result<Duration, StopReason> {
        let last_wait = self
            .failed
            .as_ref()
            .map_or(Duration::ZERO, |failed| failed.last_wait);
        let draw = || settings.random.draw();
        let wait = Wait {
            backoff: settings
                .backoff
                .delay(self.attempt.number(), last_wait, draw()),
            hint: verdict.hint(),
            base: settings.backoff.base(),
            max_hint: settings.max_hint,
            random: draw(),
        };
        wait.check_hint()?;
        if context::expired().is_some_and(|expired| expired.absolute) {
            // A deadline below has passed, and the next attempt would run into the same instant.
            return Err(StopReason::Deadline);
        }
        let deadline = context::deadline().filter(|deadline| deadline.instant().is_some());
        let remaining = deadline.map(|deadline| deadline.remaining_at(clock::now()));
        wait.within(remaining)
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
        self.nested
    }

    /// The call has ended: leaves its report for the layers above and tells the observer. The report comes back where
    /// there is anything to say.
    #[inline]
    pub(super) fn conclude(
        &self,
        settings: &Settings,
        stop: Option<StopReason>,
    ) -> Option<CallReport> {
        if self.failed.is_none() && settings.observer.is_none() {
            context::publish(Published::Success(self.attempt));
            return None;
        }
        let report = self.report(stop);
        context::publish(Published::Call(report));
        settings.observe(&report);
        self.failed.is_some().then_some(report)
    }

    /// A deadline above may end the call in this poll: it learns what has failed so far.
    #[inline]
    pub(super) fn publish_so_far(&self) {
        if self.failed.is_some() {
            context::publish(Published::Call(self.report(None)));
        }
    }

    fn report(&self, stop: Option<StopReason>) -> CallReport {
        let elapsed = self
            .started
            .map(|started| clock::now().saturating_duration_since(started));
        let plain = CallReport {
            elapsed,
            ..CallReport::success(self.attempt)
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
