//! The scope of a call that is being attempted.

use std::mem::ManuallyDrop;

use super::cells::{cells, clear_signals, frame, set_frame};
use super::deadline_scope::forget_now;
use super::frame::{Frame, Signals};
use super::handles::{look, swap};
use super::key::SharedKey;
use crate::budget::LentBudget;
use crate::circuit_breaker::{CircuitBreaker, LentPermit};

/// What is in scope below a retry, from one poll to the next: the attempt and the ownership of the call, and the key
/// that the attempts share, unless the frame says that the key is the one of the scope around. The number of the attempt
/// is the retry's to keep.
pub(crate) struct Below {
    key: SharedKey,
}

impl Below {
    #[inline]
    pub(super) const fn without_key(frame: Frame) -> Self {
        let mut key = SharedKey::NONE;
        key.rest = frame.unnumbered();
        Self { key }
    }

    pub(super) fn new(frame: Frame, key: SharedKey) -> Self {
        let mut below = Self { key };
        below.set(frame);
        below.note_key();
        below
    }

    #[inline]
    const fn frame(&self, number: u32) -> Frame {
        self.key.rest.at(number)
    }

    #[inline]
    const fn set(&mut self, frame: Frame) {
        self.key.rest = frame.unnumbered();
    }

    /// The frame but for the number of its attempt.
    #[inline]
    const fn flags(&self) -> Frame {
        self.frame(0)
    }

    /// The frame says whether there is a key.
    fn note_key(&mut self) {
        let flags = self.flags();
        self.set(if self.key.is_some() {
            flags.with(Frame::SHARES)
        } else {
            flags.without(Frame::SHARES)
        });
    }
}

/// The scope of a call that has just begun, and so has no key of its own to lend, for as long as its service is called.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct CallScope {
    outer: Frame,
    below: Frame,
}

impl CallScope {
    /// What is below such a call from now on.
    #[inline]
    pub(crate) const fn below(&self) -> Below {
        Below::without_key(self.below)
    }

    #[inline]
    pub(crate) fn begin(outer: Frame, below: Frame) -> Self {
        set_frame(outer.around(below));
        Self { outer, below }
    }

    /// The same, where a breaker may lend itself to the attempt, and a key be in scope. That is for all attempts.
    pub(crate) fn begin_slowly(outer: Frame, below: Frame) -> (Self, SharedKey) {
        if outer.has(Frame::BREAKER) {
            LentPermit::in_scope().attempt_started();
        }
        let key = SharedKey::in_scope();
        (Self::begin(outer, below), key)
    }

    /// The service has been called, without a key in scope. Where a key layer below has minted one, this scope comes
    /// back, for [`end_slowly`](Self::end_slowly).
    #[inline]
    pub(crate) fn end(self) -> Option<Self> {
        if frame().has(Frame::KEY) {
            return Some(self);
        }
        set_frame(self.outer);
        // What is left to do has been done.
        let _ = ManuallyDrop::new(self);
        None
    }

    /// The service has been called. Takes along what a key layer below has minted.
    #[cold]
    pub(crate) fn end_slowly(self, key: SharedKey) -> Below {
        let mut below = Below::new(self.below, key);
        set_frame(collect_key(self.outer, &mut below));
        let _ = ManuallyDrop::new(self);
        below
    }
}

/// The call has panicked.
impl Drop for CallScope {
    #[cold]
    fn drop(&mut self) {
        let mut below = Below::new(self.below, SharedKey::NONE);
        set_frame(collect_key(self.outer, &mut below));
    }
}

/// The scope of a call that is being attempted, for as long as it lives.
///
/// It puts the attempt in scope, and with it the ownership of the call and the key that the attempts share. It hides
/// the budget and the breaker, so that whatever runs below a retry can neither spend its caller's tokens nor count into
/// its caller's breaker; the retry itself reaches them from here.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct AttemptScope<'a> {
    outer: Frame,
    below: &'a mut Below,
}

