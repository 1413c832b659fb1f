//! What the last attempt was, once one has failed: a byte, since every call has room for it.

use crate::verdict::Verdict;

/// A verdict without its hint.
#[derive(Clone, Copy)]
pub(super) enum Failed {
    /// After failures.
    Success,
    Throttled,
    Refused,
    Unknown,
    Fault,
    Rejected,
}

impl Failed {
    #[inline]
    pub(super) const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Success => Self::Success,
            Verdict::Throttled { .. } => Self::Throttled,
            Verdict::Refused { .. } => Self::Refused,
            Verdict::Unknown { .. } => Self::Unknown,
            Verdict::Fault => Self::Fault,
            Verdict::Rejected => Self::Rejected,
        }
    }

    pub(super) const fn verdict(self) -> Verdict {
        match self {
            Self::Success => Verdict::Success,
            Self::Throttled => Verdict::THROTTLED,
            Self::Refused => Verdict::REFUSED,
            Self::Unknown => Verdict::UNKNOWN,
            Self::Fault => Verdict::Fault,
            Self::Rejected => Verdict::Rejected,
        }
    }
}
