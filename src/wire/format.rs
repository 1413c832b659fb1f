//! How a remaining time is written. Pure.

use std::time::Duration;

use ::http::HeaderValue;

/// How a header says how much time is left.
///
/// ```
/// use std::time::Duration;
/// use tower_composure::wire::TimeoutFormat;
///
/// let written = TimeoutFormat::Grpc.write(Duration::from_millis(1500)).unwrap();
/// assert_eq!(written, "1500000u");
/// assert_eq!(TimeoutFormat::Grpc.read(b"1500m"), Some(Duration::from_millis(1500)));
/// assert_eq!(TimeoutFormat::Millis.read(b"1500"), Some(Duration::from_millis(1500)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutFormat {
    /// `grpc-timeout`: one to eight digits and a unit, one of `H M S m u n` (gRPC over HTTP/2, "Requests").
    Grpc,
    /// Milliseconds: digits and nothing else.
    Millis,
}

const NANOS_A_MILLI: u128 = 1_000_000;

/// The units of gRPC, the finest first, and what they are worth in nanoseconds.
const UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', NANOS_A_MILLI),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// The most that eight digits hold.
const EIGHT_DIGITS: u128 = 99_999_999;

impl TimeoutFormat {
    /// Writes a remaining time, rounded down so that it never says more than there is, in the finest unit that it fits
    /// in. What is longer than can be written is written as the longest.
    ///
    /// `None` where less than the smallest unit is left (1 ns, 1 ms): a timeout of zero is not legal in gRPC, and means
    /// "no limit" to some proxies.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::wire::TimeoutFormat;
    ///
    /// assert_eq!(TimeoutFormat::Millis.write(Duration::from_micros(1_999)).unwrap(), "1");
    /// assert_eq!(TimeoutFormat::Millis.write(Duration::from_micros(999)), None);
    /// ```
    pub fn write(self, remaining: Duration) -> Option<HeaderValue> {
        let nanos = remaining.as_nanos();
        match self {
            Self::Grpc => {
                let longest = (EIGHT_DIGITS, b'H');
                let (number, unit) = UNITS
                    .iter()
                    .filter_map(|(unit, worth)| Some((nanos.checked_div(*worth)?, *unit)))
                    .find(|(number, _)| *number <= EIGHT_DIGITS)
                    .unwrap_or(longest);
                let unit = char::from(unit);
                written(number, || format!("{number}{unit}"))
            }
            Self::Millis => {
                let number = nanos.checked_div(NANOS_A_MILLI)?;
                // Nobody waits for longer than 64 bits of milliseconds, and few parsers hold more.
                let number = number.min(u128::from(u64::MAX));
                written(number, || number.to_string())
            }
        }
    }

    /// Reads a field value. `None` for what does not fit the grammar; spaces around it are not part of it (RFC 9110
    /// §5.5). Zero is what some peers send for a time that is already up, and is read as that.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::wire::TimeoutFormat;
    ///
    /// assert_eq!(TimeoutFormat::Grpc.read(b"2S"), Some(Duration::from_secs(2)));
    /// assert_eq!(TimeoutFormat::Grpc.read(b"2 S"), None);
    /// ```
    pub fn read(self, value: &[u8]) -> Option<Duration> {
        let value = value.trim_ascii();
        match self {
            Self::Grpc => {
                let (unit, number) = value.split_last()?;
                if number.len() > 8 {
                    return None;
                }
                let (_, worth) = UNITS.iter().find(|(known, _)| known == unit)?;
                let nanos = u128::from(digits(number)?).checked_mul(*worth)?;
                duration(nanos)
            }
            Self::Millis => Some(Duration::from_millis(digits(value)?)),
        }
    }
}

fn written(number: u128, text: impl FnOnce() -> String) -> Option<HeaderValue> {
    if number == 0 {
        return None;
    }
    HeaderValue::try_from(text()).ok()
}

/// `1*DIGIT`, with no sign. Digits out of range mean very long, not malformed.
pub(crate) fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let text = std::str::from_utf8(value).ok()?;
    Some(text.parse().unwrap_or(u64::MAX))
}

fn duration(nanos: u128) -> Option<Duration> {
    const A_SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos.checked_div(A_SECOND)?).ok()?;
    let rest = u32::try_from(nanos.checked_rem(A_SECOND)?).ok()?;
    Some(Duration::new(seconds, rest))
}