impl<'a> AttemptScope<'a> {
    /// The number is that of the attempt in scope.
    #[inline]
    pub(crate) fn enter(below: &'a mut Below, number: u32) -> Self {
        let inner = below.frame(number);
        let outer = cells(|cells| {
            cells.signals.set(Signals::NONE);
            let outer = cells.frame.get();
            cells.frame.set(outer.around(inner));
            outer
        });
        let outer = outer.unwrap_or(Frame::EMPTY);
        if outer.with(inner).has(Frame::KEY_OR_SHARES) {
            lend_key(below);
        }
        Self { outer, below }
    }

    /// The budget that is lent to this call.
    #[inline]
    pub(crate) fn budget<R>(&self, at: impl FnOnce(&LentBudget) -> R) -> Option<R> {
        if self.outer.has(Frame::BUDGET) {
            look(at)
        } else {
            None
        }
    }

    /// The permit that the breaker above lends to this call.
    #[inline]
    pub(crate) fn breaker(&self) -> Option<LentPermit> {
        self.outer.has(Frame::BREAKER).then(LentPermit::in_scope)
    }

    /// The breaker above needs what the retry has been entrusted with: not all is as in most calls.
    #[inline]
    pub(crate) fn give_breaker_back(&self, at_hand: Option<&CircuitBreaker>) {
        if let Some(breaker) = self.breaker() {
            breaker.give_back(at_hand);
        }
    }

    /// What is in scope below. Whatever ran there has put it back.
    #[expect(
        clippy::unused_self,
        reason = "it is so for who is in the scope and for nobody else"
    )]
    #[inline]
    pub(crate) fn below(&self) -> Frame {
        frame()
    }

    /// What is in scope around, with what was put there below.
    #[inline]
    fn collected(&mut self) -> Frame {
        if frame().has(Frame::KEY_OR_SWAPPED) {
            collect_key(self.outer, self.below)
        } else {
            self.outer
        }
    }

    /// The next attempt begins, and takes its keys from where the first one began.
    #[inline(always)]
    pub(crate) fn next(&mut self, below: Frame) {
        clear_signals();
        forget_now();
        self.outer = self.collected();
        self.below.set(below);
        set_frame(below);
        if self.below.key.is_some() {
            self.below.key.rewind();
            self.below.note_key();
            lend_key(self.below);
        }
    }

    /// The retry that makes the attempt owns the call.
    #[inline]
    pub(crate) fn own(&mut self) {
        self.below.set(self.below.flags().owned());
        set_frame(frame().owned());
    }
}

impl Drop for AttemptScope<'_> {
    #[inline]
    fn drop(&mut self) {
        set_frame(self.collected());
    }
}

/// Puts the key that the attempts share in scope, unless the one around is.
#[cold]
fn lend_key(below: &mut Below) {
    if below.flags().has_key() {
        return;
    }
    let inner = frame().without(Frame::KEY);
    let lent = below.key.is_some();
    if swap(below.key.slot()) {
        let key = if lent { Frame::KEY } else { Frame::EMPTY };
        set_frame(inner.with(Frame::SWAPPED).with(key));
    } else {
        set_frame(inner);
    }
}

/// Takes the shared key back, and with it what a key layer below has minted. Gives the frame of the scope around, which
/// may have got a key.
#[cold]
fn collect_key(outer: Frame, below: &mut Below) -> Frame {
    let inner = frame();
    if below.flags().has_key() {
        // The scope around is the one that a key layer below has left its key in.
        return if inner.has_key() {
            outer.with(Frame::KEY)
        } else {
            outer
        };
    }
    if inner.has(Frame::KEY_OR_SWAPPED) {
        swap(below.key.slot());
        below.note_key();
        // What was minted in an attempt of a call around belongs to that call too.
        let is_first = outer.attempt().is_some() && !outer.has_key();
        if is_first && below.key.hand_up() {
            return outer.with(Frame::KEY);
        }
    }
    outer
}
