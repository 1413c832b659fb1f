//! Dates as HTTP writes them (RFC 9110 §5.6.7). Pure: the wall clock comes in as an argument.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "whatever a server sends must not panic"
)]

use std::time::{Duration, SystemTime};

use ::http::HeaderMap;
use ::http::header::DATE;

/// When the response was made: by its own `Date`, so that a wrong clock of ours does not matter, else by the wall
/// clock. Of several the earliest, so that a wait counted from it is not too short.
pub(super) fn present(headers: &HeaderMap, wall: &dyn Fn() -> SystemTime) -> SystemTime {
    let mut earliest: Option<SystemTime> = None;
    for date in headers.get_all(DATE) {
        if let Some(date) = date.to_str().ok().and_then(|date| parse(date, wall)) {
            earliest = Some(earliest.map_or(date, |earliest| earliest.min(date)));
        }
    }
    earliest.unwrap_or_else(wall)
}

/// Any of the three forms that a recipient must accept.
///
/// httpdate does the calendar; a weekday that does not fit its date is malformed. It is helped in two places: the
/// two-digit year of the RFC 850 form slides with the present, where httpdate's is fixed; and second 60 is legal
/// grammar, where httpdate refuses it.
pub(super) fn parse(text: &str, now: &dyn Fn() -> SystemTime) -> Option<SystemTime> {
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
    let (date, zone) = text.split_once(" 23:59:60 ")?;
    Some(format!("{date} 23:59:59 {zone}"))
}

/// `Thursday, 01-Jan-26 00:02:00 GMT` with four digits in its year: the one that is at most 50 years ahead.
fn unfold_year(text: &str, now: &dyn Fn() -> SystemTime) -> Option<String> {
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
    let folded: u64 = year.parse().ok()?;
    let now = representable(now())?;
    let this_year: u64 = httpdate::fmt_http_date(now).get(12..16)?.parse().ok()?;
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
