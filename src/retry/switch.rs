use std::sync::Arc;

use crate::sync::{AtomicU8, Ordering};

/// Whether retries are made.
///
/// ```
/// use tower_composure::{RetryMode, RetrySwitch};
///
/// let switch = RetrySwitch::new();
/// switch.set(RetryMode::ObserveOnly); // decide and report, but send no retry
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryMode {
    /// They are.
    #[default]
    On,
    /// They are not: each call makes one attempt, and no request is copied.
    Off,
    /// They are decided and reported, but not sent, and no token is taken.
    ObserveOnly,
}

/// Switches the retries of a layer on and off while it runs. Clones share the switch.
///
/// ```
/// use tower_composure::{Effect, RetryLayer, RetryMode};
///
/// let layer = RetryLayer::new(Effect::Read);
/// layer.switch().set(RetryMode::Off);
/// assert_eq!(layer.switch().mode(), RetryMode::Off);
/// ```
#[derive(Debug, Clone, Default)]
pub struct RetrySwitch {
    mode: Arc<AtomicU8>,
}

impl RetrySwitch {
    /// On, until it is told otherwise.
    ///
    /// ```
    /// use tower_composure::{RetryMode, RetrySwitch};
    ///
    /// assert_eq!(RetrySwitch::new().mode(), RetryMode::On);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes effect with the next call, and with the next decision of calls that are under way.
    ///
    /// ```
    /// use tower_composure::{RetryMode, RetrySwitch};
    ///
    /// let switch = RetrySwitch::new();
    /// switch.clone().set(RetryMode::Off);
    /// assert_eq!(switch.mode(), RetryMode::Off);
    /// ```
    pub fn set(&self, mode: RetryMode) {
        // Nothing else is published with the mode, so its order to other memory does not matter.
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == RetryMode::On as u8
    }

    /// The mode now.
    ///
    /// ```
    /// use tower_composure::{RetryMode, RetrySwitch};
    ///
    /// assert_eq!(RetrySwitch::new().mode(), RetryMode::On);
    /// ```
    #[inline]
    pub fn mode(&self) -> RetryMode {
        match self.mode.load(Ordering::Relaxed) {
            0 => RetryMode::On,
            1 => RetryMode::Off,
            _ => RetryMode::ObserveOnly,
        }
    }
}
