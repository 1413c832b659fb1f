//! The cells themselves, and the guards that put them back.
//!
//! Two groups, because a thread local without a destructor is cheaper to reach: facts are plain values; what is lent
//! are handles. A fact says which handles are in scope: most calls do not look at them, and a retry hides its caller's
//! from what runs below by changing that fact alone. A guard swaps its value in and swaps the old one back when it is
//! dropped, also by a panic. Handles are moved in and out, so that a poll touches no reference count.
//!
//! A handle's cell is borrowed only for a swap or a look. Where it cannot be (an observer that calls a service in the
//! middle of such a look) there is nothing to see, and never a panic.
//!
//! Inlined, because the code that enters a scope is generic and so compiled in a user's crate.

use std::cell::{Cell, RefCell};
use std::mem;

use super::key::{KeyInScope, SharedKey};
use crate::attempt::Attempt;
use crate::budget::Budget;
use crate::circuit_breaker::Permit;
use crate::deadline::{Deadline, Expired};
use crate::report::{CallReport, Published};

struct Facts {
    deadline: Cell<Option<Deadline>>,
    // Whether a future that is being polled ends the call at it.
    watched: Cell<bool>,
    attempt: Cell<Option<Attempt>>,
    owned: Cell<bool>,
    // Which of the handles are in scope; the cell of another one may hold what is hidden.
    visible: Cell<u8>,
    // The two below travel upwards: written below, read by the layers above in the same poll.
    expired: Cell<Option<Expired>>,
    report: Cell<Published>,
}

pub(crate) struct Handles {
    budget: RefCell<Option<Budget>>,
    breaker: RefCell<Option<Permit>>,
    key: RefCell<Option<KeyInScope>>,
}

thread_local! {
    static FACTS: Facts = const {
        Facts {
            deadline: Cell::new(None),
            watched: Cell::new(false),
            attempt: Cell::new(None),
            owned: Cell::new(false),
            visible: Cell::new(0),
            expired: Cell::new(None),
            report: Cell::new(Published::Nothing),
        }
    };
    static HANDLES: Handles = const {
        Handles {
            budget: RefCell::new(None),
            breaker: RefCell::new(None),
            key: RefCell::new(None),
        }
    };
}

/// Reads a fact; none where the thread's locals are gone.
#[inline]
fn fact<T: Copy>(read: impl Fn(&Facts) -> Option<T>) -> Option<T> {
    FACTS.try_with(read).ok().flatten()
}

#[inline]
pub(crate) fn deadline() -> Option<Deadline> {
    fact(|facts| facts.deadline.get())
}

#[inline]
pub(crate) fn attempt() -> Option<Attempt> {
    fact(|facts| facts.attempt.get())
}

/// Whether a retry layer above owns this call.
#[inline]
pub(crate) fn is_owned() -> bool {
    FACTS.try_with(|facts| facts.owned.get()).unwrap_or(false)
}

/// Whether a budget is lent here.
#[inline]
pub(crate) fn has_budget() -> bool {
    visible() & Budget::BIT != 0
}

/// The deadline that passed in the poll that just ended, if one did.
#[inline]
pub(crate) fn expired() -> Option<Expired> {
    fact(|facts| facts.expired.get())
}

pub(crate) fn mark_expired(expired: Expired) {
    let _ = FACTS.try_with(|facts| facts.expired.set(Some(expired)));
}

/// Leaves a report for the layers above.
#[inline]
pub(crate) fn publish(report: Published) {
    let _ = FACTS.try_with(|facts| facts.report.set(report));
}

/// The report that a retry below left in the poll that just ended.
#[inline]
pub(crate) fn published() -> Option<CallReport> {
    fact(|facts| facts.report.get().report())
}

/// The last attempt of the retry that left a report in the poll that just ended.
#[inline]
pub(crate) fn published_attempt() -> Option<Attempt> {
    fact(|facts| facts.report.get().attempt())
}

/// Clears what an earlier poll left behind. Whoever reads a signal does this before the poll that it reads about.
#[inline]
pub(crate) fn clear_signals() {
    let _ = FACTS.try_with(|facts| {
        facts.report.set(Published::Nothing);
        facts.expired.set(None);
    });
}

