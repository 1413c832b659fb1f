//! The cells of what is lent, and the guards that move it in and out.
//!
//! Handles are moved and never copied, so that a poll touches no reference count. What is put into a cell is taken out
//! again by the guard that put it there, so outside of all scopes the cells are empty and need no destructor; they and
//! the slots that they are swapped with hold their handles undropped, which makes a swap two loads and two stores.
//!
//! A cell is empty for the moment in which somebody looks at what was in it. Where that moment is longer (an observer
//! that calls a service in the middle of it) there is nothing to see, and never a panic.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use super::cells::{Cells, cells, frame, set_frame};
use super::frame::Frame;
use super::key::KeyInScope;
use crate::budget::LentBudget;
use crate::circuit_breaker::{BreakerLane, Permit};

/// A handle that can be lent, or none. It is not here while it is lent.
pub(crate) struct Slot<T>(Option<ManuallyDrop<T>>);

impl<T> Slot<T> {
    pub(crate) const EMPTY: Self = Self(None);

    #[inline]
    pub(crate) fn new(handle: Option<T>) -> Self {
        Self(handle.map(ManuallyDrop::new))
    }

    #[inline]
    pub(crate) const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(crate) fn as_ref(&self) -> Option<&T> {
        self.0.as_deref()
    }

    #[inline]
    pub(super) fn as_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T> Drop for Slot<T> {
    #[inline]
    fn drop(&mut self) {
        drop(self.0.take().map(ManuallyDrop::into_inner));
    }
}

/// The cells for each kind of handle, also for what is hidden.
pub(super) struct Handles {
    budget: Shelf<LentBudget>,
    breaker: Shelf<BreakerLane>,
    key: Shelf<KeyInScope>,
}

pub(crate) type Shelf<T> = Cell<Option<ManuallyDrop<T>>>;

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
    cells(|cells| slot.0 = T::shelf(cells).replace(slot.0.take())).is_some()
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

/// Lends what is in a slot to the layers below for as long as it lives. The handle is moved into the scope and moved
/// back. An empty slot hides what the scope around lends.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct Lending<'a, T: Handle> {
    slot: &'a mut Slot<T>,
    outer: Frame,
}

impl<'a, T: Handle> Lending<'a, T> {
    #[inline]
    pub(crate) fn enter(slot: &'a mut Slot<T>) -> Self {
        let outer = frame();
        if slot.is_some() && swap(slot) {
            set_frame(outer.with(T::BIT));
        } else {
            set_frame(outer.without(T::BIT));
        }
        Self { slot, outer }
    }
}

impl<T: Handle> Drop for Lending<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let inner = frame();
        if inner.has(T::BIT) {
            swap(self.slot);
        }
        set_frame(inner.with_bits_of(self.outer, T::BIT));
    }
}

/// Lends a permit to the retry below for as long as it lives, and takes back what has been noted on it there.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct PermitScope<'a> {
    permit: &'a mut Permit,
    outer: Frame,
}

impl<'a> PermitScope<'a> {
    #[inline]
    pub(crate) fn enter(permit: &'a mut Permit) -> Self {
        let outer = frame();
        if permit.lane.is_some() && swap(&mut permit.lane) {
            if permit.notes.counts_attempts() {
                swap_times(permit);
            }
            swap_notes(permit);
            set_frame(outer.with(Frame::BREAKER));
        } else {
            set_frame(outer.without(Frame::BREAKER));
        }
        Self { permit, outer }
    }
}

impl Drop for PermitScope<'_> {
    #[inline]
    fn drop(&mut self) {
        let inner = frame();
        if inner.has(Frame::BREAKER) {
            swap(&mut self.permit.lane);
            swap_notes(self.permit);
            if self.permit.notes.counts_attempts() {
                swap_times(self.permit);
            }
        }
        set_frame(inner.with_bits_of(self.outer, Frame::BREAKER));
    }
}

#[inline]
fn swap_notes(permit: &mut Permit) {
    cells(|cells| permit.notes = cells.notes.replace(permit.notes));
}

/// Only a breaker that counts attempts lets the retry see these.
#[cold]
fn swap_times(permit: &mut Permit) {
    cells(|cells| permit.times = cells.times.replace(permit.times));
}
