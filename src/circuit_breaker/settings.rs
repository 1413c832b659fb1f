//! What a breaker is told, checked once.

use std::time::Duration;

use super::CircuitBreaker;
use super::tag::MAX_VALUE;
use super::window::{Counts, MAX_WINDOW};
use crate::error::ConfigError;
use crate::rng::within;

/// What the breaker counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// One outcome a call, however many attempts it took: what the caller saw.
    #[default]
    Calls,
    /// Each attempt of the retry layer below: what the dependency did. It sees what retries would smooth over.
    Attempts,
}

/// The settings, in the units the machine works in: microseconds and millionths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) window: u32,
    pub(super) minimum_calls: u32,
    pub(super) failure_rate: u64,
    pub(super) open_time: u64,
    pub(super) max_open_time: u64,
    pub(super) open_jitter: u64,
    pub(super) probes: u32,
    pub(super) probe_lease: u64,
    pub(super) count: Count,
}

const MILLION: u64 = 1_000_000;

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 100,
            minimum_calls: DEFAULT_MINIMUM,
            failure_rate: MILLION / 2,
            open_time: 5 * MILLION,
            max_open_time: 60 * MILLION,
            open_jitter: MILLION / 10,
            probes: 3,
            probe_lease: 10 * MILLION,
            count: Count::Calls,
        }
    }
}

impl Settings {
    /// Whether these counts open the breaker.
    pub(super) fn trips(&self, counts: Counts) -> bool {
        counts.total >= self.minimum_calls
            && u64::from(counts.failures).saturating_mul(MILLION)
                >= self.failure_rate.saturating_mul(u64::from(counts.total))
    }

    /// How long it stays open, the `reopened`th time in a row: doubling up to the maximum, less a random part, so that
    /// breakers that opened together do not probe together.
    pub(super) fn open_for(&self, reopened: u8, random: u64) -> u64 {
        let doubled = self.open_time.saturating_mul(
            1_u64
                .checked_shl(u32::from(reopened))
                .unwrap_or(u64::MAX),
        );
        let whole = doubled.min(self.max_open_time);
        if whole >= MAX_VALUE {
            return MAX_VALUE;
        }
        let span = u128::from(whole) * u128::from(self.open_jitter) / u128::from(MILLION);
        let less = within(span, u64::MAX - random);
        whole.saturating_sub(u64::try_from(less).unwrap_or(whole))
    }
}

/// Builds a [`CircuitBreaker`]. From [`CircuitBreaker::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct CircuitBreakerBuilder {
    window: u32,
    minimum_calls: Option<u32>,
    failure_rate: f64,
    open_time: Duration,
    max_open_time: Option<Duration>,
    open_jitter: f64,
    probes: u32,
    probe_lease: Duration,
    count: Count,
    seed: Option<u64>,
}

impl Default for CircuitBreakerBuilder {
    fn default() -> Self {
        Self {
            window: 100,
            minimum_calls: None,
            failure_rate: 0.5,
            open_time: Duration::from_secs(5),
            max_open_time: None,
            open_jitter: 0.1,
            probes: 3,
            probe_lease: Duration::from_secs(10),
            count: Count::Calls,
            seed: None,
        }
    }
}

const DEFAULT_MINIMUM: u32 = 20;
const DEFAULT_MAX_OPEN: Duration = Duration::from_secs(60);

impl CircuitBreakerBuilder {
    /// How many outcomes the window holds; the next one pushes the oldest out. Default 100, at most 10,000.
    pub const fn window(mut self, outcomes: u32) -> Self {
        self.window = outcomes;
        self
    }

    /// How many outcomes it takes before the rate means anything. Default 20, or the window where that is shorter.
    pub const fn minimum_calls(mut self, outcomes: u32) -> Self {
        self.minimum_calls = Some(outcomes);
        self
    }

    /// The share of failures in the window at which the breaker opens, above 0 and up to 1. Default 0.5.
    pub const fn failure_rate(mut self, rate: f64) -> Self {
        self.failure_rate = rate;
        self
    }