/// Narrows the deadline for as long as it lives.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct DeadlineScope {
    outer: Option<Deadline>,
    outer_watched: bool,
}

impl DeadlineScope {
    /// A deadline at which the caller ends the call.
    #[inline]
    pub(crate) fn watched(deadline: Deadline) -> Self {
        Self::enter(Some(deadline), true)
    }

    /// A deadline, or none, that was captured elsewhere: whoever ends the call at it does so there.
    pub(super) fn captured(deadline: Option<Deadline>) -> Self {
        Self::enter(deadline, false)
    }

    /// The caller has already narrowed.
    #[inline]
    fn enter(deadline: Option<Deadline>, watched: bool) -> Self {
        let outer = FACTS.try_with(|facts| {
            (
                facts.deadline.replace(deadline),
                facts.watched.replace(watched),
            )
        });
        let (outer, outer_watched) = outer.unwrap_or_default();
        Self {
            outer,
            outer_watched,
        }
    }
}

impl Drop for DeadlineScope {
    #[inline]
    fn drop(&mut self) {
        let _ = FACTS.try_with(|facts| {
            facts.deadline.set(self.outer);
            facts.watched.set(self.outer_watched);
        });
    }
}

/// Whether a future above, in this very poll, ends the call at this deadline.
#[inline]
pub(crate) fn is_watched(deadline: Deadline) -> bool {
    let watched =
        FACTS.try_with(|facts| facts.watched.get() && facts.deadline.get() == Some(deadline));
    watched.unwrap_or(false)
}

/// A kind of handle that has a cell of its own.
pub(crate) trait Handle: Sized + 'static {
    #[doc(hidden)]
    const BIT: u8;

    #[doc(hidden)]
    fn cell(handles: &Handles) -> &RefCell<Option<Self>>;
}

macro_rules! handle {
    ($kind:ty, $cell:ident, $bit:expr) => {
        impl Handle for $kind {
            const BIT: u8 = $bit;

            #[inline]
            fn cell(handles: &Handles) -> &RefCell<Option<Self>> {
                &handles.$cell
            }
        }
    };
}

handle!(Budget, budget, 1);
handle!(Permit, breaker, 1 << 1);
handle!(KeyInScope, key, 1 << 2);

/// A look at a cell, also at what is hidden in it.
#[inline]
pub(super) fn look<T: Handle, R>(at: impl FnOnce(&mut Option<T>) -> R) -> Option<R> {
    HANDLES
        .try_with(|handles| {
            T::cell(handles)
                .try_borrow_mut()
                .ok()
                .map(|mut cell| at(&mut cell))
        })
        .ok()
        .flatten()
}

#[inline]
pub(super) fn visible() -> u8 {
    FACTS.try_with(|facts| facts.visible.get()).unwrap_or(0)
}

#[inline]
pub(super) fn set_visible(bits: u8) {
    let _ = FACTS.try_with(|facts| facts.visible.set(bits));
}

/// A copy of what is in scope.
#[inline]
pub(super) fn copy<T: Handle + Clone>() -> Option<T> {
    if visible() & T::BIT == 0 {
        return None;
    }
    look(|cell: &mut Option<T>| cell.clone()).flatten()
}

/// Lends what is in a slot to the layers below for as long as it lives. The handle is moved into the scope and moved
/// back, with whatever was done to it there. An empty slot hides what the scope around lends.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct Lending<'a, T: Handle> {
    slot: &'a mut Option<T>,
    swapped: bool,
    outer: u8,
}

impl<'a, T: Handle> Lending<'a, T> {
    #[inline]
    pub(crate) fn enter(slot: &'a mut Option<T>) -> Self {
        let outer = visible();
        let swapped = slot.is_some() && look(|cell| mem::swap(cell, slot)).is_some();
        let bit = if swapped { T::BIT } else { 0 };
        if outer & T::BIT != bit {
            set_visible(outer & !T::BIT | bit);
        }
        Self {
            slot,
            swapped,
            outer,
        }
    }
}

impl<T: Handle> Drop for Lending<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.swapped {
            look(|cell| mem::swap(cell, self.slot));
        }
        set_visible(visible() & !T::BIT | self.outer & T::BIT);
    }
}

