//! The scope of a call that is being attempted.

use super::cells::{cells, frame, set_frame};
use super::frame::{Frame, Signals};
use super::handles::{look, swap};
use super::key::SharedKey;
use crate::budget::LentBudget;
use crate::circuit_breaker::LentPermit;

/// The scope of a call that is being attempted, for as long as it lives.
///
/// It puts the attempt in scope, and with it the ownership of the call and the key that the attempts share. It hides
/// the budget and the breaker, so that whatever runs below a retry can neither spend its caller's tokens nor count into
/// its caller's breaker; the retry itself reaches them from here.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct AttemptScope<'a> {
    outer: Frame,
    // What is in scope below as it is around: also the key, unless the one that the attempts share is.
    keep: Frame,
    key: &'a mut SharedKey,
    // Whether the shared key's slot holds what was in the cell.
    swapped: bool,
}

impl<'a> AttemptScope<'a> {
    /// The scope of a call that has just begun, and so has no key of its own to lend.
    #[inline]
    pub(crate) fn begin(inner: Frame, keep: Frame, key: &'a mut SharedKey) -> Self {
        Self {
            outer: swap_frame(inner, keep),
            keep,
            key,
            swapped: false,
        }
    }

    /// Puts a frame in scope, but for the bits to keep, and the key that the attempts share.
    #[inline]
    pub(crate) fn enter(inner: Frame, keep: Frame, key: &'a mut SharedKey) -> Self {
        let outer = swap_frame(inner, keep);
        let lends = !keep.has_key() && (outer.has_key() || key.is_some());
        Self {
            outer,
            keep,
            swapped: lends && lend_key(key),
            key,
        }
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

    /// The next attempt begins, and takes its keys from where the first one began.
    pub(crate) fn next(&mut self, inner: Frame) {
        swap_frame(inner, Frame::BELOW_WITH_KEY);
        self.outer = collect_key(self.outer, self.keep, self.key, self.swapped);
        self.key.rewind();
        self.keep = Frame::BELOW;
        self.swapped = self.key.is_some() && lend_key(self.key);
    }
}

impl Drop for AttemptScope<'_> {
    #[inline]
    fn drop(&mut self) {
        let outer = if self.swapped || frame().has_key() {
            collect_key(self.outer, self.keep, self.key, self.swapped)
        } else {
            self.outer
        };
        set_frame(outer);
    }
}

/// Puts a frame in scope, but for the bits to keep, and gives back the one around.
#[inline]
fn swap_frame(inner: Frame, keep: Frame) -> Frame {
    let outer = cells(|cells| {
        cells.signals.set(Signals::NONE);
        let outer = cells.frame.get();
        cells.frame.set(inner.with_bits_of(outer, keep));
        outer
    });
    outer.unwrap_or(Frame::EMPTY)
}

/// Puts the key that the attempts share in scope. Says whether its slot now holds what was there.
#[cold]
fn lend_key(key: &mut SharedKey) -> bool {
    let lent = key.is_some();
    let swapped = swap(key.slot());
    if lent && swapped {
        set_frame(frame().with(Frame::KEY));
    } else {
        set_frame(frame().without(Frame::KEY));
    }
    swapped
}

/// Takes the shared key back, and with it what a key layer below has minted. Gives the frame of the scope around, which
/// may have got a key.
#[cold]
fn collect_key(outer: Frame, keep: Frame, key: &mut SharedKey, swapped: bool) -> Frame {
    let is_in_scope = frame().has_key();
    if keep.has_key() {
        // The scope around is the one that a key layer below has left its key in.
        return if is_in_scope {
            outer.with(Frame::KEY)
        } else {
            outer
        };
    }
    if swapped || is_in_scope {
        swap(key.slot());
        // What was minted in an attempt of a call around belongs to that call too.
        let is_first = outer.attempt().is_some() && !outer.has_key();
        if is_first && key.hand_up() {
            return outer.with(Frame::KEY);
        }
    }
    outer
}
