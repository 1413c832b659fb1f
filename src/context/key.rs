//! The idempotency key in scope.

use std::sync::Arc;

#[cfg(any(feature = "http", feature = "tool"))]
use super::cells::attempt;
use super::cells::{frame, set_frame};
use super::frame::{Frame, Unnumbered};
use super::handles::{copy, swap};
use crate::idempotency_key::IdempotencyKey;
use crate::rare::Slot;
use crate::sync::{AtomicU32, Ordering};

/// A key in scope and how many requests of this attempt have taken it. Clones share the count, so that requests sent
/// from spawned tasks do not take the same key.
#[derive(Debug, Clone)]
pub(crate) struct KeyInScope(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    key: IdempotencyKey,
    taken: AtomicU32,
}

impl KeyInScope {
    /// A key that nobody has taken.
    pub(crate) fn new(key: IdempotencyKey) -> Self {
        Self::starting(key, 0)
    }

    fn starting(key: IdempotencyKey, taken: u32) -> Self {
        Self(Arc::new(Shared {
            key,
            taken: AtomicU32::new(taken),
        }))
    }

    pub(crate) fn key(&self) -> &IdempotencyKey {
        &self.0.key
    }

    /// How many requests have taken it.
    fn taken(&self) -> u32 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// The same key for another attempt, as if so many requests had taken it.
    fn rewound(&self, taken: u32) -> Self {
        Self::starting(self.0.key.clone(), taken)
    }

    #[cfg(any(feature = "http", feature = "tool"))]
    fn claim(&self) -> IdempotencyKey {
        let before = self.0.taken.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.0.key.clone()
        } else {
            self.0.key.nth(before.saturating_add(1))
        }
    }
}

/// The idempotency key that the attempts of a call share.
pub(crate) struct SharedKey {
    key: Slot<KeyInScope>,
    /// How many requests had taken it when the call began; in the highest bit, whether whoever is around knows it: it came
    /// from there, or has been handed up. One word, so that the whole fits into registers.
    taken: u32,
    /// Room that is left beside them, for what else is in scope.
    pub(super) rest: Unnumbered,
}

const KNOWN: u32 = 1 << 31;

impl SharedKey {
    pub(crate) const NONE: Self = Self {
        key: Slot::NONE,
        taken: 0,
        rest: Unnumbered::NONE,
    };

    /// The key in scope where a call begins; where there is none, what a key layer below mints comes to stay here.
    pub(super) fn in_scope() -> Self {
        Self::of(key())
    }

    /// This key, to be put in scope.
    pub(super) fn of(key: Option<KeyInScope>) -> Self {
        Self {
            taken: key
                .as_ref()
                .map_or(0, |key| key.taken().min(KNOWN - 1) | KNOWN),
            key: Slot::new(key),
            rest: Unnumbered::NONE,
        }
    }

    #[inline]
    pub(super) const fn is_some(&self) -> bool {
        self.key.is_some()
    }

    #[inline]
    pub(super) const fn slot(&mut self) -> &mut Slot<KeyInScope> {
        &mut self.key
    }

    /// Leaves a key that was minted here in scope, once, and says whether it did.
    pub(super) fn hand_up(&mut self) -> bool {
        let known = self.taken & KNOWN != 0;
        self.taken = self.taken & !KNOWN | if self.key.is_some() { KNOWN } else { 0 };
        !known && self.key.as_ref().cloned().is_some_and(leave)
    }

    /// The next attempt takes its keys from where the first one began.
    #[inline]
    pub(super) fn rewind(&mut self) {
        if let Some(key) = self.key.as_mut() {
            *key = key.rewound(self.taken & !KNOWN);
        }
    }
}

/// The key in scope, without taking it.
#[inline]
pub(crate) fn key() -> Option<KeyInScope> {
    copy()
}

/// Leaves a key in scope, for the guard around to collect.
fn leave(key: KeyInScope) -> bool {
    let left = swap(&mut Slot::new(Some(key)));
    if left {
        set_frame(frame().with(Frame::KEY));
    }
    left
}

/// The key for the next request of this attempt: the one in scope, the first time as it is and then with an ordinal.
/// Where there is none, `mint` makes one; below a retry it stays in scope, so that the next attempt sends it again.
#[cfg(any(feature = "http", feature = "tool"))]
pub(crate) fn claim_key(mint: impl FnOnce() -> IdempotencyKey) -> IdempotencyKey {
    if let Some(in_scope) = key() {
        return in_scope.claim();
    }
    let minted = mint();
    if attempt().is_some() {
        leave(KeyInScope::starting(minted.clone(), 1));
    }
    minted
}
