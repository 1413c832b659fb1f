//! Words that are cheap to swap: what is in scope, and what has been signalled to the layers above.

use crate::attempt::Attempt;
use crate::deadline::Expired;

/// The attempt in scope, who owns the call, and which handles are in scope, in one word: most of what a layer does to
/// the scope is to swap it. Also used as a mask of such words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame(u64);

// Where an attempt has no bits.
const OWNED: u64 = 1 << 4;
const BUDGET: u64 = 1 << 5;
const BREAKER: u64 = 1 << 6;
const KEY: u64 = 1 << 7;
// Of what is below a retry: another one owns the call.
const NESTED: u64 = 1 << 12;
// The cell of the key is not the scope's around.
const SWAPPED: u64 = 1 << 13;
// Of what is below a retry: there is a key that its attempts share.
const SHARES: u64 = 1 << 14;

/// A frame without the number of its attempt, where that is kept elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unnumbered(u32);

impl Unnumbered {
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) const fn at(self, number: u32) -> Frame {
        Frame(self.0 as u64 | (number as u64) << u32::BITS)
    }
}

impl Frame {
    pub(crate) const EMPTY: Self = Self(0);
    pub(crate) const BUDGET: Self = Self(BUDGET);
    pub(super) const BREAKER: Self = Self(BREAKER);
    pub(super) const KEY: Self = Self(KEY);
    pub(super) const SWAPPED: Self = Self(SWAPPED);
    pub(super) const SHARES: Self = Self(SHARES);
    /// Where there may be a key to put in scope.
    pub(super) const KEY_OR_SHARES: Self = Self(KEY | SHARES);
    /// What a scope below a retry has to undo, but for the frame itself.
    pub(super) const KEY_OR_SWAPPED: Self = Self(KEY | SWAPPED);

    /// What is below a retry that begins here at this attempt. The first attempt takes the key that is in scope.
    #[inline]
    pub(crate) const fn below(self, attempt: Attempt) -> Self {
        Self(attempt.bits() | self.0 & (OWNED | KEY))
    }

    /// What is below a retry that begins where nothing is in scope that is its business, and that has copied its request.
    #[inline]
    pub(crate) const fn below_plain(attempt: Attempt) -> Self {
        let owned = if attempt.is_repeatable() { OWNED } else { 0 };
        Self(attempt.bits() | owned)
    }

    /// What is below a retry that begins here, where another one owns the call: the attempt and the key are that one's.
    #[inline]
    pub(crate) const fn below_owner(self) -> Self {
        Self(self.0 & (Attempt::BITS | OWNED) | KEY | NESTED)
    }

    /// The same owner at another attempt, whose key is not the scope's around.
    pub(crate) const fn at(self, attempt: Attempt) -> Self {
        Self(self.0 & OWNED | attempt.bits())
    }

    /// What is below a retry, where this is around it: the key in scope is there only if it is here.
    #[inline]
    pub(super) const fn around(self, below: Self) -> Self {
        Self(below.0 & (self.0 | !KEY))
    }

    #[inline]
    pub(crate) const fn attempt(self) -> Option<Attempt> {
        Attempt::in_word(self.0)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The number of the attempt in scope; zero where there is none.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is in the other half"
    )]
    #[inline]
    pub(super) const fn unnumbered(self) -> Unnumbered {
        Unnumbered(self.0 as u32)
    }

    #[inline]
    pub(crate) const fn has_breaker(self) -> bool {
        self.0 & BREAKER != 0
    }

    /// Whether a retry that begins here has no more to do than to put its frame in scope.
    #[inline]
    pub(crate) const fn is_plain(self) -> bool {
        self.0 & (OWNED | KEY | BREAKER) == 0
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
    pub(crate) const fn owned(self) -> Self {
        Self(self.0 | OWNED)
    }

    /// Of what is below a retry: whether another one owns the call.
    #[inline]
    pub(crate) const fn is_nested(self) -> bool {
        self.0 & NESTED != 0
    }

    /// Of what is below a retry: whether the retry itself owns the call.
    #[inline]
    pub(crate) const fn is_own(self) -> bool {
        self.0 & (OWNED | NESTED) == OWNED
    }

    /// The attempt and the owner, without handles.
    pub(super) const fn without_handles(self) -> Self {
        Self(self.0 & (Attempt::BITS | OWNED))
    }

    #[inline]
    pub(super) const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 != 0
    }

    #[inline]
    pub(super) const fn without(self, bits: Self) -> Self {
        Self(self.0 & !bits.0)
    }

    #[inline]
    pub(super) const fn with(self, bits: Self) -> Self {
        Self(self.0 | bits.0)
    }

    /// What a scope has changed, to be changed back where the scope ends: what was changed inside of it, and is not its
    /// own, stays.
    #[inline]
    pub(super) const fn changes_to(self, inner: Self) -> Self {
        Self(self.0 ^ inner.0)
    }

    #[inline]
    pub(super) const fn changed(self, changes: Self) -> Self {
        Self(self.0 ^ changes.0)
    }
}

