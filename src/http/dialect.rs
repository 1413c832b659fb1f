//! How servers say when a quota comes back, beyond `Retry-After`. Pure: the wall clock comes in as an argument.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "whatever a server sends must not panic"
)]

use std::time::{Duration, SystemTime};

use ::http::header::AGE;
use ::http::{HeaderMap, HeaderName};

use super::date;
use super::retry_after::{Unit, longest_number};
use super::structured::{self, Value};
use crate::verdict::Verdict;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// How a server says when a quota comes back, where it does not say `Retry-After`. None is read unless
/// [`HttpPolicy::dialect`](crate::HttpPolicy::dialect) names it, because `X-RateLimit-Reset: 30` may be a delay, a
/// time, seconds or milliseconds, and a guess may be an early retry.
///
/// A valid `Retry-After` or `retry-after-ms` takes precedence over all of them. What is malformed is as if it were
/// absent, digits out of range mean very long, fractions are rounded up, and of several values the longest wait counts.
///
/// A server sends its reset times with every answer, so the named headers are read only where the verdict is
/// [`Throttled`](Verdict::Throttled): beside a 503 they do not say when to come back. `RateLimit` says whether anything
/// is left, and counts wherever a retry may follow.
///
/// ```
/// use http::HeaderName;
/// use tower_composure::HttpPolicy;
/// use tower_composure::http::Dialect;
///
/// let policy = HttpPolicy::new()
///     .dialect(Dialect::RateLimit)
///     .dialect(Dialect::EpochSeconds(HeaderName::from_static("x-ratelimit-reset")));
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `RateLimit: "default";r=0;t=30` (draft-ietf-httpapi-ratelimit-headers): nothing is left, and `t` seconds until
    /// there is. Where something is left (`r` above zero), or no time is given, there is no hint. Not read from a
    /// response out of a cache, one with `Age`.
    RateLimit,
    /// A header with the seconds until the quota comes back.
    DeltaSeconds(HeaderName),
    /// A header with the milliseconds until the quota comes back.
    DeltaMillis(HeaderName),
    /// A header with the time at which the quota comes back, in seconds since 1970. A time that has passed is a wait of
    /// zero. Like a date in `Retry-After`, it is relative to the response's own `Date`.
    EpochSeconds(HeaderName),
    /// The same in milliseconds since 1970.
    EpochMillis(HeaderName),
}

impl Dialect {
    /// How long the server asks to wait, counted from an answer of this verdict.
    pub(super) fn delay(
        &self,
        verdict: Verdict,
        headers: &HeaderMap,
        wall: &dyn Fn() -> SystemTime,
    ) -> Option<Duration> {
        let throttled = matches!(verdict, Verdict::Throttled { .. });
        let number = |name, unit| {
            let number = longest_number(headers, name, unit);
            number.filter(|_| throttled)
        };
        let until = |time| until(time, date::present(headers, wall));
        match self {
            Self::RateLimit => rate_limit(headers),
            Self::DeltaSeconds(name) => number(name, Unit::Seconds),
            Self::DeltaMillis(name) => number(name, Unit::Millis),
            Self::EpochSeconds(name) => number(name, Unit::Seconds).map(until),
            Self::EpochMillis(name) => number(name, Unit::Millis).map(until),
        }
    }
}

/// From now until a time since 1970, zero where it has passed.
fn until(time: Duration, now: SystemTime) -> Duration {
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(now) => time.saturating_sub(now),
        Err(before) => time.saturating_add(before.duration()),
    }
}

/// The longest time of the quotas in which nothing is left.
fn rate_limit(headers: &HeaderMap) -> Option<Duration> {
    if headers.contains_key(AGE) {
        return None;
    }
    let mut field = Vec::new();
    for (index, line) in headers.get_all(RATE_LIMIT).iter().enumerate() {
        if index > 0 {
            field.extend_from_slice(b", ");
        }
        field.extend_from_slice(line.as_bytes());
    }
    let mut longest = None;
    structured::strings(&field, ["r", "t"], |[left, time]| {
        let left = seconds(left?)?;
        let time = time.map(seconds);
        if let Some(time) = time {
            let time = Duration::from_secs(time?);
            longest = longest.max((left == 0).then_some(time));
        }
        Some(())
    })?;
    longest
}

/// A non-negative integer.
fn seconds(value: Value) -> Option<u64> {
    match value {
        Value::Integer(seconds) => u64::try_from(seconds).ok(),
        Value::Other => None,
    }
}
