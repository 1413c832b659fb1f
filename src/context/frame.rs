//! Words that are cheap to swap: what is in scope, and what has been signalled to the layers above.

use crate::attempt::Attempt;
use crate::deadline::{Expired, Limit};
use crate::effect::Effect;

/// The attempt in scope, who owns the call, and which handles are in scope, in one word: most of what a layer does to
/// the scope is to swap it. Also used as a mask of such words.
///
/// The attempt's number is in the upper half, so that the masks of all else fit into an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame(u64);

const NUMBER_SHIFT: u32 = 32;
const EFFECT: u64 = 0b11;
const KEYED: u64 = 1 << 2;
// Whether there is an attempt.
const PRESENT: u64 = 1 << 3;
const ATTEMPT: u64 = (u32::MAX as u64) << NUMBER_SHIFT | PRESENT | KEYED | EFFECT;
const OWNED: u64 = 1 << 4;
const BUDGET: u64 = 1 << 5;
const BREAKER: u64 = 1 << 6;
const KEY: u64 = 1 << 7;
// Whose time the deadline in scope is, and whether a future that is being polled ends the call at it.
const OF_ATTEMPT: u64 = 1 << 12;
const WATCHED: u64 = 1 << 13;
const DEADLINE: u64 = OF_ATTEMPT | WATCHED;

impl Frame {
    pub(crate) const EMPTY: Self = Self(0);
    pub(super) const BUDGET: Self = Self(BUDGET);
    pub(super) const BREAKER: Self = Self(BREAKER);
    pub(super) const KEY: Self = Self(KEY);
    pub(super) const DEADLINE: Self = Self(DEADLINE);
    /// What stays as it is below a retry.
    pub(crate) const BELOW: Self = Self(DEADLINE);
    /// The same, where the first attempt takes the key that is in scope.
    pub(crate) const BELOW_WITH_KEY: Self = Self(DEADLINE | KEY);
    /// The same, where another retry owns the call: the attempt and the key are that one's.
    pub(crate) const BELOW_OWNER: Self = Self(DEADLINE | KEY | ATTEMPT);

    #[inline]
    pub(crate) const fn of(attempt: Attempt) -> Self {
        let effect = match attempt.effect() {
            Effect::Read => 0,
            Effect::IdempotentWrite => 1,
            Effect::Write => 2,
        };
        let keyed = if attempt.keyed() { KEYED } else { 0 };
        Self((attempt.number() as u64) << NUMBER_SHIFT | effect | keyed | PRESENT)
    }

    #[inline]
    pub(crate) const fn attempt(self) -> Option<Attempt> {
        if self.0 & PRESENT == 0 {
            None
        } else {
            Some(self.as_attempt())
        }
    }

    /// The attempt of a frame that was made of one.
    #[inline]
    pub(crate) const fn as_attempt(self) -> Attempt {
        let effect = match self.0 & EFFECT {
            0 => Effect::Read,
            1 => Effect::IdempotentWrite,
            _ => Effect::Write,
        };
        Attempt::first(effect)
            .with_number((self.0 >> NUMBER_SHIFT) as u32)
            .with_key(self.0 & KEYED != 0)
    }

    #[inline]
    pub(crate) const fn has_budget(self) -> bool {
        self.0 & BUDGET != 0
    }

    #[inline]
    pub(crate) const fn has_key(self) -> bool {
        self.0 & KEY != 0
    }

    #[inline]
    pub(crate) const fn is_owned(self) -> bool {
        self.0 & OWNED != 0
    }

    #[inline]
    pub(crate) const fn owned(self, owned: bool) -> Self {
        Self(if owned { self.0 | OWNED } else { self.0 })
    }

