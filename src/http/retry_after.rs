//! `Retry-After`, as servers write it. Pure: the wall clock comes in as an argument.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "whatever a server sends must not panic"
)]

use std::time::{Duration, SystemTime};

use ::http::HeaderMap;
use ::http::header::{HeaderName, RETRY_AFTER};

use super::date;

/// The same in milliseconds, from servers that need less than a second.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
}

/// How long the server asks to wait, counted from the answer.
///
/// Milliseconds are the more exact word of the same server, so they count before seconds. Either field is a singleton,
/// and RFC 9110 does not say what several of them mean: the longest valid one is waited for, since the shortest could
/// be an early retry. What is malformed is as if it were absent. A date that has passed is a wait of zero, which is not
/// the same as no hint.
pub(crate) fn delay(headers: &HeaderMap, wall: &dyn Fn() -> SystemTime) -> Option<Duration> {
    let millis = longest_number(headers, &RETRY_AFTER_MS, Unit::Millis);
    if millis.is_some() {
        return millis;
    }
    let now = || date::present(headers, wall);
    let mut longest = None;
    for value in headers.get_all(RETRY_AFTER) {
        longest = longest.max(parse(value.as_bytes(), &now));
    }
    longest
}

/// The longest of the numbers in a header.
pub(super) fn longest_number(
    headers: &HeaderMap,
    name: &HeaderName,
    unit: Unit,
) -> Option<Duration> {
    let mut longest = None;
    for value in headers.get_all(name) {
        let number = text(value.as_bytes()).and_then(|text| number(text, unit));
        longest = longest.max(number);
    }
    longest
}

/// One value of `Retry-After`.
fn parse(value: &[u8], now: &dyn Fn() -> SystemTime) -> Option<Duration> {
    let value = text(value)?;
    if value.starts_with(|character: char| character.is_ascii_digit()) {
        return number(value, Unit::Seconds);
    }
    let date = date::parse(value, now)?;
    Some(date.duration_since(now()).unwrap_or(Duration::ZERO))
}

/// A field value without the optional white space around it, which is not part of it (§5.5).
pub(super) fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(trimmed(value)).ok()
}

/// The same as bytes.
pub(super) fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// `delay-seconds = 1*DIGIT`; and, though no grammar allows it, digits with a fraction, rounded up, because its intent
/// is readable and a retry must not come earlier than asked. Digits out of range mean very long, not malformed.
fn number(value: &str, unit: Unit) -> Option<Duration> {
    const VERY_LONG: Duration = Duration::from_secs(u64::MAX);
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    // How many digits of the fraction make a nanosecond.
    let (of, places): (fn(u64) -> Duration, _) = match unit {
        Unit::Seconds => (Duration::from_secs, 9),
        Unit::Millis => (Duration::from_millis, 6),
    };
    let whole = whole.parse().map_or(VERY_LONG, of);
    let kept = fraction.get(..places).unwrap_or(fraction);
    let dropped = fraction.get(places..).unwrap_or("");
    let nanos = format!("{kept:0<places$}").parse().unwrap_or(0);
    let up = u64::from(dropped.bytes().any(|digit| digit != b'0'));
    Some(
        whole
            .saturating_add(Duration::from_nanos(nanos))
            .saturating_add(Duration::from_nanos(up)),
    )
}
