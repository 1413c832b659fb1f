use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::config::Config;
use super::progress::Progress;
use super::{DropResponse, Release, Replay, RetryFuture};
use crate::attempt::Attempt;
use crate::context::SharedKey;
use crate::effect::Effect;
use crate::policy::Policy;

/// Retries the calls of a service. See the [module](crate::retry).
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

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        let settings = &self.config.settings;
        let mut progress = Progress::begin(settings, self.config.attempt(&request));
        // The instance that is ready makes the first attempt; its clone is polled ready before each of the others.
        let spare = progress
            .copy(settings, || self.config.replay.replay(&request))
            .map(|copy| (copy, self.inner.clone()));
        let mut key = SharedKey::in_scope();
        let inner = {
            let scope = progress.enter_first(&mut key);
            if let Some(breaker) = scope.breaker() {
                breaker.attempt_started();
            }
            progress.tell_started(settings);
            self.inner.call(request)
        };
        RetryFuture::attempting(inner, spare, Arc::clone(&self.config), progress, key)
    }
}

impl<P, R, D> Config<P, R, D> {
    /// The facts of the first attempt at a request.
    #[inline]
    fn attempt<Req, Res, E>(&self, request: &Req) -> Attempt
    where
        P: Policy<Req, Res, E>,
    {
        let keyed = self.policy.keyed(request);
        let effect = match self.policy.effect(request) {
            Effect::Write if keyed && self.settings.honours_keys => Effect::IdempotentWrite,
            effect => effect,
        };
        Attempt::first(effect).with_key(keyed)
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
