use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::config::{Allowance, Config, Settings, Unwatched};
use super::{Backoff, CloneRequest, DropResponse, RetryLayer, RetrySwitch};
use crate::budget::Budget;
use crate::circuit_breaker::CircuitBreaker;
use crate::clock;
use crate::error::ConfigError;
use crate::observer::{Observer, Watch};
use crate::rng::Random;

/// Builds a [`RetryLayer`]. From [`RetryLayer::builder`].
///
/// ```
/// use std::time::Duration;
/// use tower_composure::{Backoff, Effect, RetryLayer};
///
/// let layer = RetryLayer::builder(Effect::Read)
///     .max_attempts(3)
///     .backoff(Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1)))
///     .max_hint(Duration::from_secs(10))
///     .build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct RetryLayerBuilder<P, R = CloneRequest, D = DropResponse> {
    policy: P,
    replay: R,
    release: D,
    max_attempts: Option<u32>,
    backoff: Backoff,
    max_hint: Duration,
    nested: bool,
    honours_keys: bool,
    switch: RetrySwitch,
    budget: Allowance,
    breaker: Option<CircuitBreaker>,
    seed: Option<u64>,
    observer: Option<Arc<dyn Observer>>,
    dependency: Arc<str>,
}

impl<P> RetryLayerBuilder<P> {
    pub(crate) fn new(policy: P) -> Self {
        Self {
            policy,
            replay: CloneRequest,
            release: DropResponse,
            max_attempts: Some(4),
            backoff: Backoff::default(),
            max_hint: Duration::from_secs(60),
            nested: false,
            honours_keys: false,
            switch: RetrySwitch::new(),
            budget: Allowance::Lent,
            breaker: None,
            seed: None,
            observer: None,
            dependency: "".into(),
        }
    }
}

