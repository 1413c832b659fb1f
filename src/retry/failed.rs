//! What the last attempt was, once one has failed: a few bits, since every call has room for it.

use crate::verdict::Verdict;

/// A verdict without its hint.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(super) enum Failed {
    /// After failures.
    Success = 1 << Self::SHIFT,
    Throttled = 2 << Self::SHIFT,
    Refused = 3 << Self::SHIFT,
    Unknown = 4 << Self::SHIFT,
    Fault = 5 << Self::SHIFT,
    Rejected = 6 << Self::SHIFT,
}

impl Failed {
    pub(super) const SHIFT: u32 = 12;

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

    /// What these bits say; with none of them nothing has failed.
    pub(super) const fn of_bits(bits: u64) -> Option<Self> {
        match bits >> Self::SHIFT {
            1 => Some(Self::Success),
            2 => Some(Self::Throttled),
            3 => Some(Self::Refused),
            4 => Some(Self::Unknown),
            5 => Some(Self::Fault),
            6 => Some(Self::Rejected),
            _ => None,
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_is_read_as_it_was_written() {
        for verdict in [
            Verdict::Success,
            Verdict::THROTTLED,
            Verdict::REFUSED,
            Verdict::UNKNOWN,
            Verdict::Fault,
            Verdict::Rejected,
        ] {
            let failed = Failed::of_bits(Failed::of(verdict) as u64);
            assert_eq!(failed.map(Failed::verdict), Some(verdict));
        }
        assert!(Failed::of_bits(0).is_none());
    }
}
