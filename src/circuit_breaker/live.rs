//! The settings as they are now: plain atomics, so that a running breaker can be told otherwise without a lock.
//!
//! A call may see some settings of before and some of after a reconfiguration that happens beside it. Each of them is
//! valid by itself, and the next call sees them all.

use super::probes::Tally;
use super::settings::Settings;
use super::tag::MAX_VALUE;
use super::window::Counts;
use crate::rng::within;
use crate::sync::{AtomicU64, Ordering};

/// A million millionths.
pub(super) const MILLION: u64 = 1_000_000;

/// The value of a rule that is switched off.
pub(super) const OFF: u64 = u64::MAX;

macro_rules! live {
    ($($field:ident),* $(,)?) => {
        /// One cell for each setting; see [`Settings`] for the units.
        #[derive(Debug)]
        pub(super) struct Live {
            $($field: AtomicU64,)*
        }

        impl Live {
            pub(super) fn new(settings: &Settings) -> Self {
                Self { $($field: AtomicU64::new(settings.$field),)* }
            }

            /// Takes effect with the next outcome, and with the next call.
            pub(super) fn set(&self, settings: &Settings) {
                $(self.$field.store(settings.$field, Ordering::Relaxed);)*
            }
        }
    };
}

live! {
    minimum_calls,
    failure_rate,
    slow_limit,
    looks_closely,
    slow_rate,
    consecutive_failures,
    open_time,
    max_open_time,
    open_jitter,
    max_open_hint,
    probes,
    probe_failure_rate,
    probe_lease,
    max_half_open,
}

/// What the probes so far say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeVerdict {
    Wait,
    Close,
    Reopen,
}

impl Live {
    pub(super) fn probes(&self) -> u64 {
        self.probes.load(Ordering::Relaxed)
    }

    pub(super) fn probe_lease(&self) -> u64 {
        self.probe_lease.load(Ordering::Relaxed)
    }

    pub(super) fn max_half_open(&self) -> Option<u64> {
        on(&self.max_half_open)
    }

    /// Whether a call that is let through has more to it than its outcome: it is measured, or its attempts are counted.
    #[inline]
    pub(super) fn looks_closely(&self) -> bool {
        self.looks_closely.load(Ordering::Relaxed) != 0
    }

    /// Whether durations matter at all, so that nobody reads a clock where they do not.
    #[inline]
    pub(super) fn measures(&self) -> bool {
        on(&self.slow_limit).is_some()
    }

    #[inline]
    pub(super) fn is_slow(&self, took: Option<u64>) -> bool {
        match (took, on(&self.slow_limit)) {
            (Some(took), Some(limit)) => took >= limit,
            _ => false,
        }
    }

    /// Whether these counts open the breaker.
    pub(super) fn trips(&self, counts: Counts) -> bool {
        let total = u64::from(counts.total);
        if total < self.minimum_calls.load(Ordering::Relaxed) {
            return false;
        }
        let reaches = |part: u32, rate: &AtomicU64| {
            on(rate).is_some_and(|rate| {
                u64::from(part).saturating_mul(MILLION) >= rate.saturating_mul(total)
            })
        };
        reaches(counts.failures, &self.failure_rate) || reaches(counts.slow, &self.slow_rate)
    }

    #[inline]
    pub(super) fn trips_in_a_row(&self, streak: u64) -> bool {
        on(&self.consecutive_failures).is_some_and(|limit| streak >= limit)
    }

    /// Whether the probes have failed: any of them, or a share of them once all have ended.
    pub(super) fn probes_fail(&self, tally: Tally, decided: bool) -> bool {
        match on(&self.probe_failure_rate) {
            None => tally.failures > 0,
            Some(rate) => {
                let total = tally.successes.saturating_add(tally.failures);
                decided && tally.failures.saturating_mul(MILLION) >= rate.saturating_mul(total)
            }
        }
    }

    /// What the probes that have ended say.
    pub(super) fn verdict_on(&self, tally: Tally) -> ProbeVerdict {
        let decided = tally.successes.saturating_add(tally.failures) >= self.probes();
        if self.probes_fail(tally, decided) {
            ProbeVerdict::Reopen
        } else if decided {
            ProbeVerdict::Close
        } else {
            ProbeVerdict::Wait
        }
    }

    /// How much of a hint may extend the open time.
    #[inline]
    pub(super) fn open_hint(&self, hint: Option<u64>) -> u64 {
        match (hint, on(&self.max_open_hint)) {
            (Some(hint), Some(most)) => hint.min(most),
            _ => 0,
        }
    }

    /// How long it stays open, the `reopened`th time in a row: doubling up to the maximum, less a random part, so that
    /// breakers that opened together do not probe together.
    pub(super) fn open_for(&self, reopened: u8, random: u64) -> u64 {
        let most = self.max_open_time.load(Ordering::Relaxed);
        let factor = 1_u64.checked_shl(u32::from(reopened)).unwrap_or(u64::MAX);
        let open_time = self.open_time.load(Ordering::Relaxed);
        let whole = open_time.saturating_mul(factor).min(most);
        if whole >= MAX_VALUE {
            return MAX_VALUE;
        }
        let jitter = self.open_jitter.load(Ordering::Relaxed);
        let span = u128::from(whole)
            .saturating_mul(u128::from(jitter))
            .checked_div(u128::from(MILLION))
            .unwrap_or(0);
        let less = within(span, u64::MAX.saturating_sub(random));
        whole.saturating_sub(u64::try_from(less).unwrap_or(whole))
    }
}

/// The value of a rule, where it is on.
#[inline]
fn on(cell: &AtomicU64) -> Option<u64> {
    let value = cell.load(Ordering::Relaxed);
    (value != OFF).then_some(value)
}
