//! The cells of what is lent, and the guards that move it in and out.
//!
//! Handles are moved and never copied, so that a poll touches no reference count. What is put into a cell is taken out
//! again by the guard that put it there, so outside of all scopes the cells are empty and need no destructor; they and
//! the slots that they are swapped with hold their handles undropped, which makes a swap two loads and two stores.
//!
//! A cell is empty for the moment in which somebody looks at what was in it. Where that moment is longer (an observer
//! that calls a service in the middle of it) there is nothing to see, and never a panic.

use std::cell::Cell;

use super::cells::{Cells, cells, frame};
use super::frame::Frame;
use super::key::KeyInScope;
use crate::budget::LentBudget;
use crate::circuit_breaker::{BreakerLane, NO_TIME, Permit};
use crate::rare::{Shelf, Slot};

/// The cells for each kind of handle, also for what is hidden.
pub(super) struct Handles {
    budget: Shelf<LentBudget>,
    breaker: Shelf<BreakerLane>,
    key: Shelf<KeyInScope>,
}

impl Handles {
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "what the cells of each thread begin with"
    )]
    pub(super) const EMPTY: Self = Self {
        budget: Cell::new(None),
        breaker: Cell::new(None),
        key: Cell::new(None),
    };
}

/// A kind of handle that has a cell of its own.
pub(crate) trait Handle: Sized + 'static {
    #[doc(hidden)]
    const BIT: Frame;

    #[doc(hidden)]
    fn shelf(cells: &Cells) -> &Shelf<Self>;
}

macro_rules! handle {
    ($kind:ty, $cell:ident, $bit:expr) => {
        impl Handle for $kind {
            const BIT: Frame = $bit;

            #[inline]
            fn shelf(cells: &Cells) -> &Shelf<Self> {
                &cells.handles.$cell
            }
        }
    };
}

handle!(LentBudget, budget, Frame::BUDGET);
handle!(BreakerLane, breaker, Frame::BREAKER);
handle!(KeyInScope, key, Frame::KEY);

/// Swaps a slot with a cell. Says whether there was one.
#[inline]
pub(super) fn swap<T: Handle>(slot: &mut Slot<T>) -> bool {
    cells(|cells| slot.swap(T::shelf(cells))).is_some()
}

/// A look at what is in a cell, also at what is hidden in it. The closure runs nothing of a user's.
#[inline]
pub(super) fn look<T: Handle, R>(at: impl FnOnce(&T) -> R) -> Option<R> {
    cells(|cells| {
        let shelf = T::shelf(cells);
        let handle = shelf.take();
        let seen = handle.as_deref().map(at);
        shelf.set(handle);
        seen
    })
    .flatten()
}

/// A copy of what is in scope.
#[inline]
pub(super) fn copy<T: Handle + Clone>() -> Option<T> {
    if frame().has(T::BIT) {
        look(T::clone)
    } else {
        None
    }
}

/// A copy of the breaker in the cell, which a retry has hidden from what runs below it.
pub(crate) fn hidden_breaker() -> Option<BreakerLane> {
    look(BreakerLane::clone)
}

/// Puts a breaker into scope, where whoever is above takes it as what it has lent.
pub(crate) fn put_breaker(breaker: BreakerLane) {
    swap(&mut Slot::of(breaker));
}

/// Lends what is in a slot to the layers below for as long as it lives. The handle is moved into the scope and moved
/// back. An empty slot hides what the scope around lends.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct Lending<'a, T: Handle> {
    slot: &'a mut Slot<T>,
    changes: Frame,
}

impl<'a, T: Handle> Lending<'a, T> {
    #[inline]
    pub(crate) fn enter(slot: &'a mut Slot<T>) -> Self {
        let changes = if slot.is_some() {
            lend(slot)
        } else {
            hide(T::BIT)
        };
        Self { slot, changes }
    }
}

impl<T: Handle> Drop for Lending<'_, T> {
    #[inline]
    fn drop(&mut self) {
        take_back(self.slot, self.changes);
    }
}

/// Moves a handle into scope, and says what that has changed.
#[inline]
fn lend<T: Handle>(slot: &mut Slot<T>) -> Frame {
    let changes = cells(|cells| {
        slot.swap(T::shelf(cells));
        let outer = cells.frame.get();
        let inner = outer.with(T::BIT);
        cells.frame.set(inner);
        outer.changes_to(inner)
    });
    changes.unwrap_or(Frame::EMPTY)
}

/// The same without a handle.
#[cold]
fn hide(bit: Frame) -> Frame {
    let changes = cells(|cells| {
        let outer = cells.frame.get();
        let inner = outer.without(bit);
        cells.frame.set(inner);
        outer.changes_to(inner)
    });
    changes.unwrap_or(Frame::EMPTY)
}

/// Moves a handle back, where one was lent.
#[inline]
fn take_back<T: Handle>(slot: &mut Slot<T>, changes: Frame) {
    cells(|cells| {
        let inner = cells.frame.get();
        if inner.has(T::BIT) {
            slot.swap(T::shelf(cells));
        }
        cells.frame.set(inner.changed(changes));
    });
}

/// Lends a permit to the retry below for as long as it lives, and takes back what has been noted on it there.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct PermitScope<'a> {
    permit: &'a mut Permit,
    changes: Frame,
    // Of the scope around, where it matters.
    outer: u64,
}

impl<'a> PermitScope<'a> {
    #[inline]
    pub(crate) fn enter(permit: &'a mut Permit) -> Self {
        let mut outer = NO_TIME;
        let changes = if permit.is_lendable() {
            if permit.notes.counts_attempts() {
                outer = swap_times(permit, permit.outer_deadline());
            }
            swap_notes(permit);
            lend(&mut permit.lane)
        } else {
            hide(Frame::BREAKER)
        };
        Self {
            permit,
            changes,
            outer,
        }
    }
}

impl Drop for PermitScope<'_> {
    #[inline]
    fn drop(&mut self) {
        if frame().has(Frame::BREAKER) {
            swap_notes(self.permit);
            if self.permit.notes.counts_attempts() {
                swap_times(self.permit, self.outer);
            }
        }
        take_back(&mut self.permit.lane, self.changes);
    }
}

#[inline]
fn swap_notes(permit: &mut Permit) {
    cells(|cells| permit.notes = cells.notes.replace(permit.notes));
}

/// Only a breaker that counts attempts lets the retry see these. Gives the deadline that was there.
#[cold]
fn swap_times(permit: &mut Permit, outer: u64) -> u64 {
    let before = cells(|cells| {
        permit.began = cells.began.replace(permit.began);
        cells.outer.replace(outer)
    });
    before.unwrap_or(NO_TIME)
}

/// Hides the breaker of a scope around from a call below another one, for as long as it lives.
///
/// Nothing is lent while a service is called and not polled: no attempt ends there, and the first one needs nothing.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct HiddenBreaker {
    changes: Frame,
}

impl HiddenBreaker {
    pub(crate) fn enter() -> Self {
        Self {
            changes: hide(Frame::BREAKER),
        }
    }
}

impl Drop for HiddenBreaker {
    fn drop(&mut self) {
        cells(|cells| cells.frame.set(cells.frame.get().changed(self.changes)));
    }
}
