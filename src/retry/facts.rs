//! What is so of a call, whichever attempt it is at: a byte, since every call has room for it.

use crate::attempt::Attempt;

/// What each attempt has in common, and two things of the call itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts(u8);

// Where an attempt has none.
const BUDGETED: u8 = 1 << 6;
const UNKNOWN: u8 = 1 << 7;

impl Facts {
    /// A call begins whose first attempt this is, with a budget lent or without.
    #[inline]
    pub(super) const fn begin(attempt: Attempt, budgeted: bool) -> Self {
        let budgeted = if budgeted { BUDGETED } else { 0 };
        Self(attempt.facts() as u8 | budgeted)
    }

    #[inline]
    pub(super) const fn attempt(self, number: u32) -> Attempt {
        Attempt::first_of(self.0 as u64).with_number(number)
    }

    /// A budget was lent when the call began.
    pub(super) const fn is_budgeted(self) -> bool {
        self.0 & BUDGETED != 0
    }

    /// An attempt may have had its effect, and none has succeeded since.
    pub(super) const fn is_unknown(self) -> bool {
        self.0 & UNKNOWN != 0
    }

    #[inline]
    pub(super) const fn with_unknown(self, unknown: bool) -> Self {
        Self(self.0 & !UNKNOWN | if unknown { UNKNOWN } else { 0 })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::effect::Effect;

    #[test]
    fn each_fact_is_one_of_its_own() {
        assert_eq!(Attempt::FACTS & u64::from(BUDGETED | UNKNOWN), 0);
        for effect in [Effect::Read, Effect::IdempotentWrite, Effect::Write] {
            for (keyed, budgeted, unknown) in [
                (false, false, false),
                (true, false, false),
                (false, true, false),
                (false, false, true),
                (true, true, true),
            ] {
                let attempt = Attempt::first(effect).with_key(keyed);
                let facts = Facts::begin(attempt, budgeted).with_unknown(unknown);
                assert_eq!(facts.attempt(7), attempt.with_number(7));
                assert_eq!(
                    (facts.is_budgeted(), facts.is_unknown()),
                    (budgeted, unknown)
                );
                assert!(!facts.with_unknown(false).is_unknown());
            }
        }
    }
}
