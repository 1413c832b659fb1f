//! What the observer of a retry hears.

use super::config::Settings;
use super::decide::Planned;
use super::progress::Progress;
use super::started::Started;
use crate::attempt::Attempt;
use crate::budget::LentBudget;
use crate::context::AttemptScope;
use crate::observer::{AttemptFinished, RetryScheduled};
use crate::report::{CallReport, StopReason};
use crate::verdict::Verdict;

/// The inner service is about to be called.
pub(super) fn tell_attempt(settings: &Settings, attempt: Attempt) {
    settings.tell(&|observer, dependency| observer.attempt_started(dependency, &attempt));
}

impl Progress {
    /// The inner service is about to be called again.
    pub(super) fn tell_started(&mut self, settings: &Settings) {
        if let Some(elapsed) = self.started.elapsed(settings.built) {
            self.waits.attempt_begins(elapsed);
        }
        tell_attempt(settings, self.attempt());
    }

    /// An attempt has ended and been classified.
    pub(super) fn tell_finished(&self, settings: &Settings, verdict: Verdict) {
        let Some(elapsed) = self.started.elapsed(settings.built) else {
            return;
        };
        let finished = AttemptFinished {
            attempt: self.attempt(),
            verdict,
            elapsed: elapsed.saturating_sub(self.waits.attempt_began()),
        };
        settings.tell(&|observer, dependency| observer.attempt_finished(dependency, &finished));
    }

    /// A retry is going to be made.
    pub(super) fn tell_scheduled(
        &self,
        settings: &Settings,
        planned: &Planned,
        scope: &AttemptScope<'_>,
    ) {
        let retry = RetryScheduled {
            after: self.attempt(),
            delay: planned.wait,
            by: planned.by,
        };
        settings.tell(&|observer, dependency| {
            if let Some(balance) = settings.budget(scope, LentBudget::balance) {
                observer.budget_withdrawn(dependency, balance);
            }
            observer.retry_scheduled(dependency, &retry);
        });
    }

    /// A retry that the verdict allowed is not made.
    pub(super) fn tell_refused(
        &self,
        settings: &Settings,
        reason: StopReason,
        scope: &AttemptScope<'_>,
    ) {
        let attempt = self.attempt();
        settings.tell(&|observer, dependency| {
            if reason == StopReason::BudgetExhausted {
                let balance = settings.budget(scope, LentBudget::balance).unwrap_or(0.0);
                observer.budget_exhausted(dependency, balance);
            }
            observer.retry_refused(dependency, &attempt, reason);
        });
    }

    /// The call is dropped. Nobody hears of it twice.
    #[inline]
    pub(super) fn abandon(&mut self, settings: &Settings, attempting: bool) {
        if self.started.is_watched() {
            self.tell_cancelled(settings, attempting);
        }
    }

    #[cold]
    fn tell_cancelled(&mut self, settings: &Settings, attempting: bool) {
        let report = CallReport {
            cancelled: true,
            ..self.report_so_far(settings, attempting)
        };
        self.started = Started::UNWATCHED;
        settings.tell(&|observer, dependency| observer.call_finished(dependency, &report));
    }
}

/// A success has earned its part of a token.
pub(super) fn tell_deposited(settings: &Settings, scope: &AttemptScope<'_>) {
    settings.tell(&|observer, dependency| {
        if let Some(balance) = settings.budget(scope, LentBudget::balance) {
            observer.budget_deposited(dependency, balance);
        }
    });
}
