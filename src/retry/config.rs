use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{Backoff, RetrySwitch};
use crate::observer::Observer;
use crate::report::CallReport;
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
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) dependency: Arc<str>,
}

impl Settings {
    #[inline]
    pub(super) fn allows_attempt_after(&self, number: u32) -> bool {
        self.max_attempts.is_none_or(|max| number < max)
    }

    /// Tells the observer, whose panic is not the call's.
    pub(super) fn observe(&self, report: &CallReport) {
        if let Some(observer) = &self.observer {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                observer.call_finished(&self.dependency, report);
            }));
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
