use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::config::Config;
use super::events::tell_deposited;
use super::progress::{Planned, Progress};
use super::{DropResponse, Release, Replay};
use crate::budget::{LentBudget, Withdrawal};
use crate::context::{self, AttemptScope, SharedKey};
use crate::policy::Policy;
use crate::report::StopReason;
use crate::verdict::Verdict;

pin_project! {
    /// The future of a [`RetryService`](super::RetryService).
    ///
    /// Dropping it drops the attempt, the losing response or the wait it is in; the token of a retry that had not
    /// started goes back.
    #[must_use = "futures do nothing unless polled"]
    pub struct RetryFuture<S, P, R, Req, D = DropResponse>
    where
        S: Service<Req>,
        D: Release<S::Response>,
    {
        #[pin]
        state: State<S::Future, D::Future>,
        // What the next attempt is made of: none where no retry can be made.
        spare: Option<(Req, S)>,
        config: Arc<Config<P, R, D>>,
        progress: Progress,
        key: SharedKey,
    }

    impl<S, P, R, Req, D> PinnedDrop for RetryFuture<S, P, R, Req, D>
    where
        S: Service<Req>,
        D: Release<S::Response>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let attempting = matches!(*this.state, State::Attempting { .. });
            this.progress.abandon(&this.config.settings, attempting);
        }
    }
}

/// A service that fails at once, retried without a wait, would hold its thread for ever: after this many attempts in one
/// poll, others have their turn.
const FAILURES_A_POLL: u32 = 32;

pin_project! {
    #[project = StateProj]
    enum State<F, D> {
        // Polling the future of an attempt.
        Attempting {
            #[pin]
            inner: F,
        },
        // Letting go of the response that lost. The timer of the wait already runs.
        Releasing {
            #[pin]
            release: D,
            pause: Pause,
        },
        // Sleeping before the next attempt, and then, without a timer, waiting for the service to be ready for it.
        Waiting { pause: Pause },
        // The breaker above answers in our place, or the outcome has been returned.
        Done,
    }
}

/// What there is between two attempts: the timer of the wait, and the token that goes back unless it is spent.
#[derive(Default)]
struct Pause {
    timer: Option<Pin<Box<Sleep>>>,
    token: Option<Withdrawal>,
}

impl<S, P, R, Req, D> RetryFuture<S, P, R, Req, D>
where
    S: Service<Req>,
    D: Release<S::Response>,
{
    pub(super) const fn attempting(
        inner: S::Future,
        spare: Option<(Req, S)>,
        config: Arc<Config<P, R, D>>,
        progress: Progress,
        key: SharedKey,
    ) -> Self {
        Self {
            state: State::Attempting { inner },
            spare,
            config,
            progress,
            key,
        }
    }
}

impl<S, P, R, Req, D> Future for RetryFuture<S, P, R, Req, D>
where
    S: Service<Req>,
    P: Policy<Req, S::Response, S::Error>,
    R: Replay<Req>,
    D: Release<S::Response>,
{
    type Output = Result<S::Response, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut scope = this.progress.enter(this.key);
        if let StateProj::Attempting { inner } = this.state.as_mut().project() {
            match inner.poll(cx) {
                Poll::Ready(outcome) => {
                    let attempt = this.progress.attempt();
                    let verdict = this.config.policy.classify(&attempt, outcome.as_ref());
                    if verdict.is_success() && this.progress.is_untroubled(&this.config.settings) {
                        this.progress.succeed(&scope);
                        return Poll::Ready(outcome);
                    }
                    let copy = this.spare.as_ref().map(|(copy, _)| copy);
                    match judge(this.config, this.progress, &scope, copy, verdict, outcome) {
                        Ok(next) => this.state.set(next),
                        Err(outcome) => return Poll::Ready(outcome),
                    }
                }
                Poll::Pending => {
                    this.progress.publish_so_far(true);
                    return Poll::Pending;
                }
            }
        }
        // Most calls have ended by now.
        let outcome = drive(
            this.state.as_mut(),
            this.spare,
            this.config,
            this.progress,
            &mut scope,
            cx,
        );
        if outcome.is_pending() && !matches!(*this.state, State::Done) {
            let attempting = matches!(*this.state, State::Attempting { .. });
            this.progress.publish_so_far(attempting);
        }
        outcome
    }
}

