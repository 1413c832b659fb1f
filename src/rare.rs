//! Handles that can be lent, and what is mostly not there.

use std::cell::Cell;
use std::mem::ManuallyDrop;

/// What a cell without a destructor can hold: a thread local with one is dearer to reach.
pub(crate) type Shelf<T> = Cell<Option<ManuallyDrop<T>>>;

/// A handle that can be lent, or none. It is not here while it is lent.
#[derive(Debug)]
pub(crate) struct Slot<T>(Option<ManuallyDrop<T>>);

impl<T> Slot<T> {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) const fn of(handle: T) -> Self {
        Self(Some(ManuallyDrop::new(handle)))
    }

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

    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Swaps it with what is in a cell.
    #[inline]
    pub(crate) fn swap(&mut self, cell: &Shelf<T>) {
        self.0 = cell.replace(self.0.take());
    }
}

impl<T> Drop for Slot<T> {
    #[inline]
    fn drop(&mut self) {
        // Nothing is written where there is nothing.
        if self.is_some() {
            drop(self.0.take().map(ManuallyDrop::into_inner));
        }
    }
}

/// An option that is `None` in nearly every call, and that costs those one look when it is dropped: the glue of a plain
/// option is called, and saves and restores registers, before it looks.
#[derive(Debug)]
pub(crate) struct Rare<T>(Option<ManuallyDrop<T>>);

impl<T> Rare<T> {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(crate) fn as_ref(&self) -> Option<&T> {
        self.0.as_deref()
    }

    #[inline]
    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take().map(ManuallyDrop::into_inner)
    }

    pub(crate) fn get_or_insert_with(&mut self, value: impl FnOnce() -> T) -> &mut T {
        self.0.get_or_insert_with(|| ManuallyDrop::new(value()))
    }
}

impl<T> Drop for Rare<T> {
    #[inline]
    fn drop(&mut self) {
        if self.is_some() {
            drop_rarely(self);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_rarely<T>(rare: &mut Rare<T>) {
    drop(rare.take());
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_is_there_is_dropped_once() {
        let counted = Rc::new(());
        let held = || Rc::strong_count(&counted) - 1;
        let shelf = Shelf::new(None);
        let mut slot = Slot::of(Rc::clone(&counted));
        slot.swap(&shelf);
        assert!(!slot.is_some() && held() == 1);
        let mut other = Slot::new(Some(Rc::clone(&counted)));
        other.swap(&shelf);
        assert_eq!(held(), 2);
        drop(other);
        assert_eq!(held(), 1);
        slot.swap(&shelf);
        assert!(slot.as_ref().is_some());
        drop(slot);
        assert_eq!(held(), 0);
        let mut rare = Rare::NONE;
        rare.get_or_insert_with(|| Rc::clone(&counted));
        assert!(rare.as_ref().is_some() && rare.as_mut().is_some() && held() == 1);
        drop(rare);
        assert_eq!(held(), 0);
        assert!(!Rare::<()>::NONE.is_some() && !Slot::<()>::NONE.is_some());
    }
}
