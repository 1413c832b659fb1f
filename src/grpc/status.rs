//! What the headers or the trailers of an answer say. Pure.

use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue};

use super::Code;
use crate::verdict::Hint;
use crate::wire::digits;

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(super) const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The end of a call, and the wait that came with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) pushback: Option<Hint>,
}

impl Status {
    /// A body that ended and said nothing.
    pub(super) const MISSING: Self = Self {
        code: Code::Unknown,
        pushback: None,
    };

    /// The status in these fields; `None` where there is none, which in headers means that it is still to come.
    pub(super) fn read(fields: &HeaderMap) -> Option<Self> {
        let status = fields.get(STATUS)?;
        Some(Self {
            // What is not a number is a status that nobody defined.
            code: digits(status.as_bytes()).map_or(Code::Unknown, Code::from_number),
            pushback: pushback(fields),
        })
    }
}

/// `grpc-retry-pushback-ms` (gRFC A6, "Pushback"): a signed 32-bit number of milliseconds in ASCII, without unnecessary
/// zeros. It is waited for exactly; a negative one, and one that cannot be read, asks for no retry. Of several fields
/// the one that asks for more counts.
pub(super) fn pushback(fields: &HeaderMap) -> Option<Hint> {
    fields
        .get_all(PUSHBACK)
        .iter()
        .map(|value| parse_pushback(value).map_or_else(Hint::never, Hint::exactly))
        .max_by_key(|hint| hint.wait())
}

fn parse_pushback(value: &HeaderValue) -> Option<Duration> {
    let value = value.as_bytes();
    let is_padded = value.len() > 1 && value.first() == Some(&b'0');
    let millis = digits(value).filter(|_| !is_padded)?;
    let millis = i32::try_from(millis).ok()?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}
