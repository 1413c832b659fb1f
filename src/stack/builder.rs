use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{KeyLayer, NoKey, Stack};
use crate::budget::Budget;
use crate::circuit_breaker::{CircuitBreaker, CircuitBreakerLayer};
use crate::deadline::DeadlineLayer;
use crate::error::ConfigError;
use crate::observer::Observer;
use crate::retry::{Backoff, CloneRequest, DropResponse, RetryLayerBuilder, RetrySwitch};

/// Builds a [`Stack`]. From [`Stack::builder`].
///
/// ```
/// use std::time::Duration;
/// use tower_composure::{Effect, Stack};
///
/// let stack = Stack::builder(Effect::Read)
///     .dependency("prices")
///     .call_deadline(Duration::from_secs(2))
///     .attempt_deadline(Duration::from_millis(500))
///     .max_attempts(3)
///     .max_hint(Duration::from_secs(1))
///     .seed(7) // in a test
///     .build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct StackBuilder<P, K = NoKey, R = CloneRequest, D = DropResponse> {
    policy: P,
    breaker: Breaker,
    call_deadline: Duration,
    attempt_deadline: Option<Duration>,
    key: K,
    retry: RetryLayerBuilder<P, R, D>,
    dependency: Arc<str>,
    observer: Option<Arc<dyn Observer>>,
}

enum Breaker {
    Default,
    Given(CircuitBreaker),
    None,
}

const CALL_DEADLINE: Duration = Duration::from_secs(8);
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(3);

impl<P: Clone> StackBuilder<P> {
    pub(super) fn new(policy: P) -> Self {
        Self {
            breaker: Breaker::Default,
            call_deadline: CALL_DEADLINE,
            attempt_deadline: None,
            key: NoKey,
            retry: RetryLayerBuilder::new(policy.clone()).budget(Budget::default()),
            policy,
            dependency: "".into(),
            observer: None,
        }
    }
}

impl<P, K, R, D> StackBuilder<P, K, R, D> {
    /// The name of what is called, as events give it. Default `""`.
    pub fn dependency(mut self, name: impl Into<Arc<str>>) -> Self {
        self.dependency = name.into();
        self
    }

