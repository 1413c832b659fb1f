//! What a retry leaves to the others in a stack of them.

use crate::context::{self, Frame};

/// Whether a success is this retry's to be paid for: that of a call that it owns, or one that nobody owns and that no retry
/// below has counted in this poll.
#[inline]
pub(super) fn earns(below: Frame) -> bool {
    below.is_own() || earns_unowned(below)
}

#[cold]
#[inline(never)]
fn earns_unowned(below: Frame) -> bool {
    !below.is_nested() && context::published_attempt().is_none()
}

/// Whether a retry below has repeated its call in vain, in this poll. Where nobody owns the call, as over a write without a
/// key, attempts would multiply if this one repeated it too.
#[inline]
pub(super) fn has_repeated() -> bool {
    context::has_published(|report| report.attempts() > 1 && !report.verdict().is_success())
}
