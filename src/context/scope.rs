//! The cells themselves, and the guards that put them back.
//!
//! Two groups, because a thread local without a destructor is cheaper to reach: facts are plain values; what is lent
//! are handles, and a fact says whether there are any, so that most calls do not look. A guard swaps its value in and
//! swaps the old one back when it is dropped, also by a panic. Handles are moved in and out, so that a poll touches no
//! reference count. No code of a user's runs while a cell is empty for a look.
//!
//! Inlined, because the code that enters a scope is generic and so compiled in a user's crate.

use std::cell::Cell;

use super::key::{KeyInScope, SharedKey};
use crate::attempt::Attempt;
use crate::budget::Budget;
use crate::circuit_breaker::Permit;
use crate::deadline::{Deadline, Expired};
use crate::report::{CallReport, Published};

struct Facts {
    deadline: Cell<Option<Deadline>>,
    attempt: Cell<Option<Attempt>>,
    owned: Cell<bool>,
    // Which of the handles' cells are filled.
    filled: Cell<u8>,
    // The two below travel upwards: written below, read by the layers above in the same poll.
    expired: Cell<Option<Expired>>,
    report: Cell<Published>,
}

pub(crate) struct Handles {
    budget: Cell<Option<Budget>>,
    breaker: Cell<Option<Permit>>,
    key: Cell<Option<KeyInScope>>,
}

thread_local! {
    static FACTS: Facts = const {
        Facts {
            deadline: Cell::new(None),
            attempt: Cell::new(None),
            owned: Cell::new(false),
            filled: Cell::new(0),
            expired: Cell::new(None),
            report: Cell::new(Published::Nothing),
        }
    };
    static HANDLES: Handles = const {
        Handles {
            budget: Cell::new(None),
            breaker: Cell::new(None),
            key: Cell::new(None),
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
}

impl DeadlineScope {
    /// `None` opens a scope without a deadline; the caller has already narrowed.
    #[inline]
    pub(crate) fn enter(deadline: Option<Deadline>) -> Self {
        let outer = FACTS
            .try_with(|facts| facts.deadline.replace(deadline))
            .ok()
            .flatten();
        Self { outer }
    }
}

impl Drop for DeadlineScope {
    #[inline]
    fn drop(&mut self) {
        let _ = FACTS.try_with(|facts| facts.deadline.set(self.outer));
    }
}

/// A kind of handle that has a cell of its own.
pub(crate) trait Handle: Sized + 'static {
    #[doc(hidden)]
    const BIT: u8;

    #[doc(hidden)]
    fn cell(handles: &Handles) -> &Cell<Option<Self>>;

    /// Swaps what is in the slot with what is in scope. Where the thread's locals are gone, the slot keeps what it has.
    #[inline]
    fn swap(slot: &mut Option<Self>) {
        let filled = FACTS.try_with(|facts| facts.filled.get()).unwrap_or(0);
        if slot.is_none() && filled & Self::BIT == 0 {
            return;
        }
        let _ = HANDLES.try_with(|handles| {
            let now_filled = if slot.is_some() { Self::BIT } else { 0 };
            *slot = Self::cell(handles).replace(slot.take());
            let _ = FACTS.try_with(|facts| facts.filled.set(filled & !Self::BIT | now_filled));
        });
    }
}

macro_rules! handle {
    ($kind:ty, $cell:ident, $bit:expr) => {
        impl Handle for $kind {
            const BIT: u8 = $bit;

            #[inline]
            fn cell(handles: &Handles) -> &Cell<Option<Self>> {
                &handles.$cell
            }
        }
    };
}

handle!(Budget, budget, 1);
handle!(Permit, breaker, 1 << 1);
handle!(KeyInScope, key, 1 << 2);

/// Lends what is in a slot to the layers below for as long as it lives. The handle is moved into the scope and moved
/// back, with whatever was done to it there.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct Lending<'a, T: Handle> {
    slot: &'a mut Option<T>,
}

impl<'a, T: Handle> Lending<'a, T> {
    #[inline]
    pub(crate) fn enter(slot: &'a mut Option<T>) -> Self {
        T::swap(slot);
        Self { slot }
    }
}

impl<T: Handle> Drop for Lending<'_, T> {
    #[inline]
    fn drop(&mut self) {
        T::swap(self.slot);
    }
}

/// A look at a cell that leaves it as it was.
pub(super) fn look<T: Handle, R>(at: impl FnOnce(&mut Option<T>) -> R) -> R {
    let mut slot = None;
    T::swap(&mut slot);
    let result = at(&mut slot);
    T::swap(&mut slot);
    result
}

/// A copy of what is lent.
#[inline]
pub(super) fn copy<T: Handle + Clone>() -> Option<T> {
    let filled = FACTS.try_with(|facts| facts.filled.get()).unwrap_or(0);
    if filled & T::BIT == 0 {
        return None;
    }
    look(|slot: &mut Option<T>| slot.clone())
}

/// The scope of a call that is being attempted, for as long as it lives.
///
/// It puts the attempt in scope, and with it the ownership of the call and the key that the attempts share. It takes
/// the budget and the breaker out, so that whatever runs below a retry can neither spend its caller's tokens nor count
/// into its caller's breaker; the retry itself uses them from here.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct AttemptScope<'a> {
    pub(crate) budget: Option<Budget>,
    pub(crate) breaker: Option<Permit>,
    outer: Option<Attempt>,
    outer_owned: bool,
    key: &'a mut SharedKey,
    // Whether the shared key is in scope, and not the one of the scope around.
    lends_key: bool,
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
            (facts.attempt.replace(attempt), facts.owned.replace(owned))
        });
        let (outer, outer_owned) = outer.unwrap_or_default();
        let mut scope = Self {
            budget: None,
            breaker: None,
            outer,
            outer_owned,
            key,
            lends_key,
        };
        Budget::swap(&mut scope.budget);
        Permit::swap(&mut scope.breaker);
        scope.swap_key();
        scope
    }

    /// The next attempt begins, and takes its keys from where the first one began.
    pub(crate) fn next(&mut self, attempt: Attempt, owned: bool) {
        let _ = FACTS.try_with(|facts| {
            facts.expired.set(None);
            facts.attempt.set(Some(attempt));
            facts.owned.set(owned);
        });
        self.swap_key();
        self.key.rewind();
        self.lends_key = true;
        self.swap_key();
    }

    #[inline]
    fn swap_key(&mut self) {
        if self.lends_key {
            KeyInScope::swap(self.key.slot());
        }
    }
}

impl Drop for AttemptScope<'_> {
    #[inline]
    fn drop(&mut self) {
        let _ = FACTS.try_with(|facts| {
            facts.attempt.set(self.outer);
            facts.owned.set(self.outer_owned);
        });
        self.swap_key();
        Permit::swap(&mut self.breaker);
        Budget::swap(&mut self.budget);
    }
}
