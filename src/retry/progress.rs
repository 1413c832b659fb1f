//! What a call has been through, and what is decided from it.

use std::time::Duration;

use tokio::time::Instant;

use super::RetryMode;
use super::config::Settings;
use super::drive::Pause;
use super::ownership::{earns, has_repeated};
use super::wait::Wait;
use crate::attempt::Attempt;
use crate::budget::{LentBudget, Withdrawal};
use crate::clock;
use crate::context::{self, AttemptScope, Frame};
use crate::observer::DelayedBy;
use crate::rare::Rare;
use crate::report::{CallReport, StopReason};
use crate::verdict::{Hint, Verdict};

/// The state of a call that outlives its attempts.
pub(super) struct Progress {
    /// The attempt that is being made.
    attempt: Attempt,
    spare: Spare,
    /// A budget was lent when the call began.
    budgeted: bool,
    /// When the call began, where an observer wants to know and until it has heard of its end.
    pub(super) started: Option<Instant>,
    /// When the attempt began, in nanoseconds after the call.
    pub(super) attempt_began: u64,
    /// What there is to remember once something has failed. Most calls never need it, so they do not carry it around.
    failed: Rare<Box<Failed>>,
}

/// What is known of the attempts that have failed.
struct Failed {
    verdict: Verdict,
    unknown: bool,
    once_spent: bool,
    last_wait: Duration,
    backoff: Duration,
    pause: Pause,
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
    /// A call begins whose first attempt this is, whose request has been copied, and which nobody watches.
    #[inline]
    pub(super) const fn begin(outer: Frame, attempt: Attempt) -> Self {
        Self {
            attempt,
            spare: Spare::Kept,
            budgeted: outer.has_budget(),
            started: None,
            attempt_began: 0,
            failed: Rare::NONE,
        }
    }

    /// A call begins whose first attempt this is. `copy` copies the request, and comes back with the copy, where a retry is
    /// possible at all. The frame is what is in scope below.
    pub(super) fn begin_slowly<Req>(
        settings: &Settings,
        outer: Frame,
        attempt: Attempt,
        copy: impl FnOnce() -> Option<Req>,
    ) -> (Self, Frame, Option<Req>) {
        let below = if outer.is_owned() && !settings.nested {
            outer.below_owner()
        } else {
            outer.below(attempt)
        };
        let (copy, spare, owns) = copied(settings, attempt, below, copy);
        let progress = Self {
            spare,
            started: settings.watch.is_some().then(clock::now),
            ..Self::begin(outer, attempt)
        };
        (progress, if owns { below.owned() } else { below }, copy)
    }

    /// Copies the request for the attempt after the one that begins.
    pub(super) fn copy<Req>(
        &mut self,
        settings: &Settings,
        scope: &mut AttemptScope<'_>,
        copy: impl FnOnce() -> Option<Req>,
    ) -> Option<Req> {
        let (copy, spare, owns) = copied(settings, self.attempt, scope.below(), copy);
        self.spare = spare;
        if owns {
            scope.own();
        }
        copy
    }

    /// The current attempt.
    #[inline]
    pub(super) const fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The next attempt begins.
    pub(super) fn next_attempt(&mut self, scope: &mut AttemptScope<'_>) {
        self.attempt = self.attempt.next();
        scope.next(scope.below().at(self.attempt));
    }

    /// The verdict on the attempt that has just ended.
    #[inline]
    pub(super) fn note(&mut self, verdict: Verdict) {
        if verdict.is_success() && !self.failed.is_some() {
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
                pause: Pause::default(),
            })
        });
        failed.verdict = verdict;
        if verdict.is_success() {
            failed.unknown = false;
        } else if (verdict.is_unknown() && is_write) || below {
            failed.unknown = true;
        }
    }

    /// What there is between two attempts; nothing where none has failed.
    pub(super) fn pause(&mut self) -> Option<&mut Pause> {
        self.failed.as_mut().map(|failed| &mut failed.pause)
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
        let below = scope.below();
        if below.is_nested() || (!below.is_owned() && has_repeated()) {
            return Err(StopReason::Nested);
        }
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
        let token = self.withdraw(settings, verdict, mode, scope)?;
        if let Some(failed) = self.failed.as_mut() {
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
        if !settings.allows_attempt_after(self.attempt().number()) || once_again {
            Err(StopReason::Attempts)
        } else if verdict.is_unknown() && !self.attempt.is_repeatable() {
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
        let number = self.attempt().number();
        // Nothing is drawn where there is nothing to spread.
        let (backoff, random) = if settings.backoff.is_none() && verdict.hint().is_none() {
            (Duration::ZERO, 0)
        } else {
            let draw = || settings.random.draw();
            (settings.backoff.delay(number, last_wait, draw()), draw())
        };
        let wait = Wait {
            backoff,
            hint: verdict.hint(),
            base: settings.backoff.base(),
            max_hint: settings.max_hint,
            limited: !settings.is_unlimited(),
            random,
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
        settings: &Settings,
        verdict: Verdict,
        mode: RetryMode,
        scope: &AttemptScope<'_>,
    ) -> Result<Option<Withdrawal>, StopReason> {
        let Some(token) = settings.budget(scope, |budget| budget.try_withdraw(verdict)) else {
            // A budget that was there when the call began has not been carried along: without it, no retry.
            return if self.budgeted && settings.borrows() {
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

    /// The first attempt has succeeded, and nobody wants to know more.
    #[inline]
    pub(super) fn succeed(&self, settings: &Settings, scope: &AttemptScope<'_>) {
        scope.succeed_in_breaker(self.attempt.number());
        if earns(scope.below()) {
            settings.budget(scope, LentBudget::deposit);
        }
        context::publish_success(self.attempt);
    }

    /// Whether nothing has failed and nobody wants to know: what most calls are from their beginning to their end.
    #[inline]
    pub(super) const fn is_untroubled(&self, settings: &Settings) -> bool {
        !self.failed.is_some() && settings.watch.is_none()
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
            context::publish_success(self.attempt);
            return None;
        }
        let report = self.report(stop);
        // The report of a retry below that has repeated the call says more, and keeps others from doing so.
        let says_more = stop != Some(StopReason::Nested) || !has_repeated();
        if says_more {
            context::publish(report);
        }
        settings.tell(|observer, dependency| observer.call_finished(dependency, &report));
        self.started = None;
        (says_more && self.failed.is_some()).then_some(report)
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

/// Copies the request, where a retry is possible at all, and says whether this layer then owns the call: a retry that can
/// act does; one over a write without a key mostly cannot, so that a read below keeps its retries.
fn copied<Req>(
    settings: &Settings,
    attempt: Attempt,
    below: Frame,
    copy: impl FnOnce() -> Option<Req>,
) -> (Option<Req>, Spare, bool) {
    let mode = settings.switch.mode();
    if below.is_nested()
        || mode == RetryMode::Off
        || !settings.allows_attempt_after(attempt.number())
    {
        return (None, Spare::NotMade, false);
    }
    match copy() {
        copy @ Some(_) => {
            let owns = attempt.is_repeatable() && mode == RetryMode::On;
            (copy, Spare::Kept, owns)
        }
        None => (None, Spare::Impossible, false),
    }
}
