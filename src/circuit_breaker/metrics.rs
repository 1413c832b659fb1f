use std::time::Duration;

use super::machine::Change;
use super::state::Phase;

/// What a breaker does with calls.
///
/// ```
/// use tower_composure::{CircuitBreaker, CircuitState};
///
/// let breaker = CircuitBreaker::default();
/// assert_eq!(breaker.state(), CircuitState::Closed);
/// breaker.force_open();
/// assert_eq!(breaker.state(), CircuitState::ForcedOpen);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// It lets them through.
    Closed,
    /// It refuses them.
    Open,
    /// It lets probes through.
    HalfOpen,
    /// It was told to refuse them.
    ForcedOpen,
    /// It was told to let them through, and counts.
    ForcedClosed,
}

impl CircuitState {
    pub(super) const fn of(phase: Phase) -> Self {
        match phase {
            Phase::Closed => Self::Closed,
            Phase::Open => Self::Open,
            Phase::HalfOpen => Self::HalfOpen,
            Phase::ForcedOpen => Self::ForcedOpen,
            Phase::ForcedClosed => Self::ForcedClosed,
        }
    }

    /// The state's name in events and labels.
    ///
    /// ```
    /// use tower_composure::CircuitState;
    ///
    /// assert_eq!(CircuitState::HalfOpen.as_str(), "half_open");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::ForcedOpen => "forced_open",
            Self::ForcedClosed => "forced_closed",
        }
    }
}

/// A change of a breaker's state. There is one for each, and they are chained: the next one's generation is one more,
/// and it leaves the state that this one entered.
///
/// ```
/// use tower_composure::circuit_breaker::Transition;
/// use tower_composure::{CircuitState, Observer};
///
/// struct Pager;
///
/// impl Observer for Pager {
///     fn breaker_transition(&self, breaker: &str, transition: &Transition) {
///         if transition.to() == CircuitState::Open {
///             eprintln!("{breaker} is open, generation {}", transition.generation());
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    from: CircuitState,
    to: CircuitState,
    generation: u64,
}

impl Transition {
    pub(super) const fn of(change: Change) -> Self {
        Self {
            from: CircuitState::of(change.from.phase),
            to: CircuitState::of(change.to.phase),
            generation: change.to.generation,
        }
    }

    /// The state it left.
    ///
    /// ```
    /// use tower_composure::circuit_breaker::Transition;
    ///
    /// fn has_just_opened(transition: &Transition) -> bool {
    ///     transition.from().as_str() == "closed" && transition.to().as_str() == "open"
    /// }
    /// ```
    pub const fn from(&self) -> CircuitState {
        self.from
    }

    /// The state it entered.
    ///
    /// ```
    /// use tower_composure::CircuitState;
    /// use tower_composure::circuit_breaker::Transition;
    ///
    /// fn is_worth_a_page(transition: &Transition) -> bool {
    ///     transition.to() == CircuitState::Open
    /// }
    /// ```
    pub const fn to(&self) -> CircuitState {
        self.to
    }

    /// How many states there have been, this one included. Transitions that follow each other closely may be told of
    /// by two threads in any order; this number puts them in theirs.
    ///
    /// ```
    /// use tower_composure::circuit_breaker::Transition;
    ///
    /// /// In their order, whichever thread told of them first.
    /// fn sort(transitions: &mut [Transition]) {
    ///     transitions.sort_by_key(Transition::generation);
    /// }
    /// ```
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

/// What there is to see of a breaker at one moment. From
/// [`CircuitBreaker::metrics`](super::CircuitBreaker::metrics).
///
/// ```
/// use tower_composure::CircuitBreaker;
///
/// let metrics = CircuitBreaker::default().metrics();
/// assert_eq!((metrics.recorded(), metrics.failures(), metrics.rejected()), (0, 0, 0));
/// assert_eq!(metrics.failure_rate(), None); // nothing to divide by yet
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitMetrics {
    pub(super) state: CircuitState,
    pub(super) generation: u64,
    pub(super) recorded: u32,
    pub(super) failures: u32,
    pub(super) slow: u32,
    pub(super) consecutive_failures: u64,
    pub(super) rejected: u64,
    pub(super) remaining: Duration,
}

impl CircuitMetrics {
    /// What it does with calls.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, CircuitState};
    ///
    /// assert_eq!(CircuitBreaker::default().metrics().state(), CircuitState::Closed);
    /// ```
    pub const fn state(&self) -> CircuitState {
        self.state
    }

    /// How many states there have been, this one included.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::default();
    /// let before = breaker.metrics().generation();
    /// breaker.force_open();
    /// assert_eq!(breaker.metrics().generation(), before + 1);
    /// ```
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Outcomes in the window. A transition empties it.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::default().metrics().recorded(), 0);
    /// ```
    pub const fn recorded(&self) -> u32 {
        self.recorded
    }

    /// Failures among them.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::default().metrics().failures(), 0);
    /// ```
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Slow calls among them.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::default().metrics().slow(), 0);
    /// ```
    pub const fn slow(&self) -> u32 {
        self.slow
    }

    /// The share of failures, where there are outcomes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};
    ///
    /// let breaker = CircuitBreaker::default();
    /// let service = ServiceBuilder::new()
    ///     .layer(CircuitBreakerLayer::new(breaker.clone(), Effect::Read))
    ///     .service_fn(|fails: bool| async move { if fails { Err(std::io::Error::other("down")) } else { Ok(()) } });
    /// service.clone().oneshot(false).await?;
    /// service.oneshot(true).await.unwrap_err();
    /// assert_eq!(breaker.metrics().failure_rate(), Some(0.5));
    /// # Ok(()) }
    /// ```
    pub fn failure_rate(&self) -> Option<f64> {
        self.rate(self.failures)
    }

    /// The share of slow calls, where there are outcomes.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::default().metrics().slow_rate(), None); // nothing has been counted
    /// ```
    pub fn slow_rate(&self) -> Option<f64> {
        self.rate(self.slow)
    }

    /// Failures since the last success.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::default().metrics().consecutive_failures(), 0);
    /// ```
    pub const fn consecutive_failures(&self) -> u64 {
        self.consecutive_failures
    }

    /// Calls it has refused since it was made.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::default().metrics().rejected(), 0);
    /// ```
    pub const fn rejected(&self) -> u64 {
        self.rejected
    }

    /// How long it will go on refusing: zero where it is not open, `Duration::MAX` where that has no end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::default();
    /// assert_eq!(breaker.metrics().remaining(), Duration::ZERO);
    /// breaker.force_open();
    /// assert_eq!(breaker.metrics().remaining(), Duration::MAX);
    /// ```
    pub const fn remaining(&self) -> Duration {
        self.remaining
    }

    fn rate(&self, part: u32) -> Option<f64> {
        (self.recorded > 0).then(|| f64::from(part) / f64::from(self.recorded))
    }
}
