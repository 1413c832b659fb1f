//! The short way from a failure to a success: what most retries without a wait are.

use std::task::{Context, Poll};

use tower_service::Service;

use super::drive::{Call, Ended, Then};
use super::facts::Stage;
use super::{Release, Replay, RetryMode};
use crate::context::AttemptScope;
use crate::policy::Policy;

impl<Req, S, P, R, D> Call<'_, Req, S, P, R, D>
where
    S: Service<Req>,
    P: Policy<Req, S::Response, S::Error>,
    R: Replay<Req>,
    D: Release<S::Response>,
{
    /// An attempt has ended whose outcome is not simply returned. A retry that follows at once and helps is made here, out of
    /// the parts of the loop that waits and tells observers, and keeps what it knows from one turn to the next.
    #[cold]
    #[inline(never)]
    pub(super) fn ended(
        mut self,
        mut scope: AttemptScope<'_>,
        (verdict, outcome): Ended<S::Response, S::Error>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        let (progress, config) = (&mut *self.progress, self.config);
        let settings = &config.settings;
        if !verdict.is_retryable()
            || verdict.has_hint()
            || progress.waits.is_some()
            || !settings.retries_at_once()
        {
            return self.resumed(scope, Some((verdict, outcome)), 0, cx);
        }
        scope.give_breaker_back(settings.breaker.as_ref());
        progress.note_failed(verdict);
        if let Some(breaker) = scope.breaker() {
            breaker.attempt_finished(verdict, outcome.is_ok(), progress.attempt().number());
        }
        let copy = self.copy.as_ref();
        let replayable = || copy.is_none_or(|copy| config.replay.is_replayable(copy));
        let token = match progress.decide_at_once(settings, verdict, &scope, replayable) {
            Ok(token) => token,
            Err(reason) => return Poll::Ready(self.concluded(&scope, outcome, Some(reason))),
        };
        let release = outcome
            .ok()
            .and_then(|response| config.release.release(response));
        self.attempt.set(None);
        progress.facts = progress.facts.at(Stage::Waiting);
        if release.is_some() {
            self.release.set(release);
            progress.waits.keep(token);
            return self.resumed(scope, None, 1, cx);
        }
        match self.after_wait(&scope, true, cx) {
            Then::Start => {
                token.spend();
                self.start(&mut scope, RetryMode::On);
            }
            then => {
                let outcome = self.not_started(&scope, then, token);
                return self.left(outcome);
            }
        }
        let Poll::Ready((verdict, outcome)) = self.attempted(cx) else {
            return self.left(Poll::Pending);
        };
        if verdict.is_success() {
            return Poll::Ready(self.succeeded(&scope, outcome));
        }
        self.resumed(scope, Some((verdict, outcome)), 1, cx)
    }
}
