use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::CircuitBreaker;
use super::settings::{Count, Settings};
use crate::error::ConfigError;
use crate::observer::Observer;

/// Builds a [`CircuitBreaker`], or tells a running one otherwise. From [`CircuitBreaker::builder`].
///
/// ```
/// use std::time::Duration;
/// use tower_composure::CircuitBreaker;
///
/// let breaker = CircuitBreaker::builder()
///     .name("payments")
///     .time_window(Duration::from_secs(30))
///     .failure_rate(0.3)
///     .consecutive_failures(10)
///     .open_time(Duration::from_secs(2))
///     .build()?;
/// assert_eq!(breaker.name(), "payments");
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct CircuitBreakerBuilder {
    pub(super) window: u32,
    pub(super) time_window: Option<Duration>,
    pub(super) minimum_calls: Option<u32>,
    pub(super) failure_rate: Option<f64>,
    pub(super) slow_calls: Option<(Duration, f64)>,
    pub(super) consecutive_failures: Option<u32>,
    pub(super) open_time: Duration,
    pub(super) max_open_time: Option<Duration>,
    pub(super) open_jitter: f64,
    pub(super) max_open_hint: Option<Duration>,
    pub(super) probes: u32,
    pub(super) probe_failure_rate: Option<f64>,
    pub(super) probe_lease: Duration,
    pub(super) max_half_open: Option<Duration>,
    pub(super) count: Count,
    pub(super) seed: Option<u64>,
    pub(super) name: Arc<str>,
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl Default for CircuitBreakerBuilder {
    fn default() -> Self {
        Self {
            window: 100,
            time_window: None,
            minimum_calls: None,
            failure_rate: Some(0.5),
            slow_calls: None,
            consecutive_failures: None,
            open_time: Duration::from_secs(5),
            max_open_time: None,
            open_jitter: 0.1,
            max_open_hint: None,
            probes: 3,
            probe_failure_rate: None,
            probe_lease: Duration::from_secs(10),
            max_half_open: None,
            count: Count::Calls,
            seed: None,
            name: "".into(),
            observer: None,
        }
    }
}

/// When it opens. The rules stand side by side: any of them opens it, and they are asked after every outcome.
impl CircuitBreakerBuilder {
    /// A count window: how many outcomes it holds; the next one pushes the oldest out. Default 100, at most 10,000.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().window(50).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn window(mut self, outcomes: u32) -> Self {
        self.window = outcomes;
        self.time_window = None;
        self
    }

    /// A time window instead: the outcomes of the last while, at least 100 ms, whatever their number. Time alone
    /// expires them, in twenty steps: an outcome is out when it is as old as the window, and may be out up to a
    /// twentieth of it earlier.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().time_window(Duration::from_secs(30)).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn time_window(mut self, span: Duration) -> Self {
        self.time_window = Some(span);
        self
    }

    /// How many outcomes it takes before a rate means anything. Default 20, or the window where that is shorter. More
    /// than the window is an error, since the breaker could never open.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let error = CircuitBreaker::builder().window(10).minimum_calls(11).build().unwrap_err();
    /// assert_eq!(error.setting(), "minimum_calls");
    /// ```
    pub const fn minimum_calls(mut self, outcomes: u32) -> Self {
        self.minimum_calls = Some(outcomes);
        self
    }

    /// Opens where this share of the window has failed, above 0 and up to 1. Default 0.5.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().failure_rate(0.3).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn failure_rate(mut self, rate: f64) -> Self {
        self.failure_rate = Some(rate);
        self
    }

    /// No rule about the failure rate.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().no_failure_rate().consecutive_failures(5).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn no_failure_rate(mut self) -> Self {
        self.failure_rate = None;
        self
    }

    /// Opens where this share of the window took at least `limit`, success or not. Costs two clock reads a call. Off by
    /// default. A slow probe counts as a failed one.
    ///
    /// The time is from admission to the outcome. A call that a deadline *below* the breaker cuts off counts once, as
    /// failed and slow; one that a deadline *above* it cuts off is dropped, and a drop counts as nothing: with the
    /// deadline above, a dependency that hangs never opens the breaker.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// // Opens where four calls in five take a second or more.
    /// let breaker = CircuitBreaker::builder().slow_calls(Duration::from_secs(1), 0.8).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn slow_calls(mut self, limit: Duration, rate: f64) -> Self {
        self.slow_calls = Some((limit, rate));
        self
    }

    /// Opens after this many failures in a row. Off by default. It asks for no minimum, and a success starts anew.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().consecutive_failures(10).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn consecutive_failures(mut self, failures: u32) -> Self {
        self.consecutive_failures = Some(failures);
        self
    }

    /// What it counts. Default [`Count::Calls`].
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, Count};
    ///
    /// let breaker = CircuitBreaker::builder().count(Count::Attempts).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }
}

