//! One call of the inner service, as a policy and the services below see it.

use crate::context;
use crate::effect::Effect;

/// The facts of one attempt: its number, what the request does, and whether an idempotency key went with it.
///
/// A retry layer puts it in scope for everything that it calls, so a signer, a logger or an HTTP client further down
/// can read it with [`Attempt::current`].
///
/// ```
/// use tower_composure::{Attempt, Effect};
///
/// let second = Attempt::first(Effect::IdempotentWrite).with_number(2).with_key(true);
/// assert_eq!((second.number(), second.effect(), second.keyed()), (2, Effect::IdempotentWrite, true));
/// assert_eq!(Attempt::current(), None); // outside of any retry layer
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    number: u32,
    effect: Effect,
    keyed: bool,
}

impl Attempt {
    /// The first attempt at a request of this effect, without a key.
    pub const fn first(effect: Effect) -> Self {
        Self {
            number: 1,
            effect,
            keyed: false,
        }
    }

    /// The same attempt with another number, counted from 1.
    #[must_use]
    pub const fn with_number(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// The same attempt, with or without an idempotency key on its request.
    #[must_use]
    pub const fn with_key(self, keyed: bool) -> Self {
        Self { keyed, ..self }
    }

    /// Its number, counted from 1. It saturates.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// What its request does.
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether an idempotency key was found on its request.
    pub const fn keyed(&self) -> bool {
        self.keyed
    }

    /// The attempt in scope: that of the retry layer above which owns this call. `None` outside of one.
    pub fn current() -> Option<Self> {
        context::attempt()
    }

    pub(crate) const fn next(self) -> Self {
        Self {
            number: self.number.saturating_add(1),
            ..self
        }
    }
}