    /// The breaker. Default: one of its own, with the defaults of the [module](crate::circuit_breaker) and a lease as
    /// long as the call's deadline.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, Effect, Stack};
    ///
    /// let breaker = CircuitBreaker::builder().name("prices").failure_rate(0.3).build()?;
    /// let stack = Stack::builder(Effect::Read).breaker(breaker.clone()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn breaker(mut self, breaker: CircuitBreaker) -> Self {
        self.breaker = Breaker::Given(breaker);
        self
    }

    /// No breaker: every call reaches the dependency, however long it has been down.
    ///
    /// ```
    /// use tower_composure::{Effect, Stack};
    ///
    /// let stack = Stack::builder(Effect::Read).no_breaker().build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn no_breaker(mut self) -> Self {
        self.breaker = Breaker::None;
        self
    }

    /// The most a call may take, with all its attempts and waits. Default 8 s; `Duration::MAX` is no limit.
    pub fn call_deadline(mut self, limit: Duration) -> Self {
        self.call_deadline = limit;
        self
    }

    /// The most an attempt may take. Default 3 s, or the call's deadline where that is shorter; `Duration::MAX` is no
    /// limit but the call's.
    pub fn attempt_deadline(mut self, limit: Duration) -> Self {
        self.attempt_deadline = Some(limit);
        self
    }

    /// The budget. Default: one of its own, of ratio 0.1 and burst 20. Give every stack that calls this dependency the
    /// same one.
    ///
    /// ```
    /// use tower_composure::{Budget, Effect, Stack};
    ///
    /// let budget = Budget::new(0.1, 5)?;
    /// let balances = Stack::builder(Effect::Read).budget(budget.clone()).build()?;
    /// let charges = Stack::builder(Effect::IdempotentWrite).budget(budget).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn budget(mut self, budget: Budget) -> Self {
        self.retry = self.retry.budget(budget);
        self
    }

    /// No budget: retries are bounded by attempts and deadline alone, and multiply the load of an outage. Not
    /// recommended.
    ///
    /// ```
    /// use tower_composure::{Effect, Stack};
    ///
    /// let stack = Stack::builder(Effect::Read).no_budget().build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn no_budget(mut self) -> Self {
        self.retry = self.retry.no_budget();
        self
    }

    /// The key layer, which is also the statement that the server honours keys: a write that carries one, as the
    /// policy finds it on the request, is retried like an idempotent write.
    ///
    /// ```
    /// use tower_composure::{HttpPolicy, IdempotencyKeyLayer, Stack};
    ///
    /// let stack = Stack::builder(HttpPolicy::new()).idempotency_key(IdempotencyKeyLayer::new()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn idempotency_key<L: KeyLayer>(self, layer: L) -> StackBuilder<P, L, R, D> {
        self.with(|_| layer, |retry| retry.server_honours_keys(true))
    }

    /// How a request is copied for the next attempt. Default: with `Clone`.
    ///
    /// ```
    /// use tower_composure::http::ReplayRequest;
    /// use tower_composure::{HttpPolicy, Stack};
    ///
    /// let stack = Stack::builder(HttpPolicy::new()).replay(ReplayRequest).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn replay<T>(self, replay: T) -> StackBuilder<P, K, T, D> {
        self.with(|key| key, |retry| retry.replay(replay))
    }

    /// How a response that a retry replaces is let go of. Default: it is dropped. `http::DrainBody` saves its connection.
    ///
    /// ```
    /// use tower_composure::http::DrainBody;
    /// use tower_composure::{HttpPolicy, Stack};
    ///
    /// let stack = Stack::builder(HttpPolicy::new()).release(DrainBody::new()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn release<T>(self, release: T) -> StackBuilder<P, K, R, T> {
        self.with(|key| key, |retry| retry.release(release))
    }

    /// The same stack with another key layer, or with other strategies of its retry.
    fn with<L, S, T>(
        self,
        key: impl FnOnce(K) -> L,
        retry: impl FnOnce(RetryLayerBuilder<P, R, D>) -> RetryLayerBuilder<P, S, T>,
    ) -> StackBuilder<P, L, S, T> {
        StackBuilder {
            policy: self.policy,
            breaker: self.breaker,
            call_deadline: self.call_deadline,
            attempt_deadline: self.attempt_deadline,
            key: key(self.key),
            retry: retry(self.retry),
            dependency: self.dependency,
            observer: self.observer,
        }
    }

    /// The most attempts a call makes, the first one included. Default 4.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.retry = self.retry.max_attempts(attempts);
        self
    }

    /// The waits. Default: full jitter from a base of 200 ms up to 2 s.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{Backoff, Effect, Stack};
    ///
    /// let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1));
    /// let stack = Stack::builder(Effect::Read).backoff(backoff).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.retry = self.retry.backoff(backoff);
        self
    }

    /// The longest wait a server may ask for. Default 60 s.
    pub fn max_hint(mut self, limit: Duration) -> Self {
        self.retry = self.retry.max_hint(limit);
        self
    }

    /// Whether this stack retries although a retry layer above owns the call. Default no.
    ///
    /// ```
    /// use tower_composure::{Effect, Stack};
    ///
    /// let stack = Stack::builder(Effect::Read).nested(true).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn nested(mut self, retries: bool) -> Self {
        self.retry = self.retry.nested(retries);
        self
    }

    /// The switch that turns retries off while running.
    ///
    /// ```
    /// use tower_composure::{Effect, RetrySwitch, Stack};
    ///
    /// let switch = RetrySwitch::new(); // one for all dependencies
    /// let stack = Stack::builder(Effect::Read).switch(switch.clone()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn switch(mut self, switch: RetrySwitch) -> Self {
        self.retry = self.retry.switch(switch);
        self
    }

    /// Who is told of what all the layers of this stack decide: attempts, retries, the budget, deadlines, keys and
    /// calls, and the breaker unless it was [given](Self::breaker), which has an observer of its own.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_composure::{Effect, Stack, TracingObserver};
    ///
    /// let stack = Stack::builder(Effect::Read).observer(Arc::new(TracingObserver::new())).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Makes the jitter of the waits repeatable, for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.retry = self.retry.seed(seed);
        self
    }

    fn attempt_limit(&self) -> Result<Duration, ConfigError> {
        let call = self.call_deadline;
        if call.is_zero() {
            let reason = "0ns lets no call be made";
            return Err(ConfigError::new("call_deadline", reason));
        }
        match self.attempt_deadline {
            None => Ok(ATTEMPT_DEADLINE.min(call)),
            Some(Duration::ZERO) => Err(ConfigError::new(
                "attempt_deadline",
                "0ns lets no attempt be made",
            )),
            Some(limit) if limit > call && limit != Duration::MAX => Err(ConfigError::new(
                "attempt_deadline",
                format!("{limit:?} is above the call deadline {call:?}"),
            )),
            Some(limit) => Ok(limit),
        }
    }

    fn resolve_breaker(&self) -> Result<Option<CircuitBreaker>, ConfigError> {
        let call = self.call_deadline;
        match &self.breaker {
            Breaker::None => Ok(None),
            Breaker::Default => {
                let mut breaker = CircuitBreaker::builder()
                    .probe_lease(call)
                    .name(Arc::clone(&self.dependency));
                if let Some(observer) = &self.observer {
                    breaker = breaker.observer(Arc::clone(observer));
                }
                breaker.build().map(Some)
            }
            Breaker::Given(breaker) if breaker.probe_lease() < call && call != Duration::MAX => {
                Err(ConfigError::new(
                    "probe_lease",
                    format!(
                        "{:?} is below the call deadline {call:?}",
                        breaker.probe_lease()
                    ),
                ))
            }
            Breaker::Given(breaker) => Ok(Some(breaker.clone())),
        }
    }
}

