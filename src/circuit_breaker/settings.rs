//! What a breaker is told, in the units the machine works in, and checked.

use std::time::Duration;

use super::builder::CircuitBreakerBuilder;
use super::count_window::MAX_WINDOW;
use super::live::{MILLION, OFF};
use super::tag::MAX_VALUE;
use crate::error::ConfigError;

/// What the breaker counts.
///
/// ```
/// use tower_composure::{CircuitBreaker, Count};
///
/// let breaker = CircuitBreaker::builder().count(Count::Attempts).build()?;
/// # let _ = breaker;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// One outcome a call, however many attempts it took: what the caller saw.
    #[default]
    Calls,
    /// Each attempt of the retry layer below: what the dependency did. It sees what retries would smooth over.
    Attempts,
}

/// What the window spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    Outcomes(u32),
    /// Microseconds.
    Time(u64),
}

/// Times are microseconds, rates millionths; [`OFF`] is a rule that is off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) window: Span,
    pub(super) count: Count,
    pub(super) minimum_calls: u64,
    pub(super) failure_rate: u64,
    pub(super) slow_limit: u64,
    /// Above zero where a call that is let through has more to it than its outcome.
    pub(super) looks_closely: u64,
    pub(super) slow_rate: u64,
    pub(super) consecutive_failures: u64,
    pub(super) open_time: u64,
    pub(super) max_open_time: u64,
    pub(super) open_jitter: u64,
    pub(super) max_open_hint: u64,
    pub(super) probes: u64,
    pub(super) probe_failure_rate: u64,
    pub(super) probe_lease: u64,
    pub(super) max_half_open: u64,
}

const DEFAULT_MINIMUM: u32 = 20;
const DEFAULT_MAX_OPEN: Duration = Duration::from_secs(60);
/// Places that there are at least, so that a running breaker can be told to probe more.
const LEAST_PLACES: u32 = 16;
const MAX_PROBES: u32 = 1000;
/// A shorter window would be cut into buckets that a scheduler's hiccup skips.
const LEAST_SPAN: Duration = Duration::from_millis(100);

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Span::Outcomes(100),
            count: Count::Calls,
            minimum_calls: 20,
            failure_rate: MILLION / 2,
            slow_limit: OFF,
            looks_closely: 0,
            slow_rate: OFF,
            consecutive_failures: OFF,
            open_time: 5 * MILLION,
            max_open_time: 60 * MILLION,
            open_jitter: MILLION / 10,
            max_open_hint: OFF,
            probes: 3,
            probe_failure_rate: OFF,
            probe_lease: 10 * MILLION,
            max_half_open: OFF,
        }
    }
}

impl Settings {
    pub(super) fn places(&self) -> u32 {
        u32::try_from(self.probes)
            .unwrap_or(MAX_PROBES)
            .max(LEAST_PLACES)
    }

    pub(super) fn of(told: &CircuitBreakerBuilder) -> Result<Self, ConfigError> {
        let (window, minimum_calls) = window(told)?;
        if told.failure_rate.is_none()
            && told.slow_calls.is_none()
            && told.consecutive_failures.is_none()
        {
            return Err(ConfigError::new(
                "failure_rate",
                "without it, slow_calls or consecutive_failures the breaker never opens",
            ));
        }
        if told.consecutive_failures == Some(0) {
            return Err(ConfigError::new("consecutive_failures", "0 is no streak"));
        }
        if told.probes == 0 || told.probes > MAX_PROBES {
            return Err(ConfigError::new(
                "probes",
                format!("{} is not between 1 and {MAX_PROBES}", told.probes),
            ));
        }
        let (slow_limit, slow_rate) = match told.slow_calls {
            None => (OFF, OFF),
            Some((limit, rate)) => (time("slow_calls", limit)?, rate_of("slow_calls", rate)?),
        };
        Ok(Self {
            window,
            count: told.count,
            minimum_calls,
            failure_rate: optional(told.failure_rate, |rate| rate_of("failure_rate", rate))?,
            slow_limit,
            looks_closely: u64::from(told.count == Count::Attempts || slow_limit != OFF),
            slow_rate,
            consecutive_failures: told.consecutive_failures.map_or(OFF, u64::from),
            open_time: time("open_time", told.open_time)?,
            max_open_time: max_open_time(told)?,
            open_jitter: share("open_jitter", told.open_jitter, 0.0)?,
            max_open_hint: optional(told.max_open_hint, |most| time("max_open_hint", most))?,
            probes: u64::from(told.probes),
            probe_failure_rate: optional(told.probe_failure_rate, |rate| {
                rate_of("probe_failure_rate", rate)
            })?,
            probe_lease: time("probe_lease", told.probe_lease)?,
            max_half_open: optional(told.max_half_open, |most| time("max_half_open", most))?,
        })
    }

