//! When a call began that somebody watches: one word, since every call has room for it.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock;

/// Nanoseconds after its layer was built.
#[derive(Clone, Copy)]
pub(super) struct Started(u64);

impl Started {
    pub(super) const UNWATCHED: Self = Self(u64::MAX);

    /// A call of a layer that was built at this instant begins now.
    pub(super) fn now(built: Instant) -> Self {
        Self(clock::nanos_since(built).min(Self::UNWATCHED.0 - 1))
    }

    #[inline]
    pub(super) const fn is_watched(self) -> bool {
        self.0 != Self::UNWATCHED.0
    }

    /// How long ago that was, where anybody wants to know.
    pub(super) fn elapsed(self, built: Instant) -> Option<Duration> {
        self.is_watched()
            .then(|| Duration::from_nanos(clock::nanos_since(built).saturating_sub(self.0)))
    }
}
