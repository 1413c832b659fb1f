//! What the attempts of a call that have failed leave behind: two bytes, since every call has room for them.

use crate::report::CallReport;
use crate::verdict::Verdict;

#[derive(Clone, Copy)]
pub(super) struct Failed {
    last: Kind,
    /// An attempt may have had its effect.
    unknown: bool,
}

/// A verdict without its hint.
#[derive(Clone, Copy)]
enum Kind {
    Success,
    Throttled,
    Refused,
    Unknown,
    Fault,
    Rejected,
}

impl Failed {
    /// The last attempt has ended, after failures or as the first one. `unknown` says that it may have had its effect.
    #[inline]
    pub(super) fn after(earlier: Option<Self>, verdict: Verdict, unknown: bool) -> Self {
        let unknown = unknown || earlier.is_some_and(|failed| failed.unknown);
        Self {
            last: Kind::of(verdict),
            unknown: unknown && !verdict.is_success(),
        }
    }

    /// Adds it to the report of a call of which nothing has failed.
    pub(super) const fn add_to(self, report: &mut CallReport) {
        report.verdict = self.last.verdict();
        report.outcome_unknown = self.unknown;
    }
}

impl Kind {
    #[inline]
    const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Success => Self::Success,
            Verdict::Throttled { .. } => Self::Throttled,
            Verdict::Refused { .. } => Self::Refused,
            Verdict::Unknown { .. } => Self::Unknown,
            Verdict::Fault => Self::Fault,
            Verdict::Rejected => Self::Rejected,
        }
    }

    const fn verdict(self) -> Verdict {
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