/// Lets go of losing responses, waits, and makes more attempts.
#[cold]
fn drive<S, P, R, D, Req>(
    mut state: Pin<&mut State<S::Future, D::Future>>,
    spare: &mut Option<(Req, S)>,
    config: &Config<P, R, D>,
    progress: &mut Progress,
    scope: &mut AttemptScope<'_>,
    cx: &mut Context<'_>,
) -> Poll<Result<S::Response, S::Error>>
where
    S: Service<Req>,
    P: Policy<Req, S::Response, S::Error>,
    R: Replay<Req>,
    D: Release<S::Response>,
{
    // The first one has brought us here.
    let mut failures = 1_u32;
    loop {
        match state.as_mut().project() {
            StateProj::Attempting { inner } => {
                let outcome = ready!(inner.poll(cx));
                let attempt = progress.attempt();
                let verdict = config.policy.classify(&attempt, outcome.as_ref());
                let copy = spare.as_ref().map(|(copy, _)| copy);
                match judge(config, progress, scope, copy, verdict, outcome) {
                    Ok(next) => state.set(next),
                    Err(outcome) => return Poll::Ready(outcome),
                }
                failures = failures.saturating_add(1);
                if failures == FAILURES_A_POLL {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            StateProj::Releasing { release, pause } => {
                ready!(release.poll(cx));
                let pause = std::mem::take(pause);
                state.set(State::Waiting { pause });
            }
            StateProj::Waiting { pause } => {
                if pause.is_asleep(cx) || context::is_over() {
                    return Poll::Pending;
                }
                if stop_if_moved_on(scope) {
                    // The token goes back with the state.
                    state.set(State::Done);
                    let reason = StopReason::BreakerOpen;
                    progress.tell_refused(&config.settings, reason, scope);
                    progress.conclude(&config.settings, Some(reason));
                    return Poll::Pending;
                }
                let Some((_, service)) = spare else {
                    return Poll::Pending;
                };
                if let Err(error) = ready!(service.poll_ready(cx)) {
                    // Terminal, as tower has it; the token goes back with the state.
                    state.set(State::Done);
                    progress.conclude(&config.settings, None);
                    return Poll::Ready(Err(error));
                }
                let token = pause.token.take();
                match start(config, progress, scope, spare, token) {
                    Some(inner) => state.set(State::Attempting { inner }),
                    None => return Poll::Pending,
                }
            }
            StateProj::Done => return Poll::Pending,
        }
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

/// Decides on the outcome of an attempt. Where a retry follows, the outcome is let go of here, before the wait;
/// otherwise it comes back with its report left wherever it is read.
#[cold]
fn judge<F, P, R, D, Req, Res, E>(
    config: &Config<P, R, D>,
    progress: &mut Progress,
    scope: &AttemptScope<'_>,
    copy: Option<&Req>,
    verdict: Verdict,
    mut outcome: Result<Res, E>,
) -> Result<State<F, D::Future>, Result<Res, E>>
where
    P: Policy<Req, Res, E>,
    R: Replay<Req>,
    D: Release<Res>,
{
    let settings = &config.settings;
    progress.note(verdict);
    progress.tell_finished(settings, verdict);
    if let Some(breaker) = scope.breaker() {
        breaker.attempt_finished(verdict, outcome.is_ok(), progress.attempt().number());
    }
    let mut stop = None;
    if verdict.is_retryable() {
        let replayable = || copy.is_none_or(|copy| config.replay.is_replayable(copy));
        match progress.decide(settings, verdict, scope, replayable) {
            Ok(planned) => {
                progress.tell_scheduled(settings, &planned, scope);
                let pause = Pause::begin(planned);
                let response = outcome.ok();
                let release = response.and_then(|response| config.release.release(response));
                return Ok(match release {
                    Some(release) => State::Releasing { release, pause },
                    None => State::Waiting { pause },
                });
            }
            Err(reason) => {
                progress.tell_refused(settings, reason, scope);
                stop = Some(reason);
            }
        }
    } else if verdict.is_success() && !progress.is_nested() {
        scope.budget(LentBudget::deposit);
        tell_deposited(settings, scope);
    }
    let report = progress.conclude(settings, stop);
    if let (Ok(response), Some(report)) = (&mut outcome, report) {
        config.policy.report(response, &report);
    }
    Err(outcome)
}

/// Starts the next attempt, which spends its token. The last one that is possible takes the request itself.
fn start<S, P, R, D, Req>(
    config: &Config<P, R, D>,
    progress: &mut Progress,
    scope: &mut AttemptScope<'_>,
    spare: &mut Option<(Req, S)>,
    token: Option<Withdrawal>,
) -> Option<S::Future>
where
    S: Service<Req>,
    R: Replay<Req>,
{
    let (request, mut service) = spare.take()?;
    if let Some(token) = token {
        token.spend();
    }
    progress.next_attempt(scope);
    let copy = progress.copy(&config.settings, || config.replay.replay(&request));
    if let Some(breaker) = scope.breaker() {
        breaker.attempt_started();
    }
    progress.tell_started(&config.settings);
    let inner = service.call(request);
    *spare = copy.map(|copy| (copy, service));
    Some(inner)
}

impl<S, P, R, Req, D> fmt::Debug for RetryFuture<S, P, R, Req, D>
where
    S: Service<Req>,
    D: Release<S::Response>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture").finish_non_exhaustive()
    }
}