impl<P, R, D> RetryLayerBuilder<P, R, D> {
    /// The most attempts a call makes, the first one included. Default 4; 1 makes no retries.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(Effect::Read).max_attempts(3).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// As many attempts as the deadline and the budget allow. Have both. An exact hint, such as gRPC's pushback, is
    /// then a floor under the backoff, so that a server which says "at once" for ever is not called in a busy loop.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower::ServiceBuilder;
    /// use tower_composure::{Budget, BudgetLayer, DeadlineLayer, Effect, RetryLayer};
    ///
    /// let layers = ServiceBuilder::new()
    ///     .layer(DeadlineLayer::call(Duration::from_secs(8)))
    ///     .layer(BudgetLayer::new(Budget::default()))
    ///     .layer(RetryLayer::builder(Effect::Read).unlimited_attempts().build()?);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn unlimited_attempts(mut self) -> Self {
        self.max_attempts = None;
        self
    }

    /// The waits. Default: full jitter from a base of 200 ms up to 2 s.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{Backoff, Effect, RetryLayer};
    ///
    /// let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1));
    /// let layer = RetryLayer::builder(Effect::Read).backoff(backoff).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The longest wait a server may ask for. A longer hint ends the call at once with its last outcome, since a retry
    /// at the limit would come earlier than asked. Default 60 s.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(Effect::Read).max_hint(Duration::from_secs(5)).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn max_hint(mut self, limit: Duration) -> Self {
        self.max_hint = limit;
        self
    }

    /// Whether this layer retries although a retry layer above owns the call. Default no: attempts would multiply.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(Effect::Read).nested(true).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn nested(mut self, retries: bool) -> Self {
        self.nested = retries;
        self
    }

    /// States that the server honours idempotency keys: a [`Write`](crate::Effect::Write) that carries one, as
    /// [`Policy::keyed`](crate::Policy::keyed) finds it on the request, is then an
    /// [`IdempotentWrite`](crate::Effect::IdempotentWrite). Default no, since no client can know it.
    ///
    /// ```
    /// use tower_composure::{HttpPolicy, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(HttpPolicy::new()).server_honours_keys(true).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn server_honours_keys(mut self, honours: bool) -> Self {
        self.honours_keys = honours;
        self
    }

    /// The switch that turns retries off while running; by default each layer has one of its own.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer, RetryMode, RetrySwitch};
    ///
    /// let switch = RetrySwitch::new(); // one for all clients
    /// let layer = RetryLayer::builder(Effect::Read).switch(switch.clone()).build()?;
    /// switch.set(RetryMode::Off);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn switch(mut self, switch: RetrySwitch) -> Self {
        self.switch = switch;
        self
    }

    /// A budget of this layer's own, which pays for its retries in place of the one in scope. It costs less than a
    /// [`BudgetLayer`](crate::BudgetLayer) above, and is for where no other layer is to have it from there.
    ///
    /// ```
    /// use tower_composure::{Budget, Effect, RetryLayer};
    ///
    /// let budget = Budget::default(); // keep it: every layer that calls this dependency is given a clone
    /// let retry = RetryLayer::builder(Effect::Read).budget(budget.clone()).build()?;
    /// # let _ = retry;
    /// # Ok::<(), tower_composure::ConfigError>(())
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a clone is given away, as to a layer"
    )]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Allowance::Own(budget.lend());
        self
    }

    /// Retries cost no tokens, whatever budget is in scope. Not recommended: attempts and deadlines alone do not keep the
    /// load of an outage from multiplying.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let retry = RetryLayer::builder(Effect::Read).no_budget().build()?;
    /// # let _ = retry;
    /// # Ok::<(), tower_composure::ConfigError>(())
    /// ```
    pub fn no_budget(mut self) -> Self {
        self.budget = Allowance::Free;
        self
    }

    /// Makes the jitter repeatable, for tests.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(Effect::Read).seed(7).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Who is told of attempts, retries, the budget and calls.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_composure::{Effect, RetryLayer, TracingObserver};
    ///
    /// let layer = RetryLayer::builder(Effect::Read).observer(Arc::new(TracingObserver::new())).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The name of what is called, as events give it. Default `""`.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(Effect::Read).dependency("prices").build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn dependency(mut self, name: impl Into<Arc<str>>) -> Self {
        self.dependency = name.into();
        self
    }

    /// How a request is copied for the next attempt. Default: with `Clone`.
    ///
    /// ```
    /// use tower_composure::retry::replay_fn;
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// struct Upload { bytes: Option<Vec<u8>> } // without them it is a stream
    ///
    /// let copy = replay_fn(|upload: &Upload| upload.bytes.clone().map(|bytes| Upload { bytes: Some(bytes) }));
    /// let layer = RetryLayer::builder(Effect::IdempotentWrite).replay(copy).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn replay<T>(self, replay: T) -> RetryLayerBuilder<P, T, D> {
        self.with(|_, release| (replay, release))
    }

    /// How a response that a retry replaces is let go of. Default: it is dropped. `http::DrainBody` saves its connection.
    ///
    /// ```
    /// use tower_composure::http::DrainBody;
    /// use tower_composure::{HttpPolicy, RetryLayer};
    ///
    /// let layer = RetryLayer::builder(HttpPolicy::new()).release(DrainBody::new()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn release<T>(self, release: T) -> RetryLayerBuilder<P, R, T> {
        self.with(|replay, _| (replay, release))
    }

    /// The breaker of the same stack, which may leave the calls that it has let through to this retry.
    pub(crate) fn breaker(mut self, breaker: Option<CircuitBreaker>) -> Self {
        self.breaker = breaker;
        self
    }

    /// The same settings with other strategies.
    fn with<S, T>(self, change: impl FnOnce(R, D) -> (S, T)) -> RetryLayerBuilder<P, S, T> {
        let (replay, release) = change(self.replay, self.release);
        RetryLayerBuilder {
            policy: self.policy,
            replay,
            release,
            max_attempts: self.max_attempts,
            backoff: self.backoff,
            max_hint: self.max_hint,
            nested: self.nested,
            honours_keys: self.honours_keys,
            switch: self.switch,
            budget: self.budget,
            breaker: self.breaker,
            seed: self.seed,
            observer: self.observer,
            dependency: self.dependency,
        }
    }

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// Where there is no attempt, or the backoff contradicts itself: a base or a minimum above the cap, a factor that
    /// is not a number of at least 1.
    ///
    /// ```
    /// use tower_composure::{Effect, RetryLayer};
    ///
    /// assert!(RetryLayer::builder(Effect::Read).build().is_ok());
    /// assert!(RetryLayer::builder(Effect::Read).max_attempts(0).build().is_err());
    /// ```
    pub fn build(self) -> Result<RetryLayer<P, R, D>, ConfigError> {
        if self.max_attempts == Some(0) {
            return Err(ConfigError::new(
                "max_attempts",
                "0 would never call the service; 1 makes no retries",
            ));
        }
        self.backoff.validate()?;
        Ok(self.build_unchecked())
    }

    pub(super) fn build_unchecked(self) -> RetryLayer<P, R, D> {
        let max_attempts = self.max_attempts.unwrap_or(u32::MAX);
        RetryLayer::of(Arc::new(Config {
            policy: self.policy,
            replay: self.replay,
            release: self.release,
            settings: Settings {
                max_attempts,
                unwatched: Unwatched {
                    retries: self.observer.is_none() && max_attempts > 1,
                    at_once: self.observer.is_none() && self.backoff.is_none(),
                },
                backoff: self.backoff,
                max_hint: self.max_hint,
                nested: self.nested,
                honours_keys: self.honours_keys,
                switch: self.switch,
                budget: self.budget,
                breaker: self.breaker,
                random: Random::new(self.seed),
                watch: self
                    .observer
                    .map(|observer| Watch::new(observer, self.dependency)),
                built: clock::now(),
            },
        }))
    }
}

impl<P, R, D> fmt::Debug for RetryLayerBuilder<P, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayerBuilder")
            .field("max_attempts", &self.max_attempts)
            .field("backoff", &self.backoff)
            .field("max_hint", &self.max_hint)
            .finish_non_exhaustive()
    }
}