/// What travels upwards in one poll: the last attempt of a retry below, whether it left more to read, a deadline that has
/// passed, and whether a timer runs that will wake the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signals(u64);

const REPORT: u64 = 1 << 8;
const EXPIRED: u64 = 1 << 9;
const EXPIRED_CALLED: u64 = 1 << 10;
const EXPIRED_ABSOLUTE: u64 = 1 << 11;
const TIMER: u64 = 1 << 15;
const ALL_EXPIRED: u64 = EXPIRED | EXPIRED_CALLED | EXPIRED_ABSOLUTE;

impl Signals {
    pub(super) const NONE: Self = Self(0);

    /// A call has succeeded at this attempt. Deadlines that have passed below are none of the layers' above.
    #[inline]
    pub(super) const fn success(attempt: Attempt) -> Self {
        Self(attempt.bits())
    }

    /// The same of the attempt in a frame, where there is one. What else a frame says is where a signal has no bits.
    #[inline]
    pub(super) const fn success_in(frame: Frame) -> Self {
        Self(frame.0)
    }

    /// A call has ended at this attempt, and there is a report of it.
    pub(super) const fn ended(self, attempt: Attempt) -> Self {
        Self(self.0 & (ALL_EXPIRED | TIMER) | attempt.bits() | REPORT)
    }

    #[inline]
    pub(super) const fn attempt(self) -> Option<Attempt> {
        Attempt::in_word(self.0)
    }

    pub(super) const fn has_report(self) -> bool {
        self.0 & REPORT != 0
    }

    pub(super) const fn has_timer(self) -> bool {
        self.0 & TIMER != 0
    }

    pub(super) const fn with_timer(self, timer: bool) -> Self {
        Self(self.0 & !TIMER | if timer { TIMER } else { 0 })
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
    use crate::effect::Effect;

    const LAST: Attempt = Attempt::first(Effect::Write)
        .with_number(u32::MAX)
        .with_key(true);

    #[test]
    fn an_attempt_is_where_nothing_else_is() {
        let all = Frame(OWNED | BUDGET | BREAKER | KEY | NESTED | SWAPPED | SHARES);
        assert_eq!(all.0 & Attempt::BITS, 0);
        let signals = REPORT | ALL_EXPIRED | TIMER;
        assert_eq!(signals & (all.0 | Attempt::BITS), 0);
        assert_eq!(all.attempt(), None);
        assert_eq!(all.below(LAST).attempt(), Some(LAST));
        let below = all.below(LAST);
        assert_eq!((below.number(), Frame::EMPTY.number()), (u32::MAX, 0));
        assert_eq!(below.unnumbered().at(u32::MAX), below);
        assert_eq!(below.unnumbered().at(7).number(), 7);
    }

    #[test]
    fn the_key_is_below_only_if_it_is_around() {
        let around = Frame::EMPTY.with(Frame::KEY);
        let below = around.below(LAST);
        assert!(around.around(below).has_key());
        assert!(!Frame::EMPTY.around(below).has_key());
        assert!(!around.around(Frame::EMPTY.below(LAST)).has_key());
        assert!(!around.around(below.at(LAST)).has_key());
    }

    #[test]
    fn below_an_owner_is_what_is_its_own() {
        let owner = Frame::EMPTY.below(LAST).owned().with(Frame::BUDGET);
        let below = owner.below_owner();
        assert!(below.is_nested() && below.is_owned() && !below.has(Frame::BUDGET));
        assert_eq!(below.attempt(), Some(LAST));
        assert!(!owner.below(LAST).is_nested());
    }

    #[test]
    fn a_scope_changes_back_what_is_its_own() {
        let outer = Frame::EMPTY.with(Frame::BUDGET);
        let inner = outer.without(Frame::BUDGET).with(Frame::BREAKER);
        let changes = outer.changes_to(inner);
        assert_eq!(
            inner.with(Frame::KEY).changed(changes),
            outer.with(Frame::KEY)
        );
    }

    #[test]
    fn a_signal_does_not_change_another() {
        let expired = Expired {
            called: false,
            absolute: true,
        };
        let signals = Signals::NONE.with_timer(true).with_expired(expired);
        let signals = signals.ended(LAST);
        assert_eq!(signals.attempt(), Some(LAST));
        assert_eq!(signals.expired(), Some(expired));
        assert!(signals.has_report() && signals.has_timer());
        assert_eq!(
            signals.with_timer(false),
            Signals::NONE.with_expired(expired).ended(LAST)
        );
        let all = Frame(OWNED | BUDGET | BREAKER | KEY | NESTED | SWAPPED | SHARES);
        for success in [
            Signals::success(LAST),
            Signals::success_in(Frame(all.0 | LAST.bits())),
        ] {
            assert_eq!((success.attempt(), success.expired()), (Some(LAST), None));
            assert!(!success.has_report() && !success.has_timer());
        }
        assert_eq!(Signals::success_in(all).attempt(), None);
        assert_eq!(Signals::success(LAST).expired(), None);
        assert!(!Signals::success(LAST).has_report());
    }
}
