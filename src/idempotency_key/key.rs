use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::context::{self, Keyed};

/// A key that identifies one logical call, whatever its number of attempts.
///
/// Its `Debug` does not show it: keys are what a server tells one customer's payment from another's by.
///
/// ```
/// use tower_composure::IdempotencyKey;
///
/// let key = IdempotencyKey::new("order-4711")?;
/// assert_eq!(key.as_str(), "order-4711");
/// assert!(!format!("{key:?}").contains("4711"));
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// A key of your own: one or more printable ASCII characters (%x20-7E, what a structured-field string may hold,
    /// RFC 9651 §3.3.3).
    ///
    /// # Errors
    ///
    /// Where it is empty or holds anything else.
    ///
    /// ```
    /// use tower_composure::IdempotencyKey;
    ///
    /// assert_eq!(IdempotencyKey::new("order-7").unwrap().as_str(), "order-7");
    /// assert!(IdempotencyKey::new("").is_err());
    /// ```
    pub fn new(key: impl AsRef<str>) -> Result<Self, InvalidKey> {
        let key = key.as_ref();
        if key.is_empty() || !key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(InvalidKey(()));
        }
        Ok(Self(key.into()))
    }

    /// A random UUID (version 4), as the draft recommends (§2.2).
    ///
    /// ```
    /// use tower_composure::IdempotencyKey;
    ///
    /// assert_eq!(IdempotencyKey::random().as_str().len(), 36);
    /// assert_ne!(IdempotencyKey::random(), IdempotencyKey::random());
    /// ```
    pub fn random() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        let text: &str = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
        Self(text.into())
    }

    /// The key in scope: that of the tool call or the request above. Looking does not take it.
    ///
    /// ```
    /// use tower_composure::IdempotencyKey;
    ///
    /// /// For a signer or an SDK further down that sends keys by itself.
    /// fn key_to_send() -> String {
    ///     IdempotencyKey::current().unwrap_or_else(IdempotencyKey::random).as_str().to_owned()
    /// }
    /// ```
    pub fn current() -> Option<Self> {
        context::key().map(|key| key.key().clone())
    }

    /// Runs a future with this key in scope: the first keyed request in it sends the key as it is, the next ones with
    /// an ordinal.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use tower_composure::IdempotencyKey;
    ///
    /// let key = IdempotencyKey::new("turn-3").unwrap();
    /// let seen = key.scope(async { IdempotencyKey::current() }).await;
    /// assert_eq!(seen.unwrap().as_str(), "turn-3");
    /// # }
    /// ```
    pub fn scope<F>(self, future: F) -> Keyed<F> {
        Keyed::new(self, future)
    }

    /// The key itself.
    ///
    /// ```
    /// use tower_composure::IdempotencyKey;
    ///
    /// assert_eq!(IdempotencyKey::new("order-7")?.as_str(), "order-7");
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of the `ordinal`th request under this one.
    #[cfg(any(feature = "http", feature = "tool"))]
    pub(crate) fn nth(&self, ordinal: u32) -> Self {
        Self(format!("{}-{ordinal}", self.0).into())
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(..)")
    }
}

/// A text that cannot be an idempotency key.
///
/// ```
/// use tower_composure::IdempotencyKey;
///
/// assert!(IdempotencyKey::new("two\nlines").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidKey(());

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an idempotency key is one or more printable ASCII characters")
    }
}

impl Error for InvalidKey {}
