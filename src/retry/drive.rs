//! What follows on an outcome that is not simply returned: the decision, the wait, more attempts.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tower_service::Service;

use super::config::Config;
use super::events::tell_deposited;
use super::facts::Stage;
use super::ownership::earns;
use super::progress::Progress;
use super::{Release, Replay, RetryMode};
use crate::budget::{LentBudget, Withdrawal};
use crate::context::{self, AttemptScope};
use crate::policy::Policy;
use crate::report::{CallReport, StopReason};
use crate::verdict::Verdict;

/// A service that fails at once, retried without a wait, would hold its thread for ever: after this many attempts in one
/// poll, others have their turn.
const FAILURES_A_POLL: u32 = 32;

/// An attempt that has ended, as it has been classified.
pub(super) type Ended<T, E> = (Verdict, Result<T, E>);

/// The parts of the future of a call, once it is not simply at its first attempt.
pub(super) struct Call<'a, Req, S: Service<Req>, P, R, D: Release<S::Response>> {
    pub(super) attempt: Pin<&'a mut Option<S::Future>>,
    pub(super) release: Pin<&'a mut Option<D::Future>>,
    pub(super) copy: &'a mut Option<Req>,
    pub(super) spare: &'a mut Option<S>,
    pub(super) config: &'a Config<P, R, D>,
    pub(super) progress: &'a mut Progress,
}

