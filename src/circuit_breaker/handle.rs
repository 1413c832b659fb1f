use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::builder::CircuitBreakerBuilder;
use super::machine::{Admission, Surroundings};
use super::metrics::{CircuitMetrics, CircuitState};
use super::notes::Notes;
use super::permit::{BreakerLane, BreakerLanes, Permit};
use super::settings::Settings;
use super::shared::{Shared, duration};
use super::state::Phase;
use crate::error::ConfigError;
use crate::sync::Ordering;

/// A circuit breaker. Clones share one state, and so do all layers and services made with it.
///
/// [`Default`] is a count window of 100 with a minimum of 20, a failure rate of 0.5, an open time of 5 s growing to
/// 60 s, and 3 probes.
///
/// It can be looked at and told otherwise while it runs:
///
/// ```
/// use tower_composure::{CircuitBreaker, CircuitState};
///
/// let breaker = CircuitBreaker::default();
/// breaker.force_open();
/// assert_eq!(breaker.state(), CircuitState::ForcedOpen);
/// breaker.reset();
/// assert_eq!(breaker.state(), CircuitState::Closed);
/// breaker.reconfigure(CircuitBreaker::builder().failure_rate(0.3))?;
/// assert_eq!(breaker.metrics().rejected(), 0);
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct CircuitBreaker {
    shared: Arc<Shared>,
    lanes: Arc<BreakerLanes>,
}