    /// How long it stays open before it lets probes through. Doubles with each reopening, up to
    /// [`max_open_time`](Self::max_open_time). Default 5 s. `Duration::MAX` means until it is told otherwise.
    pub const fn open_time(mut self, time: Duration) -> Self {
        self.open_time = time;
        self
    }

    /// The longest it stays open. Default 60 s, or the open time where that is longer. The same as the open time keeps
    /// it constant.
    pub const fn max_open_time(mut self, time: Duration) -> Self {
        self.max_open_time = Some(time);
        self
    }

    /// The share of the open time, 0 to 1, that is left to chance: it is shortened by up to this much. Default 0.1.
    pub const fn open_jitter(mut self, share: f64) -> Self {
        self.open_jitter = share;
        self
    }

    /// How many probes have to succeed before it closes, and how many may run at a time. One failure reopens it.
    /// Default 3, at most 1000.
    pub const fn probes(mut self, probes: u32) -> Self {
        self.probes = probes;
        self
    }

    /// After this long, the place of a probe that has not answered is given to another. No shorter than the deadline of
    /// a call, or slow probes pile up. Default 10 s. A late result still counts.
    pub const fn probe_lease(mut self, lease: Duration) -> Self {
        self.probe_lease = lease;
        self
    }

    /// What it counts. Default [`Count::Calls`].
    pub const fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }

    /// Makes the jitter repeatable, for tests.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds it, closed.
    ///
    /// # Errors
    ///
    /// Where a setting is out of its range or contradicts another: an empty window, a minimum above the window, a rate
    /// that is no share, no probes, no open time, a maximum below the open time.
    pub fn build(self) -> Result<CircuitBreaker, ConfigError> {
        let settings = self.settings()?;
        Ok(CircuitBreaker::of(settings, self.seed))
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let error = ConfigError::new;
        if self.window == 0 || self.window > MAX_WINDOW {
            let reason = format!("{} is not between 1 and {MAX_WINDOW}", self.window);
            return Err(error("window", reason));
        }
        let minimum_calls = self
            .minimum_calls
            .unwrap_or(DEFAULT_MINIMUM.min(self.window));
        if minimum_calls == 0 || minimum_calls > self.window {
            let reason = format!(
                "{minimum_calls} is not between 1 and the window of {}",
                self.window
            );
            return Err(error("minimum_calls", reason));
        }
        if self.probes == 0 || self.probes > 1000 {
            let reason = format!("{} is not between 1 and 1000", self.probes);
            return Err(error("probes", reason));
        }
        let max_open_time = self
            .max_open_time
            .unwrap_or(DEFAULT_MAX_OPEN.max(self.open_time));
        if self.open_time > max_open_time {
            let reason = format!(
                "{max_open_time:?} is below the open time {:?}",
                self.open_time
            );
            return Err(error("max_open_time", reason));
        }
        Ok(Settings {
            window: self.window,
            minimum_calls,
            failure_rate: share("failure_rate", self.failure_rate, 1e-6)?,
            open_time: time("open_time", self.open_time)?,
            max_open_time: time("max_open_time", max_open_time)?,
            open_jitter: share("open_jitter", self.open_jitter, 0.0)?,
            probes: self.probes,
            probe_lease: time("probe_lease", self.probe_lease)?,
            count: self.count,
        })
    }
}

/// A share in millionths, from `least` up to 1.
fn share(setting: &'static str, share: f64, least: f64) -> Result<u64, ConfigError> {
    if !(least..=1.0).contains(&share) {
        return Err(ConfigError::new(
            setting,
            format!("{share} is not between {least} and 1"),
        ));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked above to lie between 0 and 1,000,000"
    )]
    Ok((share * 1e6).round() as u64)
}

/// A time in microseconds, rounded up; what cannot be represented is as long as can be.
fn time(setting: &'static str, time: Duration) -> Result<u64, ConfigError> {
    if time.is_zero() {
        return Err(ConfigError::new(setting, "0ns is no time at all"));
    }
    let micros = time.as_nanos().div_ceil(1000);
    Ok(u64::try_from(micros).map_or(MAX_VALUE, |micros| micros.min(MAX_VALUE)))
}
