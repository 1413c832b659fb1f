//! The scope of a call that is being attempted.

use super::cells::{cells, frame, set_frame};
use super::frame::Frame;
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
    /// Puts a frame in scope, but for the bits to keep.
    #[inline]
    pub(crate) fn enter(inner: Frame, keep: Frame, key: &'a mut SharedKey) -> Self {
        let outer = cells(|cells| {
            cells.signals.set(cells.signals.get().without_expired());
            let outer = cells.frame.get();
            cells.frame.set(inner.with_bits_of(outer, keep));
            outer
        });
        let mut scope = Self {
            outer: outer.unwrap_or(Frame::EMPTY),
            keep,
            key,
            swapped: false,
        };
        if !keep.has_key() && (scope.outer.has_key() || scope.key.is_some()) {
            scope.lend_key();
        }
        scope
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
        cells(|cells| {
            cells.signals.set(cells.signals.get().without_expired());
            let current = cells.frame.get();
            cells
                .frame
                .set(inner.with_bits_of(current, Frame::BELOW_WITH_KEY));
        });
        self.collect_key();
        self.key.rewind();
        self.keep = Frame::BELOW;
        if self.key.is_some() {
            self.lend_key();
        }
    }

    #[cold]
    fn lend_key(&mut self) {
        let lent = self.key.is_some();
        self.swapped = swap(self.key.slot());
        if lent && self.swapped {
            set_frame(frame().with(Frame::KEY));
        } else {
            set_frame(frame().without(Frame::KEY));
        }
    }

    /// Takes the shared key back, and with it what a key layer below has minted.
    #[cold]
    fn collect_key(&mut self) {
        let is_in_scope = frame().has_key();
        if self.keep.has_key() {
            // The scope around is the one that a key layer below has left its key in.
            if is_in_scope {
                self.outer = self.outer.with(Frame::KEY);
            }
        } else if self.swapped || is_in_scope {
            swap(self.key.slot());
            self.swapped = false;
            // What was minted in an attempt of a call around belongs to that call too.
            let is_first = self.outer.attempt().is_some() && !self.outer.has_key();
            if is_first && self.key.hand_up() {
                self.outer = self.outer.with(Frame::KEY);
            }
        }
    }
}

impl Drop for AttemptScope<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.swapped || frame().has_key() {
            self.collect_key();
        }
        set_frame(self.outer);
    }
}