/// How long it stays open, and how it closes.
impl CircuitBreakerBuilder {
    /// How long it stays open before it lets probes through. Doubles with each reopening, up to
    /// [`max_open_time`](Self::max_open_time), and starts anew when it closes. Default 5 s. `Duration::MAX` means until
    /// it is told otherwise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().open_time(Duration::from_secs(2)).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn open_time(mut self, time: Duration) -> Self {
        self.open_time = time;
        self
    }

    /// The longest it stays open. Default 60 s, or the open time where that is longer. The same as the open time keeps
    /// it constant.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// // Two minutes, however often it reopens.
    /// let open = Duration::from_secs(120);
    /// let breaker = CircuitBreaker::builder().open_time(open).max_open_time(open).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn max_open_time(mut self, time: Duration) -> Self {
        self.max_open_time = Some(time);
        self
    }

    /// The share of the open time, 0 to 1, that is left to chance: it is shortened by up to this much. Default 0.1.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().open_jitter(0.5).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn open_jitter(mut self, share: f64) -> Self {
        self.open_jitter = share;
        self
    }

    /// Lets a hint extend the open time, by at most this much: it stays open at least as long as the answer that
    /// opened it asked for, and a probe that is told to come back later reopens it until then. Off by default.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().max_open_hint(Duration::from_secs(300)).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn max_open_hint(mut self, most: Duration) -> Self {
        self.max_open_hint = Some(most);
        self
    }

    /// How many probes decide, and how many may run at a time. It closes when all of them have succeeded, and one
    /// failure reopens it. Default 3, at most 1000.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().probes(1).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn probes(mut self, probes: u32) -> Self {
        self.probes = probes;
        self
    }

    /// Lets all probes end before it decides: it reopens where this share of them has failed, above 0 and up to 1, and
    /// closes otherwise.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().probes(10).probe_failure_rate(0.5).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn probe_failure_rate(mut self, rate: f64) -> Self {
        self.probe_failure_rate = Some(rate);
        self
    }

    /// After this long, the place of a probe that has not answered is given to another. No shorter than the deadline of
    /// a call, or slow probes pile up. Default 10 s. A late result still counts.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().probe_lease(Duration::from_secs(30)).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn probe_lease(mut self, lease: Duration) -> Self {
        self.probe_lease = lease;
        self
    }

    /// The longest it stays half-open; then the probes that there were decide: it closes where some have succeeded and
    /// the rest does not speak against it, and opens again where none has. By default it stays half-open, and keeps
    /// admitting probes, until all of them have ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().max_half_open(Duration::from_secs(60)).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn max_half_open(mut self, time: Duration) -> Self {
        self.max_half_open = Some(time);
        self
    }

    /// Makes the jitter repeatable, for tests.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::builder().seed(7).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The name of what is called, as events give it. Default `""`.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::builder().name("payments").build()?.name(), "payments");
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Who is told of each transition, refusal and probe.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_composure::{CircuitBreaker, TracingObserver};
    ///
    /// let breaker = CircuitBreaker::builder().observer(Arc::new(TracingObserver::new())).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Builds it, closed.
    ///
    /// # Errors
    ///
    /// Where a setting is out of its range or contradicts another: an empty window, a minimum above the window, a rate
    /// that is no share, no probes, no time at all, a maximum below the open time, no rule to open by.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let error = CircuitBreaker::builder().failure_rate(1.5).build().unwrap_err();
    /// assert_eq!(error.setting(), "failure_rate");
    /// ```
    pub fn build(self) -> Result<CircuitBreaker, ConfigError> {
        let settings = Settings::of(&self)?;
        Ok(CircuitBreaker::of(settings, self))
    }
}

impl fmt::Debug for CircuitBreakerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerBuilder")
            .field("name", &self.name)
            .field("window", &self.window)
            .field("time_window", &self.time_window)
            .field("minimum_calls", &self.minimum_calls)
            .field("failure_rate", &self.failure_rate)
            .field("slow_calls", &self.slow_calls)
            .field("consecutive_failures", &self.consecutive_failures)
            .field("open_time", &self.open_time)
            .field("probes", &self.probes)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
