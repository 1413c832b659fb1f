//! What follows on an outcome that is not simply returned: the decision, the wait, more attempts.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::config::Config;
use super::events::tell_deposited;
use super::future::{Between, BetweenProj};
use super::ownership::earns;
use super::progress::{Planned, Progress};
use super::{Release, Replay};
use crate::budget::{LentBudget, Withdrawal};
use crate::context::{self, AttemptScope};
use crate::policy::Policy;
use crate::report::StopReason;
use crate::verdict::Verdict;

/// A service that fails at once, retried without a wait, would hold its thread for ever: after this many attempts in one
/// poll, others have their turn.
const FAILURES_A_POLL: u32 = 32;

/// The parts of the future of a call, once it is not simply at its first attempt.
pub(super) struct Call<'a, Req, S: Service<Req>, P, R, D: Release<S::Response>> {
    pub(super) attempt: Pin<&'a mut Option<S::Future>>,
    pub(super) between: Pin<&'a mut Between<D::Future>>,
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
    /// An attempt has ended, and its outcome is not simply returned.
    #[cold]
    #[inline(never)]
    pub(super) fn judged(
        mut self,
        scope: AttemptScope<'_>,
        verdict: Verdict,
        outcome: Result<S::Response, S::Error>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        match self.judge(&scope, verdict, outcome) {
            Some(outcome) => Poll::Ready(outcome),
            None => self.resumed(scope, cx),
        }
    }

    /// Goes on where it stopped.
    #[cold]
    #[inline(never)]
    pub(super) fn resumed(
        mut self,
        mut scope: AttemptScope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        let outcome = self.drive(&mut scope, cx);
        if self.attempt.is_none() {
            // Whatever runs between two attempts, or a service that is not ready, may have left one of its own.
            context::set_has_timer(false);
        }
        if outcome.is_pending() && !matches!(*self.between, Between::Done) {
            self.progress.publish_so_far(self.attempt.is_some());
        }
        outcome
    }

    /// Lets go of losing responses, waits, and makes more attempts.
    fn drive(
        &mut self,
        scope: &mut AttemptScope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        // The first one has brought us here.
        let mut failures = 1_u32;
        loop {
            if let Some(attempt) = self.attempt.as_mut().as_pin_mut() {
                let outcome = ready!(attempt.poll(cx));
                let facts = self.progress.attempt();
                let verdict = self.config.policy.classify(&facts, outcome.as_ref());
                if let Some(outcome) = self.judge(scope, verdict, outcome) {
                    return Poll::Ready(outcome);
                }
                failures = failures.saturating_add(1);
                if failures == FAILURES_A_POLL {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            match self.between.as_mut().project() {
                BetweenProj::Releasing { release } => {
                    ready!(release.poll(cx));
                    self.between.set(Between::Waiting);
                }
                BetweenProj::Waiting => {
                    let asleep = self
                        .progress
                        .pause()
                        .is_some_and(|pause| pause.is_asleep(cx));
                    if asleep || context::is_over() {
                        return Poll::Pending;
                    }
                    if stop_if_moved_on(scope) {
                        self.stopped(scope);
                        return Poll::Pending;
                    }
                    let Some(service) = self.spare else {
                        return Poll::Pending;
                    };
                    if let Err(error) = ready!(service.poll_ready(cx)) {
                        // Terminal, as tower has it.
                        self.done(None);
                        return Poll::Ready(Err(error));
                    }
                    self.start(scope);
                }
                BetweenProj::Nothing | BetweenProj::Done => return Poll::Pending,
            }
        }
    }

    /// Decides on the outcome of an attempt. Where a retry follows, the outcome is let go of here, before the wait;
    /// otherwise it comes back, with its report left wherever it is read.
    fn judge(
        &mut self,
        scope: &AttemptScope<'_>,
        verdict: Verdict,
        mut outcome: Result<S::Response, S::Error>,
    ) -> Option<Result<S::Response, S::Error>> {
        let (progress, config) = (&mut *self.progress, self.config);
        let settings = &config.settings;
        progress.note(verdict);
        progress.tell_finished(settings, verdict);
        if let Some(breaker) = scope.breaker() {
            breaker.attempt_finished(verdict, outcome.is_ok(), progress.attempt().number());
        }
        let mut stop = None;
        if verdict.is_retryable() {
            let copy = self.copy.as_ref();
            let replayable = || copy.is_none_or(|copy| config.replay.is_replayable(copy));
            match progress.decide(settings, verdict, scope, replayable) {
                Ok(planned) => {
                    progress.tell_scheduled(settings, &planned, scope);
                    if let Some(pause) = progress.pause() {
                        *pause = Pause::begin(planned);
                    }
                    let response = outcome.ok();
                    let release = response.and_then(|response| config.release.release(response));
                    self.attempt.set(None);
                    self.between.set(match release {
                        Some(release) => Between::Releasing { release },
                        None => Between::Waiting,
                    });
                    return None;
                }
                Err(reason) => {
                    progress.tell_refused(settings, reason, scope);
                    stop = Some(reason);
                }
            }
        } else if verdict.is_success() && earns(scope.below()) {
            settings.budget(scope, LentBudget::deposit);
            tell_deposited(settings, scope);
        }
        let report = progress.conclude(settings, stop);
        if let (Ok(response), Some(report)) = (&mut outcome, report) {
            config.policy.report(response, &report);
        }
        Some(outcome)
    }

    /// The breaker above answers in our place.
    fn stopped(&mut self, scope: &AttemptScope<'_>) {
        let (settings, reason) = (&self.config.settings, StopReason::BreakerOpen);
        self.progress.tell_refused(settings, reason, scope);
        self.done(Some(reason));
    }

    /// No attempt follows the wait: the token goes back.
    fn done(&mut self, stop: Option<StopReason>) {
        self.between.set(Between::Done);
        if let Some(pause) = self.progress.pause() {
            *pause = Pause::default();
        }
        self.progress.conclude(&self.config.settings, stop);
    }

    /// Starts the next attempt, which spends its token. The last one that is possible takes the request itself.
    fn start(&mut self, scope: &mut AttemptScope<'_>) {
        let (Some(request), Some(mut service)) = (self.copy.take(), self.spare.take()) else {
            return;
        };
        let token = self.progress.pause().and_then(|pause| pause.token.take());
        if let Some(token) = token {
            token.spend();
        }
        let (progress, config) = (&mut *self.progress, self.config);
        progress.next_attempt(scope);
        let copy = progress.copy(&config.settings, scope, || config.replay.replay(&request));
        if let Some(breaker) = scope.breaker() {
            breaker.attempt_started();
        }
        progress.tell_started(&config.settings);
        let attempt = service.call(request);
        *self.copy = copy;
        *self.spare = self.copy.is_some().then_some(service);
        self.between.set(Between::Nothing);
        self.attempt.set(Some(attempt));
    }
}

/// Whether the breaker above has moved on since it let this call in. Our error type has no room for that, but the
/// breaker's own future, which is polling us now, has: it sees the mark and answers in our place.
fn stop_if_moved_on(scope: &AttemptScope<'_>) -> bool {
    match scope.breaker() {
        Some(breaker) if !breaker.is_current() => {
            breaker.stop();
            true
        }
        _ => false,
    }
}

/// What there is between two attempts: the timer of the wait, and the token that goes back unless it is spent.
#[derive(Default)]
pub(super) struct Pause {
    timer: Option<Pin<Box<Sleep>>>,
    token: Option<Withdrawal>,
}

impl Pause {
    /// Its end is fixed here, so that letting go of the losing response does not lengthen it. Zero backoff makes no
    /// timer: a timer of tokio's ends at its next tick at the soonest.
    fn begin(planned: Planned) -> Self {
        Self {
            timer: (!planned.wait.is_zero()).then(|| Box::pin(sleep(planned.wait))),
            token: planned.token,
        }
    }

    /// Whether the wait goes on.
    fn is_asleep(&mut self, cx: &mut Context<'_>) -> bool {
        let asleep = self
            .timer
            .as_mut()
            .is_some_and(|timer| timer.as_mut().poll(cx).is_pending());
        if !asleep {
            self.timer = None;
        }
        asleep
    }
}
