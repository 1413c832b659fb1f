use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::config::Config;
use super::drive::Call;
use super::progress::Progress;
use super::{DropResponse, Release, Replay};
use crate::context::{AttemptScope, Below};
use crate::policy::Policy;

pin_project! {
    /// The future of a [`RetryService`](super::RetryService).
    ///
    /// Dropping it drops the attempt, the losing response or the wait it is in; the token of a retry that had not
    /// started goes back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::retry::RetryFuture;
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
    /// let mut service = RetryLayer::new(Effect::Read).layer(inner);
    /// let future: RetryFuture<_, _, _, _> = service.ready().await?.call(7);
    /// assert_eq!(future.await?, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct RetryFuture<S, P, R, Req, D = DropResponse>
    where
        S: Service<Req>,
        D: Release<S::Response>,
    {
        // None while no attempt is under way.
        #[pin]
        attempt: Option<S::Future>,
        // Letting go of the response that lost. The timer of the wait already runs.
        #[pin]
        release: Option<D::Future>,
        // What the next attempt is made of: none where no retry can be made.
        copy: Option<Req>,
        spare: Option<S>,
        config: Arc<Config<P, R, D>>,
        progress: Progress,
        below: Below,
    }

    impl<S, P, R, Req, D> PinnedDrop for RetryFuture<S, P, R, Req, D>
    where
        S: Service<Req>,
        D: Release<S::Response>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.progress.abandon(&this.config.settings, this.attempt.is_some());
        }
    }
}

impl<S, P, R, Req, D> RetryFuture<S, P, R, Req, D>
where
    S: Service<Req>,
    D: Release<S::Response>,
{
    #[inline(always)]
    pub(super) fn attempting(
        attempt: S::Future,
        (copy, spare): (Option<Req>, Option<S>),
        config: Arc<Config<P, R, D>>,
        progress: Progress,
        below: Below,
    ) -> Self {
        Self {
            attempt: Some(attempt),
            release: None,
            copy,
            spare,
            config,
            progress,
            below,
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

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let scope = AttemptScope::enter(this.below, this.progress.number_in_scope());
        let Some(attempt) = this.attempt.as_mut().as_pin_mut() else {
            return Call {
                attempt: this.attempt,
                release: this.release,
                copy: this.copy,
                spare: this.spare,
                config: this.config,
                progress: this.progress,
            }
            .resumed(scope, None, 0, cx);
        };
        let Poll::Ready(outcome) = attempt.poll(cx) else {
            let settings = &this.config.settings;
            this.progress.publish_so_far(settings, true);
            scope.give_breaker_back(settings.breaker.as_ref());
            return Poll::Pending;
        };
        let facts = this.progress.attempt();
        let verdict = this.config.policy.classify(&facts, outcome.as_ref());
        if verdict.is_success() && this.progress.is_untroubled(&this.config.settings) {
            this.progress.succeed(&this.config.settings, &scope);
            return Poll::Ready(outcome);
        }
        // Most calls have ended by now.
        Call {
            attempt: this.attempt,
            release: this.release,
            copy: this.copy,
            spare: this.spare,
            config: this.config,
            progress: this.progress,
        }
        .ended(scope, (verdict, outcome), cx)
    }
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