/// The scope of a call that is being attempted, for as long as it lives.
///
/// It puts the attempt in scope, and with it the ownership of the call and the key that the attempts share. It hides
/// the budget and the breaker, so that whatever runs below a retry can neither spend its caller's tokens nor count into
/// its caller's breaker; the retry itself reaches them from here.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct AttemptScope<'a> {
    outer: Option<Attempt>,
    outer_owned: bool,
    outer_visible: u8,
    key: &'a mut SharedKey,
    // Whether the shared key is in scope, and not the one of the scope around.
    lends_key: bool,
    // Whether the shared key's slot holds what was in the cell.
    swapped: bool,
}

impl<'a> AttemptScope<'a> {
    #[inline]
    pub(crate) fn enter(
        attempt: Option<Attempt>,
        owned: bool,
        key: &'a mut SharedKey,
        lends_key: bool,
    ) -> Self {
        let outer = FACTS.try_with(|facts| {
            facts.expired.set(None);
            let visible = facts.visible.get();
            let stays = if lends_key { 0 } else { KeyInScope::BIT };
            facts.visible.set(visible & stays);
            let attempt = facts.attempt.replace(attempt);
            (attempt, facts.owned.replace(owned), visible)
        });
        let (outer, outer_owned, outer_visible) = outer.unwrap_or_default();
        let mut scope = Self {
            outer,
            outer_owned,
            outer_visible,
            key,
            lends_key,
            swapped: false,
        };
        if lends_key && (scope.key.is_some() || outer_visible & KeyInScope::BIT != 0) {
            scope.lend_key();
        }
        scope
    }

    /// The budget that is lent to this call.
    #[inline]
    pub(crate) fn budget<R>(&self, at: impl FnOnce(&Budget) -> R) -> Option<R> {
        if self.outer_visible & Budget::BIT == 0 {
            return None;
        }
        look(|cell: &mut Option<Budget>| cell.as_ref().map(at)).flatten()
    }

    /// The permit that the breaker above lends to this call.
    #[inline]
    pub(crate) fn breaker<R>(&self, at: impl FnOnce(&mut Permit) -> R) -> Option<R> {
        if self.outer_visible & Permit::BIT == 0 {
            return None;
        }
        look(|cell: &mut Option<Permit>| cell.as_mut().map(at)).flatten()
    }

    /// The next attempt begins, and takes its keys from where the first one began.
    pub(crate) fn next(&mut self, attempt: Attempt, owned: bool) {
        let _ = FACTS.try_with(|facts| {
            facts.expired.set(None);
            facts.attempt.set(Some(attempt));
            facts.owned.set(owned);
        });
        self.collect_key();
        self.key.rewind();
        self.lends_key = true;
        if self.key.is_some() {
            self.lend_key();
        }
    }

    #[cold]
    fn lend_key(&mut self) {
        let slot = self.key.slot();
        self.swapped = look(|cell| mem::swap(cell, slot)).is_some();
        let lent =
            self.swapped && look(|cell: &mut Option<KeyInScope>| cell.is_some()) == Some(true);
        let bit = if lent { KeyInScope::BIT } else { 0 };
        set_visible(visible() & !KeyInScope::BIT | bit);
    }

    /// Takes the shared key back, and with it what a key layer below has minted.
    #[cold]
    fn collect_key(&mut self) {
        if self.lends_key && (self.swapped || visible() & KeyInScope::BIT != 0) {
            let slot = self.key.slot();
            look(|cell| mem::swap(cell, slot));
            self.swapped = false;
            // What was minted in an attempt of a call around belongs to that call too.
            let is_first = self.outer.is_some() && self.outer_visible & KeyInScope::BIT == 0;
            if is_first && self.key.hand_up() {
                self.outer_visible |= KeyInScope::BIT;
            }
        }
    }
}

impl Drop for AttemptScope<'_> {
    #[inline]
    fn drop(&mut self) {
        let key = visible() & KeyInScope::BIT;
        if !self.lends_key {
            // The scope around is the one that a key layer below has left its key in.
            self.outer_visible |= key;
        } else if self.swapped || key != 0 {
            self.collect_key();
        }
        let _ = FACTS.try_with(|facts| {
            facts.attempt.set(self.outer);
            facts.owned.set(self.outer_owned);
            facts.visible.set(self.outer_visible);
        });
    }
}
