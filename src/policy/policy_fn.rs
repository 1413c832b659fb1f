use std::fmt;

use super::Policy;
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::verdict::Verdict;

/// A policy from a closure that classifies outcomes.
///
/// Every request is a [`Write`](Effect::Write) until [`with_effect`](PolicyFn::with_effect) or
/// [`with_effect_fn`](PolicyFn::with_effect_fn) says otherwise: what nobody marked is not repeated blindly.
///
/// ```
/// use tower_composure::{Attempt, Effect, Policy, Verdict, policy_fn};
///
/// let policy = policy_fn(|_: &Attempt, outcome: Result<&u16, &std::io::Error>| match outcome {
///     Ok(status) if *status >= 500 => Verdict::UNKNOWN,
///     Ok(_) => Verdict::Success,
///     Err(_) => Verdict::UNKNOWN,
/// })
/// .with_effect_fn(|path: &&str| if path.starts_with("/read") { Effect::Read } else { Effect::Write });
///
/// assert_eq!(policy.effect(&"/read/1"), Effect::Read);
/// assert_eq!(policy.classify(&Attempt::first(Effect::Read), Ok(&503)), Verdict::UNKNOWN);
/// ```
pub fn policy_fn<Res, E, C>(classify: C) -> PolicyFn<C, Effect>
where
    C: Fn(&Attempt, Result<&Res, &E>) -> Verdict,
{
    PolicyFn {
        classify,
        effect: Effect::Write,
    }
}

/// A policy from closures. Made by [`policy_fn`].
///
/// ```
/// use tower_composure::policy::PolicyFn;
/// use tower_composure::{Attempt, RetryLayer, Verdict, policy_fn};
///
/// let policy: PolicyFn<_, _> = policy_fn(|_: &Attempt, outcome: Result<&u64, &std::io::Error>| match outcome {
///     Ok(_) => Verdict::Success,
///     Err(_) => Verdict::UNKNOWN,
/// });
/// let layer = RetryLayer::new(policy);
/// ```
#[derive(Clone, Copy)]
pub struct PolicyFn<C, F> {
    classify: C,
    effect: F,
}

impl<C, F> PolicyFn<C, F> {
    /// The effect of every request.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect, Verdict, policy_fn};
    ///
    /// let policy = policy_fn(|_: &Attempt, _: Result<&u64, &()>| Verdict::Success).with_effect(Effect::Read);
    /// ```
    #[must_use]
    pub fn with_effect(self, effect: Effect) -> PolicyFn<C, Effect> {
        PolicyFn {
            classify: self.classify,
            effect,
        }
    }

    /// The effect of each request, by a closure.
    ///
    /// ```
    /// use tower_composure::{Attempt, Effect, Verdict, policy_fn};
    ///
    /// enum Command { Balance, Book }
    ///
    /// let policy = policy_fn(|_: &Attempt, _: Result<&u64, &()>| Verdict::Success).with_effect_fn(|command: &Command| {
    ///     match command {
    ///         Command::Balance => Effect::Read,
    ///         Command::Book => Effect::Write,
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn with_effect_fn<Req, G>(self, effect: G) -> PolicyFn<C, EffectFn<G>>
    where
        G: Fn(&Req) -> Effect,
    {
        PolicyFn {
            classify: self.classify,
            effect: EffectFn(effect),
        }
    }
}

/// A closure that says the effect of a request. From [`PolicyFn::with_effect_fn`].
///
/// ```
/// use tower_composure::policy::{EffectFn, PolicyFn};
/// use tower_composure::{Attempt, Effect, Verdict, policy_fn};
///
/// let policy: PolicyFn<_, EffectFn<_>> =
///     policy_fn(|_: &Attempt, _: Result<&u64, &()>| Verdict::Success).with_effect_fn(|_: &u64| Effect::Read);
/// ```
#[derive(Clone, Copy)]
pub struct EffectFn<G>(G);

impl<Req, Res, E, C> Policy<Req, Res, E> for PolicyFn<C, Effect>
where
    C: Fn(&Attempt, Result<&Res, &E>) -> Verdict,
{
    fn effect(&self, _: &Req) -> Effect {
        self.effect
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&Res, &E>) -> Verdict {
        (self.classify)(attempt, outcome)
    }
}

impl<Req, Res, E, C, G> Policy<Req, Res, E> for PolicyFn<C, EffectFn<G>>
where
    C: Fn(&Attempt, Result<&Res, &E>) -> Verdict,
    G: Fn(&Req) -> Effect,
{
    fn effect(&self, request: &Req) -> Effect {
        (self.effect.0)(request)
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&Res, &E>) -> Verdict {
        (self.classify)(attempt, outcome)
    }
}

impl<C, F> fmt::Debug for PolicyFn<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFn").finish_non_exhaustive()
    }
}

impl<G> fmt::Debug for EffectFn<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectFn").finish_non_exhaustive()
    }
}
