//! What the codes of failures mean. Pure.

use serde_json::{Map, Value};

use super::ToolResponse;
use crate::verdict::Verdict;

/// No tool has that name.
pub(super) const UNKNOWN_TOOL: &str = "UNKNOWN_TOOL";
/// The tool may have done what was asked.
pub(super) const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";
/// It was refused, and the code is not one that we know.
pub(super) const REJECTED: &str = "REJECTED";

/// The codes that a repeat does not help against.
const REJECTIONS: [&str; 12] = [
    "INVALID_ARGUMENT",
    "OUT_OF_RANGE",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "FAILED_PRECONDITION",
    "UNIMPLEMENTED",
    UNKNOWN_TOOL,
    REJECTED,
    QUOTA_EXCEEDED,
    BILLING,
];

pub(super) const QUOTA_EXCEEDED: &str = "QUOTA_EXCEEDED";
pub(super) const BILLING: &str = "BILLING_ERROR";

/// The verdict on a code, by the table of the module.
pub(super) fn verdict(code: &str) -> Verdict {
    match code {
        "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "ABORTED" | "CANCELLED" | OUTCOME_UNKNOWN => {
            Verdict::UNKNOWN
        }
        "RATE_LIMITED" | "THROTTLED" | "RESOURCE_EXHAUSTED" => Verdict::THROTTLED,
        _ if rejection(code).is_some() => Verdict::Rejected,
        _ => Verdict::Fault,
    }
}

/// Our own word for a code that a repeat does not help against, so that no text of a tool's goes further.
pub(super) fn rejection(code: &str) -> Option<&'static str> {
    let known = REJECTIONS.iter().find(|known| **known == code).copied();
    known.or_else(|| about_money(code))
}

/// A quota that is used up or an account that is not paid looks like throttling, and no wait ends it.
fn about_money(code: &str) -> Option<&'static str> {
    let code = code.to_ascii_uppercase();
    if matches!(code.as_str(), QUOTA_EXCEEDED | "INSUFFICIENT_QUOTA") {
        Some(QUOTA_EXCEEDED)
    } else {
        code.starts_with("BILLING_").then_some(BILLING)
    }
}

/// A map that says it failed.
pub(super) fn failure(code: &str) -> ToolResponse {
    let mut error = Map::new();
    error.insert("code".to_owned(), code.into());
    let mut map = Map::new();
    map.insert("status".to_owned(), "error".into());
    map.insert("error".to_owned(), Value::Object(error));
    map
}
