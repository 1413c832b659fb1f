//! `Retry-After`, as servers write it. Pure: the wall clock comes in as an argument.

use std::time::{Duration, SystemTime};

use ::http::HeaderMap;
use ::http::header::{DATE, RETRY_AFTER};

/// How long the server asks to wait, counted from the answer.
///
/// The field is a singleton, and RFC 9110 does not say what several of them mean: the longest valid one is waited for,
/// since the shortest could be an early retry. What is malformed is as if it were absent. A date that has passed is a
/// wait of zero, which is not the same as no hint.
pub(super) fn delay(headers: &HeaderMap, wall: impl Fn() -> SystemTime) -> Option<Duration> {
    let values = headers.get_all(RETRY_AFTER);
    let now = || {
        headers
            .get(DATE)
            .and_then(|date| date.to_str().ok())
            .and_then(|date| parse_date(date, &wall))
            .unwrap_or_else(&wall)
    };
    values
        .iter()
        .filter_map(|value| parse(value.as_bytes(), &now))
        .max()
}

/// One field value.
fn parse(value: &[u8], now: &impl Fn() -> SystemTime) -> Option<Duration> {
    // Optional white space around a field value is not part of it (§5.5).
    let value = std::str::from_utf8(value).ok()?;
    let value = value.trim_matches([' ', '\t']);
    if value.starts_with(|character: char| character.is_ascii_digit()) {
        return parse_seconds(value);
    }
    let date = parse_date(value, now)?;
    Some(date.duration_since(now()).unwrap_or(Duration::ZERO))
}

/// `delay-seconds = 1*DIGIT`; and, though no grammar allows it, digits with a fraction, rounded up, because its intent
/// is readable and a retry must not come earlier than asked. Digits out of range mean very long, not malformed.
fn parse_seconds(value: &str) -> Option<Duration> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let seconds = Duration::from_secs(whole.parse().unwrap_or(u64::MAX));
    let kept = fraction.get(..9).unwrap_or(fraction);
    let dropped = fraction.get(9..).unwrap_or("");
    let nanos: u32 = format!("{kept:0<9}").parse().unwrap_or(0);
    let nanos = Duration::from_nanos(u64::from(nanos));
    let up = Duration::from_nanos(u64::from(dropped.bytes().any(|digit| digit != b'0')));
    Some(seconds.saturating_add(nanos).saturating_add(up))
}

/// Any of the three forms that a recipient must accept (§5.6.7).
///
/// httpdate does the calendar; a weekday that does not fit its date is malformed. It is helped in two places: the two-digit year of the RFC 850 form slides with the
/// present, where httpdate's is fixed; and second 60 is legal grammar, where httpdate refuses it.
fn parse_date(text: &str, now: &impl Fn() -> SystemTime) -> Option<SystemTime> {
    let unfolded = unfold_year(text, now);
    let text = unfolded.as_deref().unwrap_or(text);
    let Some(leap) = leap_second(text) else {
        return httpdate::parse_http_date(text).ok();
    };
    let before = httpdate::parse_http_date(&leap).ok()?;
    before.checked_add(Duration::from_secs(1))
}

/// The date one second earlier, where it is at second 60 of the last minute of a day.
fn leap_second(text: &str) -> Option<String> {
    text.contains(" 23:59:60 ")
        .then(|| text.replacen(" 23:59:60 ", " 23:59:59 ", 1))
}

/// `Thursday, 01-Jan-26 00:02:00 GMT` with four digits in its year: the one that is at most 50 years ahead.
fn unfold_year(text: &str, now: &impl Fn() -> SystemTime) -> Option<String> {
    let (weekday, rest) = text.split_once(", ")?;
    let (date, time) = rest.split_once(' ')?;
    let mut parts = date.splitn(3, '-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 2 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let short = weekday.get(..3)?;
    let full = [
        "Sunday",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
    ];
    if !full.contains(&weekday) {
        return None;
    }
    let folded: u32 = year.parse().ok()?;
    let now = representable(now())?;
    let this_year: u32 = httpdate::fmt_http_date(now).get(12..16)?.parse().ok()?;
    let latest = this_year.saturating_add(50);
    let back = latest.saturating_sub(folded).checked_rem(100)?;
    let year = latest.saturating_sub(back);
    Some(format!("{short}, {day} {month} {year} {time}"))
}

/// The same time, where httpdate can write it: it panics outside of the years 1970 to 9999, where a wrong clock may be,
/// and where second 60 of the last of them is.
fn representable(time: SystemTime) -> Option<SystemTime> {
    const YEAR_10000: u64 = 253_402_300_800;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    (since.as_secs() < YEAR_10000).then_some(time)
}
