//! The only file that reads the time.
//!
//! Every duration this crate measures comes from tokio's clock, so a test that pauses it controls all of them.
//! Wall time exists for one purpose, an HTTP date, and is handed to whoever needs it as a [`SystemTime`].

use std::time::Duration;
#[cfg(feature = "http")]
use std::time::SystemTime;

use tokio::time::Instant;

/// The monotonic present.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock"
)]
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The wall clock's present, for HTTP dates.
#[cfg(feature = "http")]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Nanoseconds since an instant. They saturate, after centuries.
pub(crate) fn nanos_since(instant: Instant) -> u64 {
    let since = now().saturating_duration_since(instant);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `now + after`, or none where the sum cannot be represented: "as long as it takes".
#[inline]
pub(crate) fn after(now: Instant, after: Duration) -> Option<Instant> {
    // Half of what a Duration can hold is far beyond any clock, and some platforms represent it all the same.
    if is_far(after) {
        return None;
    }
    sum(now, after)
}

/// `now + after`, or none where the sum cannot be represented.
#[inline]
pub(crate) fn sum(now: Instant, after: Duration) -> Option<Instant> {
    // tokio's own sum is this one behind another call.
    now.into_std().checked_add(after).map(Instant::from_std)
}

/// Whether whoever asks for this much asks for no limit.
pub(crate) const fn is_far(after: Duration) -> bool {
    after.as_secs() >= FAR_FUTURE.as_secs()
}

/// A thousand years: whoever asks for more asks for no limit.
pub(crate) const FAR_FUTURE: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);