impl<P, K: KeyLayer, R, D> StackBuilder<P, K, R, D> {
    /// Builds the stack.
    ///
    /// # Errors
    ///
    /// Where a deadline is zero, an attempt's is above the call's, the lease of the breaker's probes is below the
    /// call's, or the retry's own settings contradict each other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::{Effect, Stack};
    ///
    /// let second = Duration::from_secs(1);
    /// let error = Stack::builder(Effect::Read).call_deadline(second).attempt_deadline(2 * second).build().unwrap_err();
    /// assert_eq!(error.setting(), "attempt_deadline");
    /// ```
    pub fn build(self) -> Result<Stack<P, K, R, D>, ConfigError> {
        let attempt = self.attempt_limit()?;
        let breaker = self.resolve_breaker()?;
        let mut call = DeadlineLayer::call(self.call_deadline);
        let mut attempt = DeadlineLayer::attempt(attempt);
        let mut key = self.key;
        let name = || Arc::clone(&self.dependency);
        let is_transparent = key.is_transparent();
        let at_hand = breaker.clone().filter(|_| is_transparent);
        let mut retry = self.retry.dependency(name()).breaker(at_hand);
        if let Some(observer) = &self.observer {
            let observer = || Arc::clone(observer);
            call = call.observer(name(), observer());
            attempt = attempt.observer(name(), observer());
            key = key.observed(name(), observer());
            retry = retry.observer(observer());
        }
        Ok(Stack {
            breaker: CircuitBreakerLayer::maybe(breaker, self.policy),
            call,
            is_transparent,
            key,
            retry: retry.build()?,
            attempt,
        })
    }
}

impl<P, K, R, D> fmt::Debug for StackBuilder<P, K, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackBuilder")
            .field("call_deadline", &self.call_deadline)
            .field("attempt_deadline", &self.attempt_deadline)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