impl CircuitBreaker {
    /// Starts with the defaults.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, CircuitState};
    ///
    /// assert_eq!(CircuitBreaker::builder().build()?.state(), CircuitState::Closed);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn builder() -> CircuitBreakerBuilder {
        CircuitBreakerBuilder::default()
    }

    pub(super) fn of(settings: Settings, told: CircuitBreakerBuilder) -> Self {
        let shared = Arc::new(Shared::new(settings, told));
        Self {
            lanes: Arc::new(BreakerLanes::new(&shared)),
            shared,
        }
    }

    /// What it does with calls now, computed from the clock. Looking takes no probe's place.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, CircuitState};
    ///
    /// assert_eq!(CircuitBreaker::default().state(), CircuitState::Closed);
    /// ```
    pub fn state(&self) -> CircuitState {
        CircuitState::of(self.shared.machine.advance(&self.shared.around).phase)
    }

    /// The name it was given.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// assert_eq!(CircuitBreaker::default().name(), "");
    /// ```
    pub fn name(&self) -> &str {
        &self.shared.around.name
    }

    /// Everything there is to see of it, at one moment.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let metrics = CircuitBreaker::default().metrics();
    /// assert_eq!((metrics.recorded(), metrics.failure_rate()), (0, None));
    /// ```
    pub fn metrics(&self) -> CircuitMetrics {
        let Shared {
            machine,
            rejected,
            around,
            ..
        } = &*self.shared;
        let state = machine.advance(around);
        let (counts, streak) = machine.counts(state, around);
        CircuitMetrics {
            state: CircuitState::of(state.phase),
            generation: state.generation,
            recorded: counts.total,
            failures: counts.failures,
            slow: counts.slow,
            consecutive_failures: streak,
            rejected: rejected.load(Ordering::Relaxed),
            remaining: duration(machine.remaining_open(state, around.now())),
        }
    }

    /// Refuses every call until it is [reset](Self::reset) or [forced closed](Self::force_closed).
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, CircuitState};
    ///
    /// let breaker = CircuitBreaker::default();
    /// breaker.force_open(); // the dependency is being repaired
    /// assert_eq!(breaker.state(), CircuitState::ForcedOpen);
    /// ```
    pub fn force_open(&self) {
        self.force(Phase::ForcedOpen);
    }

    /// Lets every call through and keeps counting, until it is [reset](Self::reset) or
    /// [forced open](Self::force_open): it observes, and never refuses.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, CircuitState};
    ///
    /// let breaker = CircuitBreaker::default();
    /// breaker.force_closed(); // its numbers are tried out before they bind
    /// assert_eq!(breaker.state(), CircuitState::ForcedClosed);
    /// ```
    pub fn force_closed(&self) {
        self.force(Phase::ForcedClosed);
    }

    /// Closed, with an empty window, whatever it was before. Calls that are under way count nowhere.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, CircuitState};
    ///
    /// let breaker = CircuitBreaker::default();
    /// breaker.force_open();
    /// breaker.reset();
    /// assert_eq!(breaker.state(), CircuitState::Closed);
    /// ```
    pub fn reset(&self) {
        self.force(Phase::Closed);
    }

    fn force(&self, phase: Phase) {
        self.shared.machine.force(phase, &self.shared.around);
    }

    /// Tells a running breaker otherwise: every setting but the window's length and kind, what is counted, the name,
    /// the seed and the observer. The window keeps what it holds, and an open period its end.
    ///
    /// # Errors
    ///
    /// As [`CircuitBreakerBuilder::build`]; where the window or what is counted would change; and where more probes are
    /// asked for than there is room for, which is 16 or what it was built with. Then nothing changes.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::default();
    /// breaker.reconfigure(CircuitBreaker::builder().failure_rate(0.3))?;
    /// assert!(breaker.reconfigure(CircuitBreaker::builder().window(50)).is_err());
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a builder is made for this one use"
    )]
    pub fn reconfigure(&self, to: CircuitBreakerBuilder) -> Result<(), ConfigError> {
        let settings = Settings::of(&to)?;
        self.shared.built.check_change(&settings)?;
        self.shared.machine.retune(&settings, &self.shared.around);
        Ok(())
    }

    /// Whether there is another clone, or a call under way.
    #[cfg(feature = "keyed")]
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.lanes) > 1 || self.lanes.are_in_use()
    }

    /// Whether it was closed when last something happened. Makes no transition, so no observer runs.
    #[cfg(feature = "keyed")]
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.machine.last().phase == Phase::Closed
    }

    /// Whether it refuses calls and will for some time. Makes no transition, so no observer runs.
    #[cfg(feature = "keyed")]
    pub(crate) fn is_refusing(&self) -> bool {
        let Shared {
            machine, around, ..
        } = &*self.shared;
        machine.remaining_open(machine.last(), around.now()) > 0
    }

    /// The lease of a probe.
    pub(crate) fn probe_lease(&self) -> Duration {
        duration(self.shared.machine.live().probe_lease())
    }

    /// Lets a call through that asks for no more than its outcome, as nearly all do. It is `entrusted` where the retry
    /// below has this breaker.
    #[inline]
    pub(super) fn try_admit_plainly(&self, entrusted: bool) -> Option<Permit> {
        let generation = self.shared.machine.closed_generation()?;
        if self.shared.looks_closely() {
            None
        } else if entrusted && self.shared.machine.can_be_full_of_success() {
            Some(Permit::entrusted(generation))
        } else {
            Some(Permit::plain(self.lane(), generation))
        }
    }

    /// An owner of the state, for a call.
    #[inline]
    pub(super) fn lane(&self) -> BreakerLane {
        BreakerLane::of_this_thread(&self.lanes)
    }

    /// Whether one more success of a call that was let through like this changes nothing.
    #[inline]
    pub(super) fn is_full_of_success(&self, notes: Notes) -> bool {
        self.shared.machine.is_full_of_success(notes.generation())
    }

    pub(super) fn try_admit(&self) -> Result<Admission, Duration> {
        match self.shared.machine.closed_generation() {
            Some(generation) => Ok(Admission::of(generation)),
            None => self.admit_slowly(),
        }
    }

    #[cold]
    fn admit_slowly(&self) -> Result<Admission, Duration> {
        match self.shared.machine.admit(&self.shared.around) {
            Ok(admission) => {
                if admission.probe.is_some() {
                    let around = &self.shared.around;
                    around.tell(&|observer, name| observer.breaker_probe(name));
                }
                Ok(admission)
            }
            Err(remaining) => {
                let remaining = duration(remaining);
                self.rejected(remaining);
                Err(remaining)
            }
        }
    }

    /// What a call that was let through holds.
    pub(super) fn permit(&self, admission: Admission) -> Permit {
        Permit::new(self.lane(), admission)
    }

    /// A call that was let through is refused all the same.
    #[cold]
    pub(super) fn take_back(&self, admission: Admission) {
        self.shared.machine.release(admission);
        self.rejected(Duration::ZERO);
    }

    /// A call was refused.
    fn rejected(&self, remaining: Duration) {
        self.shared.rejected.fetch_add(1, Ordering::Relaxed);
        let around = &self.shared.around;
        around.tell(&|observer, name| observer.breaker_rejected(name, remaining));
    }

    #[inline]
    pub(super) fn refuses(&self) -> bool {
        let machine = &self.shared.machine;
        machine.closed_generation().is_none() && machine.refuses(&self.shared.around)
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::of(Settings::default(), CircuitBreakerBuilder::default())
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker")
            .field("name", &self.name())
            .field("metrics", &self.metrics())
            .finish_non_exhaustive()
    }
}