    /// Whether a running breaker of these settings can take others.
    pub(super) fn check_change(&self, to: &Self) -> Result<(), ConfigError> {
        let fixed = |setting| {
            Err(ConfigError::new(
                setting,
                "cannot be changed while the breaker runs: make a new one",
            ))
        };
        if self.window != to.window {
            return fixed("window");
        }
        if self.count != to.count {
            return fixed("count");
        }
        if to.places() > self.places() {
            return Err(ConfigError::new(
                "probes",
                format!(
                    "{} is above the {} that there is room for",
                    to.probes,
                    self.places()
                ),
            ));
        }
        Ok(())
    }
}

/// The window, and how many outcomes in it mean anything.
fn window(told: &CircuitBreakerBuilder) -> Result<(Span, u64), ConfigError> {
    let default = |most: u32| told.minimum_calls.unwrap_or(DEFAULT_MINIMUM.min(most));
    let (span, most, minimum) = match told.time_window {
        Some(span) if span < LEAST_SPAN => {
            return Err(ConfigError::new(
                "time_window",
                format!("{span:?} is below {LEAST_SPAN:?}"),
            ));
        }
        Some(span) => {
            let span = Span::Time(time("time_window", span)?);
            (span, u32::MAX, default(u32::MAX))
        }
        None if told.window == 0 || told.window > MAX_WINDOW => {
            return Err(ConfigError::new(
                "window",
                format!("{} is not between 1 and {MAX_WINDOW}", told.window),
            ));
        }
        None => (
            Span::Outcomes(told.window),
            told.window,
            default(told.window),
        ),
    };
    if minimum == 0 || minimum > most {
        return Err(ConfigError::new(
            "minimum_calls",
            format!("{minimum} is not between 1 and the window of {most}"),
        ));
    }
    Ok((span, u64::from(minimum)))
}

fn max_open_time(told: &CircuitBreakerBuilder) -> Result<u64, ConfigError> {
    let most = told
        .max_open_time
        .unwrap_or(DEFAULT_MAX_OPEN.max(told.open_time));
    if told.open_time > most {
        return Err(ConfigError::new(
            "max_open_time",
            format!("{most:?} is below the open time {:?}", told.open_time),
        ));
    }
    time("max_open_time", most)
}

fn optional<T>(
    value: Option<T>,
    check: impl FnOnce(T) -> Result<u64, ConfigError>,
) -> Result<u64, ConfigError> {
    value.map_or(Ok(OFF), check)
}

/// A rate at which something happens: any share but nothing.
fn rate_of(setting: &'static str, rate: f64) -> Result<u64, ConfigError> {
    share(setting, rate, 1e-6)
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
        clippy::cast_precision_loss,
        reason = "checked above to lie between 0 and 1,000,000"
    )]
    // Down, so that two of three reach a rate of two thirds; the little more is for products that end just below.
    Ok((share * MILLION as f64 + 1e-3).floor() as u64)
}

/// A time in microseconds, rounded up; what cannot be represented is as long as can be.
fn time(setting: &'static str, time: Duration) -> Result<u64, ConfigError> {
    if time.is_zero() {
        return Err(ConfigError::new(setting, "0ns is no time at all"));
    }
    Ok(micros(time))
}

pub(super) fn micros(time: Duration) -> u64 {
    let micros = time.as_nanos().div_ceil(1000);
    u64::try_from(micros).map_or(MAX_VALUE, |micros| micros.min(MAX_VALUE))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_millionths_that_it_says() {
        for (told, millionths) in [
            (0.0, 0),
            (1e-6, 1),
            (0.29, 290_000),
            (0.5, 500_000),
            (0.57, 570_000),
            (2.0 / 3.0, 666_666),
            (1.0, 1_000_000),
        ] {
            assert_eq!(share("x", told, 0.0).unwrap(), millionths, "{told}");
        }
    }

    #[test]
    fn the_largest_window_and_the_most_probes_are_taken_and_no_more() {
        let build = CircuitBreakerBuilder::default;
        let refused = |told: CircuitBreakerBuilder| Settings::of(&told).err().map(|e| e.setting());
        for (told, setting) in [
            (build().window(MAX_WINDOW), None),
            (build().window(MAX_WINDOW + 1), Some("window")),
            (build().window(MAX_WINDOW + 2), Some("window")),
            (build().probes(MAX_PROBES), None),
            (build().probes(MAX_PROBES + 1), Some("probes")),
            (build().probes(MAX_PROBES + 2), Some("probes")),
        ] {
            assert_eq!(refused(told), setting);
        }
    }
}
