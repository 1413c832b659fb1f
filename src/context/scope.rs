//! The cells themselves, and the guards that put them back.
//!
//! Two groups, because a thread local without a destructor is cheaper to reach: facts are plain values; what is lent
//! are handles. A guard swaps its value in and swaps the old one back when it is dropped, also by a panic. Handles are
//! moved in and out, so that a poll touches no reference count.

use std::cell::Cell;

use crate::attempt::Attempt;
use crate::budget::Budget;
use crate::circuit_breaker::Permit;
use crate::deadline::{Deadline, Expired};
use crate::idempotency_key::IdempotencyKey;
use crate::report::CallReport;
use crate::sync::{AtomicU32, Ordering};
use std::sync::Arc;

struct Facts {
    deadline: Cell<Option<Deadline>>,
    attempt: Cell<Option<Attempt>>,
    owned: Cell<bool>,
    // The two below travel upwards: written below, read by the layers above in the same poll.
    expired: Cell<Option<Expired>>,
    report: Cell<Option<CallReport>>,
}

struct Handles {
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
            expired: Cell::new(None),
            report: Cell::new(None),
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
fn fact<T: Copy>(read: fn(&Facts) -> &Cell<Option<T>>) -> Option<T> {
    FACTS.try_with(|facts| read(facts).get()).ok().flatten()
}

pub(crate) fn deadline() -> Option<Deadline> {
    fact(|facts| &facts.deadline)
}

pub(crate) fn attempt() -> Option<Attempt> {
    fact(|facts| &facts.attempt)
}

/// Whether a retry layer above owns this call.
pub(crate) fn is_owned() -> bool {
    FACTS.try_with(|facts| facts.owned.get()).unwrap_or(false)
}

/// The deadline that passed in the poll that just ended, if one did.
pub(crate) fn expired() -> Option<Expired> {
    fact(|facts| &facts.expired)
}

pub(crate) fn mark_expired(expired: Expired) {
    let _ = FACTS.try_with(|facts| facts.expired.set(Some(expired)));
}

/// Leaves a report for the layers above.
pub(crate) fn publish(report: CallReport) {
    let _ = FACTS.try_with(|facts| facts.report.set(Some(report)));
}

/// The report that a retry below left in the poll that just ended.
pub(crate) fn published() -> Option<CallReport> {
    fact(|facts| &facts.report)
}

/// Clears what an earlier poll left behind. Whoever reads a signal does this before the poll that it reads about.
pub(crate) fn clear_signals() {
    let _ = FACTS.try_with(|facts| {
        facts.report.set(None);
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
    pub(crate) fn enter(deadline: Option<Deadline>) -> Self {
        let outer = FACTS
            .try_with(|facts| facts.deadline.replace(deadline))
            .ok()
            .flatten();
        Self { outer }
    }
}

impl Drop for DeadlineScope {
    fn drop(&mut self) {
        let _ = FACTS.try_with(|facts| facts.deadline.set(self.outer));
    }
}

/// Puts an attempt in scope, and with it the ownership of the call, for as long as it lives.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct AttemptScope {
    attempt: Option<Attempt>,
    owned: bool,
}

impl AttemptScope {
    pub(crate) fn enter(attempt: Option<Attempt>, owned: bool) -> Self {
        let outer = FACTS.try_with(|facts| {
            facts.expired.set(None);
            (facts.attempt.replace(attempt), facts.owned.replace(owned))
        });
        let (attempt, owned) = outer.unwrap_or_default();
        Self { attempt, owned }
    }
}

impl Drop for AttemptScope {
    fn drop(&mut self) {
        let _ = FACTS.try_with(|facts| {
            facts.attempt.set(self.attempt);
            facts.owned.set(self.owned);
        });
    }
}

/// A kind of handle that has a cell of its own.
pub(crate) trait Handle: Sized + 'static {
    fn swap(value: Option<Self>) -> Option<Self>;
}

macro_rules! handle {
    ($kind:ty, $cell:ident) => {
        impl Handle for $kind {
            fn swap(value: Option<Self>) -> Option<Self> {
                let mut value = Some(value);
                match HANDLES.try_with(|handles| handles.$cell.replace(value.take().flatten())) {
                    Ok(outer) => outer,
                    Err(_) => value.flatten(),
                }
            }
        }
    };
}

handle!(Budget, budget);
handle!(Permit, breaker);
handle!(KeyInScope, key);

/// Lends what is in a slot to the layers below for as long as it lives. The handle is moved into the scope and moved
/// back, with whatever was done to it there.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct Lending<'a, T: Handle> {
    slot: &'a mut Option<T>,
}

