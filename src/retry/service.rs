use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::config::Config;
use super::events::tell_attempt;
use super::progress::Progress;
use super::{DropResponse, Release, Replay, RetryFuture};
use crate::attempt::Attempt;
use crate::context::{self, Below, CallScope, Frame, SharedKey};
use crate::effect::Effect;
use crate::policy::{Policy, first_attempt};

/// Retries the calls of a service. See the [module](crate::retry).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::retry::{CloneRequest, RetryService};
/// use tower_composure::{Effect, RetryLayer};
///
/// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
/// let service: RetryService<_, Effect, CloneRequest> = RetryLayer::new(Effect::Read).layer(inner);
/// assert_eq!(service.oneshot(7).await?, 7);
/// # Ok(()) }
/// ```
pub struct RetryService<S, P, R, D = DropResponse> {
    inner: S,
    config: Arc<Config<P, R, D>>,
}

impl<S, P, R, D> RetryService<S, P, R, D> {
    pub(super) const fn new(inner: S, config: Arc<Config<P, R, D>>) -> Self {
        Self { inner, config }
    }
}

impl<S, P, R, D, Req> Service<Req> for RetryService<S, P, R, D>
where
    S: Service<Req> + Clone,
    P: Policy<Req, S::Response, S::Error>,
    R: Replay<Req>,
    D: Release<S::Response>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RetryFuture<S, P, R, Req, D>;

    #[inline(always)]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        let outer = context::frame();
        let attempt = self.config.attempt(&request);
        if !outer.is_plain() || !self.config.settings.is_plain() {
            return self.call_slowly(outer, attempt, true, request);
        }
        // Stays where it is made until it is in the future: a large request is dear to move.
        let copy = self.config.replay.replay(&request);
        if copy.is_none() {
            return self.call_slowly(outer, attempt, false, request);
        }
        // The instance that is ready makes the first attempt; its clone is polled ready before each of the others.
        let spare = Some(self.inner.clone());
        let progress = Progress::begin(outer, attempt);
        let scope = CallScope::begin(outer, Frame::below_plain(attempt));
        let inner = self.inner.call(request);
        let below = scope.below();
        match scope.end() {
            None => self.attempting(inner, (copy, spare), progress, below),
            Some(scope) => self.attempting_with_minted(inner, (copy, spare), progress, scope),
        }
    }
}

impl<S, P, R, D> RetryService<S, P, R, D> {
    /// Where another retry owns the call, or a breaker or a key is in scope, or somebody watches, or no retry can be made.
    #[cold]
    fn call_slowly<Req>(
        &mut self,
        outer: Frame,
        attempt: Attempt,
        may_copy: bool,
        request: Req,
    ) -> RetryFuture<S, P, R, Req, D>
    where
        S: Service<Req> + Clone,
        R: Replay<Req>,
        D: Release<S::Response>,
    {
        let (settings, replay) = (&self.config.settings, &self.config.replay);
        let (progress, below, copy) = Progress::begin_slowly(settings, outer, attempt, || {
            may_copy.then(|| replay.replay(&request)).flatten()
        });
        let spare = copy.is_some().then(|| self.inner.clone());
        let (scope, key) = CallScope::begin_slowly(outer, below);
        tell_attempt(settings, attempt);
        let inner = self.inner.call(request);
        self.attempting(inner, (copy, spare), progress, scope.end_slowly(key))
    }

    /// A key layer below has minted a key in the call: the attempts share it.
    #[cold]
    fn attempting_with_minted<Req>(
        &self,
        inner: S::Future,
        (copy, spare): (Option<Req>, Option<S>),
        progress: Progress,
        scope: CallScope,
    ) -> RetryFuture<S, P, R, Req, D>
    where
        S: Service<Req>,
        D: Release<S::Response>,
    {
        self.attempting(
            inner,
            (copy, spare),
            progress,
            scope.end_slowly(SharedKey::NONE),
        )
    }

    #[inline(always)]
    fn attempting<Req>(
        &self,
        inner: S::Future,
        (copy, spare): (Option<Req>, Option<S>),
        progress: Progress,
        below: Below,
    ) -> RetryFuture<S, P, R, Req, D>
    where
        S: Service<Req>,
        D: Release<S::Response>,
    {
        let config = Arc::clone(&self.config);
        RetryFuture::attempting(inner, (copy, spare), config, progress, below)
    }
}

impl<P, R, D> Config<P, R, D> {
    /// The facts of the first attempt at a request.
    #[inline(always)]
    fn attempt<Req, Res, E>(&self, request: &Req) -> Attempt
    where
        P: Policy<Req, Res, E>,
    {
        let attempt = first_attempt(&self.policy, request);
        if self.settings.honours_keys && attempt.keyed() && attempt.effect() == Effect::Write {
            return Attempt::first(Effect::IdempotentWrite).with_key(true);
        }
        attempt
    }
}

impl<S: Clone, P, R, D> Clone for RetryService<S, P, R, D> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.config))
    }
}

impl<S: fmt::Debug, P, R, D> fmt::Debug for RetryService<S, P, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
