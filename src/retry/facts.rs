//! What is so of a call, in one word, since every call has room for it.

use super::failed::Failed;
use crate::attempt::Attempt;
use crate::context::Frame;

/// The attempt in scope, and where an attempt has no bits, how far the call has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts(u64);

const BUDGETED: u64 = Frame::BUDGET.bits();
const NESTED: u64 = 1 << 6;
const UNKNOWN: u64 = 1 << 7;
const STAGE: u64 = 0b11 << 8;
const SPARE: u64 = 0b11 << 10;
const FAILED: u64 = 0b111 << Failed::SHIFT;

/// Where a call is.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(super) enum Stage {
    /// An attempt is under way.
    Attempting = 0,
    /// Letting go of the response that lost, sleeping before the next attempt, and then, without a timer, waiting for the
    /// service to be ready for it.
    Waiting = 1 << 8,
    /// The breaker above answers in our place, or the outcome has been returned.
    Done = 2 << 8,
}

/// Whether there is a copy of the request for the next attempt.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(super) enum Spare {
    Kept = 0,
    /// The request cannot be copied.
    Impossible = 1 << 10,
    /// No retry could be made when the call began.
    NotMade = 2 << 10,
}

impl Facts {
    /// A call begins whose first attempt this is, with this around it. Its request has been copied.
    #[inline]
    pub(super) const fn begin(attempt: Attempt, outer: Frame) -> Self {
        Self(attempt.bits() | outer.bits() & BUDGETED)
    }

    /// Another retry owns the call, and its attempt is what is in scope: there is one at this one.
    pub(super) const fn nested(self, below: Frame) -> Self {
        self.with(NESTED, NESTED).numbered(below.number())
    }

    #[inline]
    const fn numbered(self, number: u32) -> Self {
        Self(self.0 & u32::MAX as u64 | (number as u64) << u32::BITS)
    }

    #[inline]
    const fn with(self, mask: u64, bits: u64) -> Self {
        Self(self.0 & !mask | bits)
    }

    /// The attempt of this retry.
    #[inline]
    pub(super) const fn attempt(self) -> Attempt {
        let first = Attempt::first_of(self.0);
        if self.0 & NESTED == 0 {
            first.with_number(self.number())
        } else {
            first
        }
    }

    /// The number of the attempt in scope.
    #[inline]
    pub(super) const fn number(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    /// The next attempt. Numbers saturate.
    #[inline]
    pub(super) const fn next(self) -> Self {
        self.numbered(self.number().saturating_add(1))
    }

    /// A budget was lent when the call began.
    pub(super) const fn is_budgeted(self) -> bool {
        self.0 & BUDGETED != 0
    }

    #[inline]
    pub(super) const fn is_at(self, stage: Stage) -> bool {
        self.0 & STAGE == stage as u64
    }

    #[inline]
    pub(super) const fn at(self, stage: Stage) -> Self {
        self.with(STAGE, stage as u64)
    }

    #[inline]
    pub(super) const fn has(self, spare: Spare) -> bool {
        self.0 & SPARE == spare as u64
    }

    #[inline]
    pub(super) const fn with_spare(self, spare: Spare) -> Self {
        self.with(SPARE, spare as u64)
    }

    /// Whether an attempt has failed.
    #[inline]
    pub(super) const fn has_failed(self) -> bool {
        self.0 & FAILED != 0
    }

    /// What the last attempt was, where one has failed.
    pub(super) const fn failed(self) -> Option<Failed> {
        Failed::of_bits(self.0 & FAILED)
    }

    /// An attempt may have had its effect, and none has succeeded since.
    pub(super) const fn is_unknown(self) -> bool {
        self.0 & UNKNOWN != 0
    }

    /// An attempt has ended, after failures or as the first one.
    #[inline]
    pub(super) const fn after(self, last: Failed, unknown: bool) -> Self {
        let unknown = if unknown { UNKNOWN } else { 0 };
        self.with(FAILED | UNKNOWN, last as u64 | unknown)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::effect::Effect;
    use crate::verdict::Verdict;

    const LAST: Attempt = Attempt::first(Effect::Write)
        .with_key(true)
        .with_number(u32::MAX);

    #[test]
    fn each_fact_has_bits_of_its_own() {
        let parts = [
            Attempt::BITS,
            BUDGETED,
            NESTED,
            UNKNOWN,
            STAGE,
            SPARE,
            FAILED,
        ];
        let together = parts.iter().fold(0, |all, part| all | part);
        let bits = parts.iter().map(|part| part.count_ones());
        assert_eq!(bits.sum::<u32>(), together.count_ones());
    }

    #[test]
    fn a_fact_changes_no_other() {
        let budget = Frame::BUDGET;
        for (begun, budgeted) in [
            (Facts::begin(LAST, Frame::EMPTY), false),
            (Facts::begin(LAST, budget), true),
        ] {
            assert_eq!((begun.attempt(), begun.number()), (LAST, u32::MAX));
            assert!(begun.is_at(Stage::Attempting) && begun.has(Spare::Kept));
            assert!(begun.failed().is_none() && !begun.has_failed() && !begun.is_unknown());
            let facts = begun.at(Stage::Done).with_spare(Spare::NotMade);
            let facts = facts.after(Failed::of(Verdict::UNKNOWN), true);
            assert_eq!(facts.next().attempt(), LAST);
            assert!(facts.is_at(Stage::Done) && !facts.is_at(Stage::Waiting));
            assert!(facts.has(Spare::NotMade) && !facts.has(Spare::Impossible));
            assert!(facts.has_failed() && facts.is_unknown());
            let verdict = facts.failed().map(Failed::verdict);
            assert_eq!(verdict, Some(Verdict::UNKNOWN));
            let facts = facts.at(Stage::Waiting).with_spare(Spare::Impossible);
            let facts = facts.after(Failed::of(Verdict::Success), false);
            assert!(facts.is_at(Stage::Waiting) && facts.has(Spare::Impossible));
            assert!(facts.has_failed() && !facts.is_unknown());
            assert_eq!(facts.is_budgeted(), budgeted);
        }
    }

    #[test]
    fn one_that_is_nested_makes_one_attempt_whatever_is_in_scope() {
        let first = Attempt::first(Effect::IdempotentWrite);
        let below = Frame::EMPTY.below(LAST).owned();
        let facts = Facts::begin(first, Frame::EMPTY).nested(below.below_owner());
        assert_eq!((facts.attempt(), facts.number()), (first, u32::MAX));
        let facts = Facts::begin(first, Frame::EMPTY);
        assert_eq!(facts.next().attempt(), first.with_number(2));
    }
}