impl<'a, T: Handle> Lending<'a, T> {
    pub(crate) fn enter(slot: &'a mut Option<T>) -> Self {
        *slot = T::swap(slot.take());
        Self { slot }
    }
}

impl<T: Handle> Drop for Lending<'_, T> {
    fn drop(&mut self) {
        *self.slot = T::swap(self.slot.take());
    }
}

/// Takes the budget and the breaker out of the scope for as long as it lives, so that whatever runs below a retry can
/// neither spend its caller's tokens nor count into its caller's breaker. The retry itself uses them from here.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct Lent {
    pub(crate) budget: Option<Budget>,
    pub(crate) breaker: Option<Permit>,
}

impl Lent {
    pub(crate) fn take() -> Self {
        let lent = HANDLES.try_with(|handles| (handles.budget.take(), handles.breaker.take()));
        let (budget, breaker) = lent.unwrap_or_default();
        Self { budget, breaker }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.budget.is_some() || self.breaker.is_some() {
            let _ = HANDLES.try_with(|handles| {
                handles.budget.set(self.budget.take());
                handles.breaker.set(self.breaker.take());
            });
        }
    }
}

/// A key in scope and how many requests of this attempt have taken it. Clones share the count, so that requests sent
/// from spawned tasks do not take the same key.
#[derive(Debug, Clone)]
pub(crate) struct KeyInScope {
    key: IdempotencyKey,
    taken: Arc<AtomicU32>,
    /// Where the count stood when the attempt began.
    from: u32,
}

impl KeyInScope {
    pub(crate) fn new(key: IdempotencyKey) -> Self {
        Self::starting(key, 0)
    }

    fn starting(key: IdempotencyKey, from: u32) -> Self {
        Self {
            key,
            taken: Arc::new(AtomicU32::new(from)),
            from,
        }
    }

    /// The same key for a call that begins now.
    pub(crate) fn begun_here(&self) -> Self {
        Self {
            from: self.taken.load(Ordering::Relaxed),
            ..self.clone()
        }
    }

    /// The same key for another attempt, which takes what the first one took.
    pub(crate) fn rewound(&self) -> Self {
        Self::starting(self.key.clone(), self.from)
    }

    pub(crate) fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    #[cfg(feature = "http")]
    fn claim(&self) -> IdempotencyKey {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.key.clone()
        } else {
            self.key.nth(before.saturating_add(1))
        }
    }
}

/// A look at a cell that leaves it as it was.
fn look<T: Handle, R>(at: impl FnOnce(&mut Option<T>) -> R) -> R {
    let mut slot = T::swap(None);
    let result = at(&mut slot);
    T::swap(slot);
    result
}

/// A copy of what is lent.
pub(super) fn copy<T: Handle + Clone>() -> Option<T> {
    look(|slot: &mut Option<T>| slot.clone())
}

/// The key in scope, without taking it.
pub(crate) fn key() -> Option<KeyInScope> {
    copy()
}

/// The key for the next request of this attempt: the one in scope, the first time as it is and then with an ordinal.
/// Where there is none, `mint` makes one; below a retry it stays in scope, so that the next attempt sends it again.
#[cfg(feature = "http")]
pub(crate) fn claim_key(mint: impl FnOnce() -> IdempotencyKey) -> IdempotencyKey {
    look(|slot: &mut Option<KeyInScope>| {
        if let Some(in_scope) = slot {
            return in_scope.claim();
        }
        let minted = mint();
        if attempt().is_some() {
            let in_scope = KeyInScope::new(minted.clone());
            in_scope.taken.store(1, Ordering::Relaxed);
            *slot = Some(in_scope);
        }
        minted
    })
}
