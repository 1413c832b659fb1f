//! What a request does to the world, and so whether it may be repeated.

/// What a request does to the world when it is carried out, and again when it is repeated.
///
/// A [`Policy`](crate::Policy) says it for each request. As a policy of its own (`RetryLayer::new(Effect::Read)`) a
/// constant `Effect` marks every request alike and reads errors by their type; see [`policy`](crate::policy).
///
/// ```
/// use tower_composure::Effect;
///
/// assert!(Effect::IdempotentWrite.is_repeatable() && Effect::IdempotentWrite.is_write());
/// assert!(!Effect::Write.is_repeatable());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// It changes nothing: it may be repeated whenever it failed.
    Read,
    /// It changes something, but a repeat changes nothing more: by its nature (an HTTP `PUT`) or because both attempts
    /// carry one idempotency key that the server honours. It may be repeated whenever it failed.
    IdempotentWrite,
    /// It changes something each time. It is repeated only on proof that the first attempt had no effect.
    Write,
}

impl Effect {
    /// Whether a repeat is safe although nobody knows if the first attempt took effect.
    ///
    /// ```
    /// use tower_composure::Effect;
    ///
    /// assert!(Effect::IdempotentWrite.is_repeatable());
    /// assert!(!Effect::Write.is_repeatable());
    /// ```
    pub const fn is_repeatable(self) -> bool {
        !matches!(self, Self::Write)
    }

    /// Whether a failure can leave the world changed.
    ///
    /// ```
    /// use tower_composure::Effect;
    ///
    /// assert!(Effect::IdempotentWrite.is_write());
    /// assert!(!Effect::Read.is_write());
    /// ```
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Read)
    }
}
