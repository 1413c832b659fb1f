//! What a call has been through.

use super::RetryMode;
use super::config::Settings;
use super::facts::{Facts, Spare};
use super::failed::Failed;
use super::ownership::{earns, has_repeated};
use super::started::Started;
use super::waits::Waits;
use crate::attempt::Attempt;
use crate::budget::LentBudget;
use crate::context::{self, AttemptScope, Frame};
use crate::report::{CallReport, StopReason};
use crate::verdict::Verdict;

/// The state of a call that outlives its attempts.
pub(super) struct Progress {
    pub(super) facts: Facts,
    /// When the call began, where an observer wants to know and until it has heard of its end.
    pub(super) started: Started,
    /// Most calls never need them.
    pub(super) waits: Waits,
}

impl Progress {
    /// A call begins whose first attempt this is, whose request has been copied, and which nobody watches.
    #[inline]
    pub(super) const fn begin(outer: Frame, attempt: Attempt) -> Self {
        Self {
            facts: Facts::begin(attempt, outer),
            started: Started::UNWATCHED,
            waits: Waits::NONE,
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
        let (copy, spare, owns) = copied(settings, settings.switch.mode(), attempt, below, copy);
        let begun = Self::begin(outer, attempt);
        let facts = if below.is_nested() {
            begun.facts.nested(below)
        } else {
            begun.facts
        };
        let progress = Self {
            facts: facts.with_spare(spare),
            started: if settings.is_watched() {
                Started::now(settings.built)
            } else {
                Started::UNWATCHED
            },
            ..begun
        };
        (progress, if owns { below.owned() } else { below }, copy)
    }

    /// Copies the request for the attempt after the one that begins.
    pub(super) fn copy<Req>(
        &mut self,
        settings: &Settings,
        mode: RetryMode,
        scope: &mut AttemptScope<'_>,
        copy: impl FnOnce() -> Option<Req>,
    ) -> Option<Req> {
        let (copy, spare, owns) = copied(settings, mode, self.attempt(), scope.below(), copy);
        self.facts = self.facts.with_spare(spare);
        if owns && !scope.below().is_owned() {
            scope.own();
        }
        copy
    }

    /// The current attempt.
    #[inline]
    pub(super) const fn attempt(&self) -> Attempt {
        self.facts.attempt()
    }

    #[inline]
    pub(super) const fn number_in_scope(&self) -> u32 {
        self.facts.number()
    }

    /// The next attempt begins.
    #[inline(always)]
    pub(super) fn next_attempt(&mut self, scope: &mut AttemptScope<'_>) {
        self.facts = self.facts.next();
        scope.next(scope.below().at(self.attempt()));
    }

    /// The verdict on the attempt that has just ended.
    #[inline]
    pub(super) fn note(&mut self, verdict: Verdict) {
        if verdict.is_success() && !self.facts.has_failed() {
            return;
        }
        self.note_failed(verdict);
        self.waits.note(verdict.hint());
    }

    /// The same but for the hint.
    #[inline(always)]
    pub(super) fn note_failed(&mut self, verdict: Verdict) {
        let may_have_written = || verdict.is_unknown() && self.attempt().effect().is_write();
        // Another retry below may have seen what its last outcome does not tell.
        let unknown = !verdict.is_success()
            && (self.facts.is_unknown()
                || may_have_written()
                || context::has_published(CallReport::outcome_unknown));
        self.facts = self.facts.after(Failed::of(verdict), unknown);
    }

    /// An attempt has succeeded, and there is no more to say of the call.
    #[inline(always)]
    pub(super) fn succeed(&self, settings: &Settings, scope: &AttemptScope<'_>) {
        if let Some(breaker) = scope.breaker() {
            breaker.succeeded(settings.breaker.as_ref(), self.attempt().number());
        }
        let below = scope.below();
        if below.is_own() {
            settings.budget(scope, LentBudget::deposit);
            context::publish_success_in(below);
        } else {
            self.succeed_unowned(settings, scope);
        }
    }

    #[cold]
    fn succeed_unowned(&self, settings: &Settings, scope: &AttemptScope<'_>) {
        if earns(scope.below()) {
            settings.budget(scope, LentBudget::deposit);
        }
        context::publish_success(self.attempt());
    }

    /// Whether nothing has failed and nobody wants to know: what most calls are from their beginning to their end.
    #[inline]
    pub(super) const fn is_untroubled(&self, settings: &Settings) -> bool {
        !self.facts.has_failed() && settings.watch.is_none()
    }

    /// Whether a success at this attempt is all that there is to say of the call.
    #[inline]
    pub(super) const fn is_brief(&self, settings: &Settings) -> bool {
        !self.waits.is_some() && settings.watch.is_none()
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
            context::publish_success(self.attempt());
            return None;
        }
        let report = self.report(settings, stop);
        // The report of a retry below that has repeated the call says more, and keeps others from doing so.
        let says_more = stop != Some(StopReason::Nested) || !has_repeated();
        if says_more {
            context::publish(report);
        }
        settings.tell(&|observer, dependency| observer.call_finished(dependency, &report));
        self.started = Started::UNWATCHED;
        (says_more && self.facts.has_failed()).then_some(report)
    }

    /// A deadline above may end the call in this poll: it learns what has failed so far.
    #[inline]
    pub(super) fn publish_so_far(&self, settings: &Settings, attempting: bool) {
        if self.facts.has_failed() {
            context::publish(self.report_so_far(settings, attempting));
        }
    }

    /// The report where the call ends here. An attempt of a write that is cut off may have had its effect.
    pub(super) fn report_so_far(&self, settings: &Settings, attempting: bool) -> CallReport {
        let mut report = self.report(settings, None);
        report.outcome_unknown |= attempting && self.attempt().effect().is_write();
        report
    }

    fn report(&self, settings: &Settings, stop: Option<StopReason>) -> CallReport {
        let mut report = CallReport {
            elapsed: self.started.elapsed(settings.built),
            ..CallReport::success(self.attempt())
        };
        if let Some(failed) = self.facts.failed() {
            report.verdict = failed.verdict();
            report.outcome_unknown = self.facts.is_unknown();
        }
        self.waits.add_to(&mut report);
        report.stop = stop;
        report
    }
}

/// Copies the request, where a retry is possible at all, and says whether this layer then owns the call: a retry that can
/// act does; one over a write without a key mostly cannot, so that a read below keeps its retries.
fn copied<Req>(
    settings: &Settings,
    mode: RetryMode,
    attempt: Attempt,
    below: Frame,
    copy: impl FnOnce() -> Option<Req>,
) -> (Option<Req>, Spare, bool) {
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
