//! One call of the inner service, as a policy and the services below see it.

use std::fmt;

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
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attempt(u64);

// One word, because it is put in scope, signalled upwards and handed to policies on every call: the number in the upper
// half, and the rest where a `Frame` of the call context has room for it.
const NUMBER_SHIFT: u32 = 32;
const EFFECT: u64 = 0b11;
const KEYED: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;

impl Attempt {
    /// All bits of an attempt that are ever set.
    pub(crate) const BITS: u64 = (u32::MAX as u64) << NUMBER_SHIFT | PRESENT | KEYED | EFFECT;

    /// What is the same in all attempts of a call, in the lowest bits.
    pub(crate) const FACTS: u64 = KEYED | EFFECT;

    #[inline]
    pub(crate) const fn facts(self) -> u64 {
        self.0 & Self::FACTS
    }

    /// The first attempt of which these are the facts, in a word with more in it.
    #[inline]
    pub(crate) const fn first_of(facts: u64) -> Self {
        Self(1 << NUMBER_SHIFT | PRESENT | facts & Self::FACTS)
    }

    /// The first attempt at a request of this effect, without a key.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect};
    ///
    /// let attempt = Attempt::first(Effect::Read);
    /// assert_eq!((attempt.number(), attempt.keyed()), (1, false));
    /// ```
    #[inline]
    pub const fn first(effect: Effect) -> Self {
        let effect = match effect {
            Effect::Read => 0,
            Effect::IdempotentWrite => 1,
            Effect::Write => 2,
        };
        Self(1 << NUMBER_SHIFT | PRESENT | effect)
    }

    /// The same attempt with another number, counted from 1.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect};
    ///
    /// assert_eq!(Attempt::first(Effect::Read).with_number(3).number(), 3);
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_number(self, number: u32) -> Self {
        Self((number as u64) << NUMBER_SHIFT | self.0 & (PRESENT | KEYED | EFFECT))
    }

    /// The same attempt, with or without an idempotency key on its request.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect};
    ///
    /// assert!(Attempt::first(Effect::Write).with_key(true).keyed());
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_key(self, keyed: bool) -> Self {
        Self(self.0 & !KEYED | if keyed { KEYED } else { 0 })
    }

    /// Its number, counted from 1. It saturates.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect};
    ///
    /// assert_eq!(Attempt::first(Effect::Read).number(), 1);
    /// ```
    #[inline]
    pub const fn number(&self) -> u32 {
        (self.0 >> NUMBER_SHIFT) as u32
    }

    /// What its request does.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect};
    ///
    /// assert_eq!(Attempt::first(Effect::Write).effect(), Effect::Write);
    /// ```
    #[inline]
    pub const fn effect(&self) -> Effect {
        match self.0 & EFFECT {
            0 => Effect::Read,
            1 => Effect::IdempotentWrite,
            _ => Effect::Write,
        }
    }

    /// Whether what it does may be done again.
    #[inline]
    pub(crate) const fn is_repeatable(self) -> bool {
        self.0 & EFFECT < 2
    }

    /// Whether an idempotency key was found on its request.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect, Verdict, policy_fn};
    ///
    /// // A verdict that depends on whether the request had a key.
    /// let policy = policy_fn(|attempt: &Attempt, outcome: Result<&(), &()>| match outcome {
    ///     Ok(()) => Verdict::Success,
    ///     Err(()) if attempt.keyed() => Verdict::THROTTLED,
    ///     Err(()) => Verdict::Rejected,
    /// })
    /// .with_effect(Effect::Write);
    /// ```
    #[inline]
    pub const fn keyed(&self) -> bool {
        self.0 & KEYED != 0
    }

    /// The attempt in scope: that of the retry layer above which owns this call. `None` outside of one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{Attempt, Effect, RetryLayer};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(RetryLayer::new(Effect::Read))
    ///     .service_fn(|()| async {
    ///         match Attempt::current().unwrap().number() {
    ///             1 => Err(std::io::Error::other("not yet")),
    ///             number => Ok(number),
    ///         }
    ///     });
    /// assert_eq!(service.oneshot(()).await?, 2);
    /// # Ok(()) }
    /// ```
    pub fn current() -> Option<Self> {
        context::attempt()
    }

    /// The word that it is. None of its bits is outside of [`BITS`](Self::BITS).
    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The attempt in a word of which it is a part, where there is one.
    #[inline]
    pub(crate) const fn in_word(word: u64) -> Option<Self> {
        if word & PRESENT == 0 {
            None
        } else {
            Some(Self(word & Self::BITS))
        }
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("number", &self.number())
            .field("effect", &self.effect())
            .field("keyed", &self.keyed())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_comes_out_as_it_went_in() {
        for effect in [Effect::Read, Effect::IdempotentWrite, Effect::Write] {
            for keyed in [false, true] {
                for number in [1, 2, u32::MAX] {
                    let attempt = Attempt::first(effect).with_number(number).with_key(keyed);
                    assert_eq!(
                        (attempt.number(), attempt.effect(), attempt.keyed()),
                        (number, effect, keyed)
                    );
                    let word = attempt.bits() | !Attempt::BITS;
                    assert_eq!(Attempt::in_word(word), Some(attempt));
                    assert_eq!(attempt.with_key(!keyed).with_key(keyed), attempt);
                }
            }
        }
        assert_eq!(Attempt::in_word(!PRESENT), None);
    }
}
