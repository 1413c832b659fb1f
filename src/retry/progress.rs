//! What a call has been through, and what is decided from it.

use std::time::Duration;

use tokio::time::Instant;

use super::RetryMode;
use super::config::Settings;
use super::wait::Wait;
use crate::attempt::Attempt;
use crate::budget::Withdrawal;
use crate::clock;
use crate::context::{self, AttemptScope, KeyInScope, Lending, Lent};
use crate::report::{CallReport, StopReason};
use crate::verdict::{Hint, Verdict};

/// The state of a call that outlives its attempts.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a call, not a state machine"
)]
pub(super) struct Progress {
    pub(super) attempt: Attempt,
    /// A retry layer above owns this call.
    nested: bool,
    /// This layer owns it, or one above does.
    owned: bool,
    spare: Spare,
    /// A budget was lent when the call began.
    budgeted: bool,
    unknown: bool,
    once_spent: bool,
    verdict: Option<Verdict>,
    last_wait: Duration,
    backoff: Duration,
    started: Option<Instant>,
    /// The key that the attempts share.
    key: Option<KeyInScope>,
    /// It was in scope when the call began, so the first attempt takes it from there.
    key_is_outer: bool,
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
    pub(super) fn begin(settings: &Settings, attempt: Attempt, lent: &Lent) -> Self {
        let outer_owns = context::is_owned();
        let key = context::key().map(|key| key.begun_here());
        Self {
            attempt,
            nested: outer_owns && !settings.nested,
            owned: outer_owns,
            spare: Spare::NotMade,
            budgeted: lent.budget.is_some(),
            unknown: false,
            once_spent: false,
            verdict: None,
            last_wait: Duration::ZERO,
            backoff: Duration::ZERO,
            started: settings.observer.is_some().then(clock::now),
            key_is_outer: key.is_some(),
            key,
        }
    }

    /// Whether a retry is possible at all, so that the request has to be copied.
    pub(super) fn may_retry(&self, settings: &Settings) -> bool {
        !self.nested
            && settings.allows_attempt_after(self.attempt.number())
            && settings.switch.mode() != RetryMode::Off
    }

    /// The request was copied, or could not be. A retry that can act owns the call; one over a write without a key
    /// mostly cannot, so that a read below keeps its retries.
    pub(super) fn copied(&mut self, copied: bool, settings: &Settings) {
        self.spare = if copied { Spare::Kept } else { Spare::Impossible };
        let acts = copied
            && self.attempt.effect().is_repeatable()
            && settings.switch.mode() == RetryMode::On;
        self.owned |= acts;
    }

    /// Puts the current attempt in scope.
    pub(super) fn enter(&mut self) -> Scope<'_> {
        if self.nested {
            // The attempt in scope is that of the owner.
            return Scope {
                _attempt: None,
                _key: None,
            };
        }
        let takes_outer_key = self.key_is_outer && self.attempt.number() == 1;
        Scope {
            _attempt: Some(AttemptScope::enter(Some(self.attempt), self.owned)),
            _key: (!takes_outer_key).then(|| Lending::enter(&mut self.key)),
        }
    }

    /// The next attempt begins, and takes its keys from where the first one began.
    pub(super) fn next_attempt(&mut self) {
        self.attempt = self.attempt.next();
        if let Some(key) = &mut self.key {
            *key = key.rewound();
        }
    }

    /// The verdict on the attempt that has just ended.
    pub(super) fn note(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
        if verdict.is_success() {
            self.unknown = false;
        } else if verdict.is_unknown() && self.attempt.effect().is_write() {
            self.unknown = true;
        }
    }

    /// Whether another attempt follows the verdict, and when. The order of the questions is the module's.
    pub(super) fn decide(
        &mut self,
        settings: &Settings,
        verdict: Verdict,
        lent: &Lent,
    ) -> Result<Planned, StopReason> {
        let mode = settings.switch.mode();
        self.check_call(settings, verdict, mode)?;
        if let Some(breaker) = &lent.breaker {
            if !breaker.is_current() {
                return Err(StopReason::BreakerOpen);
            }
            if breaker.is_probe() {
                return Err(StopReason::Probe);
            }
        }
        let wait = self.plan_wait(settings, verdict)?;
        let token = self.withdraw(verdict, mode, lent)?;
        self.once_spent |= verdict.hint().is_some_and(Hint::is_once);
        self.last_wait = wait;
        self.backoff = self.backoff.saturating_add(wait);
        Ok(Planned { wait, token })
    }

    /// What the call itself allows.
    fn check_call(
        &self,
        settings: &Settings,
        verdict: Verdict,
        mode: RetryMode,
    ) -> Result<(), StopReason> {
        let once_again = self.once_spent && verdict.hint().is_some_and(Hint::is_once);
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
        let draw = || settings.random.draw();
        let wait = Wait {
            backoff: settings
                .backoff
                .delay(self.attempt.number(), self.last_wait, draw()),
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
        let remaining = context::deadline()
            .map_or(Duration::MAX, |deadline| deadline.remaining_at(clock::now()));
        wait.within(remaining)
    }

    fn withdraw(
        &self,
        verdict: Verdict,
        mode: RetryMode,
        lent: &Lent,
    ) -> Result<Option<Withdrawal>, StopReason> {
        let Some(budget) = &lent.budget else {
            // A budget that was there when the call began has not been carried along: without it, no retry.
            return if self.budgeted {
                Err(StopReason::BudgetExhausted)
            } else if mode == RetryMode::ObserveOnly {
                Err(StopReason::ObserveOnly)
            } else {
                Ok(None)
            };
        };
        let token = budget
            .try_withdraw(verdict)
            .ok_or(StopReason::BudgetExhausted)?;
        if mode == RetryMode::ObserveOnly {
            // The token goes back: nothing is sent.
            return Err(StopReason::ObserveOnly);
        }
        Ok(Some(token))
    }

    pub(super) const fn is_nested(&self) -> bool {
        self.nested
    }

    /// The call has ended: leaves its report for the layers above and tells the observer.
    pub(super) fn conclude(
        &self,
        settings: &Settings,
        stop: Option<StopReason>,
    ) -> Option<CallReport> {
        let report = self.report(stop)?;
        context::publish(report);
        settings.observe(&report);
        Some(report)
    }

    /// What there is to say of the call so far; nothing before an attempt has ended.
    pub(super) fn report(&self, stop: Option<StopReason>) -> Option<CallReport> {
        Some(CallReport {
            attempt: self.attempt,
            verdict: self.verdict?,
            stop,
            outcome_unknown: self.unknown,
            backoff: self.backoff,
            elapsed: self
                .started
                .map(|started| clock::now().saturating_duration_since(started)),
        })
    }
}

/// The scope of an attempt, until it is dropped.
pub(super) struct Scope<'a> {
    _attempt: Option<AttemptScope>,
    _key: Option<Lending<'a, KeyInScope>>,
}
