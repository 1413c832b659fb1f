use std::fmt;
use std::time::Duration;

use super::{Backoff, RetrySwitch};
use crate::observer::{Observer, Watch};
use crate::rng::Random;

/// What all services of a layer share.
pub(super) struct Config<P, R, D> {
    pub(super) policy: P,
    pub(super) replay: R,
    pub(super) release: D,
    pub(super) settings: Settings,
}

/// What does not depend on a type.
pub(super) struct Settings {
    // None: as many as the other limits allow.
    pub(super) max_attempts: Option<u32>,
    pub(super) backoff: Backoff,
    pub(super) max_hint: Duration,
    pub(super) nested: bool,
    pub(super) honours_keys: bool,
    pub(super) switch: RetrySwitch,
    pub(super) random: Random,
    pub(super) watch: Option<Watch>,
}

impl Settings {
    #[inline]
    pub(super) fn allows_attempt_after(&self, number: u32) -> bool {
        self.max_attempts.is_none_or(|max| number < max)
    }

    /// Tells the observer, where there is one.
    #[inline]
    pub(super) fn tell(&self, event: impl FnOnce(&dyn Observer, &str)) {
        if let Some(watch) = &self.watch {
            watch.tell(event);
        }
    }
}

impl Settings {
    pub(super) fn debug(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        f.debug_struct(name)
            .field("max_attempts", &self.max_attempts)
            .field("backoff", &self.backoff)
            .field("max_hint", &self.max_hint)
            .field("mode", &self.switch.mode())
            .finish_non_exhaustive()
    }
}