    /// Whether what is kept is what another retry owns.
    #[inline]
    pub(crate) const fn is_of_owner(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// The same owner, at another attempt.
    pub(crate) const fn at(self, attempt: Attempt) -> Self {
        Self(self.0 & OWNED | Self::of(attempt).0)
    }

    /// What is said of a deadline beside its instant.
    #[inline]
    pub(super) const fn of_deadline(limit: Limit, watched: bool) -> Self {
        let limit = match limit {
            Limit::Call => 0,
            Limit::Attempt => OF_ATTEMPT,
        };
        Self(limit | if watched { WATCHED } else { 0 })
    }

    #[inline]
    pub(super) const fn limit(self) -> Limit {
        if self.0 & OF_ATTEMPT == 0 {
            Limit::Call
        } else {
            Limit::Attempt
        }
    }

    #[inline]
    pub(super) const fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// The attempt and the owner, without handles.
    pub(super) const fn without_handles(self) -> Self {
        Self(self.0 & (ATTEMPT | OWNED))
    }

    #[inline]
    pub(super) const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 != 0
    }

    /// The same frame, with these bits as they are in another one.
    #[inline]
    pub(super) const fn with_bits_of(self, other: Self, bits: Self) -> Self {
        Self(self.0 & !bits.0 | other.0 & bits.0)
    }

    #[inline]
    pub(super) const fn without(self, bits: Self) -> Self {
        Self(self.0 & !bits.0)
    }

    #[inline]
    pub(super) const fn with(self, bits: Self) -> Self {
        Self(self.0 | bits.0)
    }
}

/// What travels upwards in one poll: the last attempt of a retry below, whether it left more to read, and a deadline
/// that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signals(u64);

const REPORT: u64 = 1 << 8;
const EXPIRED: u64 = 1 << 9;
const EXPIRED_CALLED: u64 = 1 << 10;
const EXPIRED_ABSOLUTE: u64 = 1 << 11;
const ALL_EXPIRED: u64 = EXPIRED | EXPIRED_CALLED | EXPIRED_ABSOLUTE;

impl Signals {
    pub(super) const NONE: Self = Self(0);

    /// A call has ended at this attempt.
    #[inline]
    pub(super) const fn ended(self, frame: Frame) -> Self {
        Self(self.0 & ALL_EXPIRED | frame.0 & ATTEMPT)
    }

    pub(super) const fn with_report(self) -> Self {
        Self(self.0 | REPORT)
    }

    #[inline]
    pub(super) const fn attempt(self) -> Option<Attempt> {
        Frame(self.0).attempt()
    }

    pub(super) const fn has_report(self) -> bool {
        self.0 & REPORT != 0
    }

    pub(super) const fn with_expired(self, expired: Expired) -> Self {
        let called = if expired.called { EXPIRED_CALLED } else { 0 };
        let absolute = if expired.absolute {
            EXPIRED_ABSOLUTE
        } else {
            0
        };
        Self(self.0 & !ALL_EXPIRED | EXPIRED | called | absolute)
    }

    pub(super) fn expired(self) -> Option<Expired> {
        (self.0 & EXPIRED != 0).then_some(Expired {
            called: self.0 & EXPIRED_CALLED != 0,
            absolute: self.0 & EXPIRED_ABSOLUTE != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_comes_out_as_it_went_in() {
        for effect in [Effect::Read, Effect::IdempotentWrite, Effect::Write] {
            for keyed in [false, true] {
                for number in [1, 2, u32::MAX] {
                    let attempt = Attempt::first(effect).with_number(number).with_key(keyed);
                    let frame = Frame::of(attempt).owned(true).with(Frame::KEY);
                    assert_eq!(frame.attempt(), Some(attempt));
                    assert!(frame.is_owned() && frame.has(Frame::KEY));
                }
            }
        }
        assert_eq!(Frame::EMPTY.owned(true).with(Frame::BUDGET).attempt(), None);
    }

    #[test]
    fn a_signal_does_not_change_another() {
        let attempt = Attempt::first(Effect::Write).with_number(u32::MAX);
        let expired = Expired {
            called: false,
            absolute: true,
        };
        let signals = Signals::NONE
            .with_expired(expired)
            .ended(Frame::of(attempt).owned(true))
            .with_report();
        assert_eq!(signals.attempt(), Some(attempt));
        assert_eq!(signals.expired(), Some(expired));
        assert!(signals.has_report());
    }
}