impl<Req, S, P, R, D> Call<'_, Req, S, P, R, D>
where
    S: Service<Req>,
    P: Policy<Req, S::Response, S::Error>,
    R: Replay<Req>,
    D: Release<S::Response>,
{
    /// Goes on where it stopped, or with an attempt that has ended and whose outcome is not simply returned. So many have
    /// failed in this poll.
    #[cold]
    #[inline(never)]
    pub(super) fn resumed(
        mut self,
        mut scope: AttemptScope<'_>,
        ended: Option<Ended<S::Response, S::Error>>,
        failures: u32,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        scope.give_breaker_back(self.config.settings.breaker.as_ref());
        let outcome = self.drive(&mut scope, ended, failures, cx);
        self.left(outcome)
    }

    /// What the layers above have to know where the call has not ended.
    #[inline]
    pub(super) fn left<T>(&self, outcome: Poll<T>) -> Poll<T> {
        if outcome.is_pending() {
            self.publish_pending();
        }
        outcome
    }

    #[cold]
    fn publish_pending(&self) {
        if self.attempt.is_none() {
            // Whatever runs between two attempts, or a service that is not ready, may have left one of its own.
            context::set_has_timer(false);
        }
        if !self.progress.facts.is_at(Stage::Done) {
            let settings = &self.config.settings;
            self.progress
                .publish_so_far(settings, self.attempt.is_some());
        }
    }

    /// Lets go of losing responses, waits, and makes more attempts.
    fn drive(
        &mut self,
        scope: &mut AttemptScope<'_>,
        mut ended: Option<Ended<S::Response, S::Error>>,
        mut failures: u32,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        loop {
            // Of a retry that follows at once: put away only where something is waited for.
            let mut token = Withdrawal::NOTHING;
            let judged = ended.is_some();
            if let Some((verdict, outcome)) = ended.take() {
                match self.judge(scope, verdict, outcome) {
                    Err(outcome) => return Poll::Ready(outcome),
                    Ok(of_this_retry) => token = of_this_retry,
                }
                failures = failures.saturating_add(1);
                if failures == FAILURES_A_POLL {
                    cx.waker().wake_by_ref();
                    self.progress.waits.keep(token);
                    return Poll::Pending;
                }
            }
            if let Some(release) = self.release.as_mut().as_pin_mut() {
                ready!(release.poll(cx));
                self.release.set(None);
            }
            match self.after_wait(scope, judged, cx) {
                Then::Start => {
                    // It has been put away where there was something to wait for.
                    if token.is_nothing() {
                        token = self.progress.waits.take_token();
                    }
                    token.spend();
                    self.start(scope, self.config.settings.switch.mode());
                }
                then => return self.not_started(scope, then, token),
            }
            let (verdict, outcome) = ready!(self.attempted(cx));
            if verdict.is_success() && self.progress.is_brief(&self.config.settings) {
                return Poll::Ready(self.succeeded(scope, outcome));
            }
            ended = Some((verdict, outcome));
        }
    }

    /// No attempt follows, in this poll or at all.
    #[cold]
    pub(super) fn not_started(
        &mut self,
        scope: &AttemptScope<'_>,
        then: Then<S::Error>,
        token: Withdrawal,
    ) -> Poll<Result<S::Response, S::Error>> {
        match then {
            Then::Start | Then::Later => {
                self.progress.waits.keep(token);
                Poll::Pending
            }
            Then::Stop => {
                drop(token);
                self.stopped(scope);
                Poll::Pending
            }
            Then::Fail(error) => {
                drop(token);
                // Terminal, as tower has it.
                self.done(None);
                Poll::Ready(Err(error))
            }
        }
    }

    /// The attempt that has just been started.
    #[inline(always)]
    pub(super) fn attempted(&mut self, cx: &mut Context<'_>) -> Poll<Ended<S::Response, S::Error>> {
        let Some(attempt) = self.attempt.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let outcome = ready!(attempt.poll(cx));
        let facts = self.progress.attempt();
        let verdict = self.config.policy.classify(&facts, outcome.as_ref());
        Poll::Ready((verdict, outcome))
    }

    /// What follows on a wait. Where an attempt has been judged in this poll, the time that is left has just been looked at.
    #[inline(always)]
    pub(super) fn after_wait(
        &mut self,
        scope: &AttemptScope<'_>,
        judged: bool,
        cx: &mut Context<'_>,
    ) -> Then<S::Error> {
        let is_waiting = self.progress.facts.is_at(Stage::Waiting);
        if !is_waiting || !self.progress.waits.are_over(cx) || (!judged && context::is_over()) {
            return Then::Later;
        }
        if stop_if_moved_on(scope) {
            return Then::Stop;
        }
        match self.spare.as_mut().map(|service| service.poll_ready(cx)) {
            Some(Poll::Ready(Ok(()))) => Then::Start,
            Some(Poll::Ready(Err(error))) => Then::Fail(error),
            Some(Poll::Pending) | None => Then::Later,
        }
    }

    /// The retries have helped.
    #[inline(always)]
    pub(super) fn succeeded(
        &self,
        scope: &AttemptScope<'_>,
        mut outcome: Result<S::Response, S::Error>,
    ) -> Result<S::Response, S::Error> {
        let (progress, config) = (&*self.progress, self.config);
        progress.succeed(&config.settings, scope);
        if let Ok(response) = &mut outcome {
            let report = CallReport::success(progress.attempt());
            config.policy.report(response, &report);
        }
        outcome
    }

    /// Decides on the outcome of an attempt. Where a retry follows, the outcome is let go of here, before the wait, and
    /// the token of a retry at once comes back; otherwise the outcome does, with its report left wherever it is read.
    fn judge(
        &mut self,
        scope: &AttemptScope<'_>,
        verdict: Verdict,
        outcome: Result<S::Response, S::Error>,
    ) -> Result<Withdrawal, Result<S::Response, S::Error>> {
        let settings = &self.config.settings;
        self.progress.note(verdict);
        let progress = &*self.progress;
        if settings.is_watched() {
            progress.tell_finished(settings, verdict);
        }
        if let Some(breaker) = scope.breaker() {
            breaker.attempt_finished(verdict, outcome.is_ok(), progress.attempt().number());
        }
        let mut stop = None;
        if verdict.is_retryable() {
            match progress.decide(settings, verdict, scope, || self.is_replayable()) {
                Ok(planned) => {
                    if settings.is_watched() {
                        self.progress.tell_scheduled(settings, &planned, scope);
                    }
                    let token = self.progress.waits.begin(planned.wait, planned.token);
                    return Ok(self.let_go(outcome, token));
                }
                Err(reason) => stop = Some(reason),
            }
        } else if verdict.is_success() && earns(scope.below()) {
            settings.budget(scope, LentBudget::deposit);
            tell_deposited(settings, scope);
        }
        Err(self.concluded(scope, outcome, stop))
    }

    /// Whether there is no copy that could not be sent.
    #[inline(always)]
    pub(super) fn is_replayable(&self) -> bool {
        let copy = self.copy.as_ref();
        copy.is_none_or(|copy| self.config.replay.is_replayable(copy))
    }

    /// Lets go of the outcome that a retry replaces. The token comes back unless that has to be waited for.
    #[inline(always)]
    pub(super) fn let_go(
        &mut self,
        outcome: Result<S::Response, S::Error>,
        token: Withdrawal,
    ) -> Withdrawal {
        let response = outcome.ok();
        let release = response.and_then(|response| self.config.release.release(response));
        self.attempt.set(None);
        self.progress.facts = self.progress.facts.at(Stage::Waiting);
        if release.is_none() {
            return token;
        }
        self.progress.waits.keep(token);
        self.release.set(release);
        Withdrawal::NOTHING
    }

    /// The outcome is the call's, with its report left wherever it is read.
    #[cold]
    pub(super) fn concluded(
        &mut self,
        scope: &AttemptScope<'_>,
        mut outcome: Result<S::Response, S::Error>,
        stop: Option<StopReason>,
    ) -> Result<S::Response, S::Error> {
        let (progress, config) = (&mut *self.progress, self.config);
        let settings = &config.settings;
        if let Some(reason) = stop {
            progress.tell_refused(settings, reason, scope);
        }
        let report = progress.conclude(settings, stop);
        if let (Ok(response), Some(report)) = (&mut outcome, report) {
            config.policy.report(response, &report);
        }
        outcome
    }

    /// The breaker above answers in our place.
    fn stopped(&mut self, scope: &AttemptScope<'_>) {
        let (settings, reason) = (&self.config.settings, StopReason::BreakerOpen);
        self.progress.tell_refused(settings, reason, scope);
        self.done(Some(reason));
    }

    /// No attempt follows the wait: the token goes back.
    fn done(&mut self, stop: Option<StopReason>) {
        self.progress.facts = self.progress.facts.at(Stage::Done);
        self.progress.waits.end();
        self.progress.conclude(&self.config.settings, stop);
    }

    /// Starts the next attempt. The last one that is possible takes the request itself.
    #[inline(always)]
    pub(super) fn start(&mut self, scope: &mut AttemptScope<'_>, mode: RetryMode) {
        let (Some(request), Some(mut service)) = (self.copy.take(), self.spare.take()) else {
            return;
        };
        let (progress, config) = (&mut *self.progress, self.config);
        progress.next_attempt(scope);
        let copy = progress.copy(&config.settings, mode, scope, || {
            config.replay.replay(&request)
        });
        if let Some(breaker) = scope.breaker() {
            breaker.attempt_started();
        }
        if config.settings.is_watched() {
            progress.tell_started(&config.settings);
        }
        let attempt = service.call(request);
        *self.copy = copy;
        *self.spare = self.copy.is_some().then_some(service);
        progress.facts = progress.facts.at(Stage::Attempting);
        self.attempt.set(Some(attempt));
    }
}

/// Whether the breaker above has moved on since it let this call in. Our error type has no room for that, but the
/// breaker's own future, which is polling us now, has: it sees the mark and answers in our place.
#[inline]
fn stop_if_moved_on(scope: &AttemptScope<'_>) -> bool {
    match scope.breaker() {
        Some(breaker) if !breaker.is_current() => {
            breaker.stop();
            true
        }
        _ => false,
    }
}

/// What follows on a wait.
pub(super) enum Then<E> {
    Start,
    Later,
    /// The breaker above has moved on.
    Stop,
    /// The service will never be ready.
    Fail(E),
}
