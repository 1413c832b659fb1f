//! The short way from a failure to a success: what most retries without a wait are.

use std::task::{Context, Poll};

use tower_service::Service;

use super::drive::{Call, Ended, Then};
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
        let settings = &self.config.settings;
        if !verdict.is_retryable()
            || verdict.has_hint()
            || self.progress.waits.is_some()
            || !settings.retries_at_once()
        {
            return self.resumed(scope, Some((verdict, outcome)), 0, cx);
        }
        scope.give_breaker_back(settings.breaker.as_ref());
        self.progress.note_failed(verdict);
        let progress = &*self.progress;
        if let Some(breaker) = scope.breaker() {
            breaker.attempt_finished(verdict, outcome.is_ok(), progress.attempt().number());
        }
        let decided = progress.decide_at_once(settings, verdict, &scope, || self.is_replayable());
        let token = match decided {
            Ok(token) => self.let_go(outcome, token),
            Err(reason) => return Poll::Ready(self.concluded(&scope, outcome, Some(reason))),
        };
        if self.release.is_some() {
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
