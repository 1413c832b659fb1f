use std::sync::Arc;

use tower_layer::Layer;

use crate::observer::Observer;

/// A layer that gives requests their idempotency keys, in a stack.
///
/// For a key layer of your own an empty `impl KeyLayer for MyKeyLayer {}` is enough.
///
/// ```
/// use tower::Layer;
/// use tower_composure::stack::KeyLayer;
/// use tower_composure::{Effect, Stack};
///
/// #[derive(Clone)]
/// struct OrderNumberAsKey;
///
/// impl KeyLayer for OrderNumberAsKey {}
///
/// impl<S> Layer<S> for OrderNumberAsKey {
///     type Service = S; // a real one wraps it
///
///     fn layer(&self, inner: S) -> S {
///         inner
///     }
/// }
///
/// let stack = Stack::builder(Effect::IdempotentWrite).idempotency_key(OrderNumberAsKey).build()?;
/// # let _ = stack;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known as a layer that gives requests their idempotency keys",
    label = "not a key layer",
    note = "`IdempotencyKeyLayer` is one for HTTP, `ToolKeyLayer` one for tools; for a layer of your own an empty `impl KeyLayer for {Self} {{}}` is enough"
)]
pub trait KeyLayer: Sized {
    /// The same layer, which tells this observer of the keys it mints and keeps, under this name. The stack calls it
    /// with its own. By default nobody is told.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_composure::TracingObserver;
    /// use tower_composure::stack::{KeyLayer, NoKey};
    ///
    /// let layer: NoKey = NoKey.observed("payments".into(), Arc::new(TracingObserver::new()));
    /// ```
    #[must_use]
    fn observed(self, dependency: Arc<str>, observer: Arc<dyn Observer>) -> Self {
        let _ = (dependency, observer);
        self
    }

    /// Whether the future of its service is no more than the future of the service below: each poll of the one is a
    /// poll of the other with the same waker, and the outcome is handed on as it is. By default no.
    ///
    /// The deadline of the call then makes no timer as long as the one of an attempt runs, because that one ends sooner
    /// and wakes the same task, and the breaker leaves the calls that it has let through to the retry, which has it at
    /// hand. A layer that says so, and then polls the service below in another task, lets calls outlive their deadlines;
    /// one that answers in place of the service below answers what no breaker counts.
    ///
    /// ```
    /// use tower_composure::stack::{KeyLayer, NoKey};
    ///
    /// assert!(NoKey.is_transparent());
    /// ```
    fn is_transparent(&self) -> bool {
        false
    }
}

/// No key layer.
///
/// ```
/// use tower_composure::stack::NoKey;
/// use tower_composure::{Effect, Stack};
///
/// let stack: Stack<Effect, NoKey> = Stack::builder(Effect::Read).build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKey;

impl KeyLayer for NoKey {
    fn is_transparent(&self) -> bool {
        true
    }
}

impl<S> Layer<S> for NoKey {
    type Service = S;

    fn layer(&self, inner: S) -> S {
        inner
    }
}

#[cfg(feature = "http")]
impl<M: Clone> KeyLayer for crate::idempotency_key::IdempotencyKeyLayer<M> {
    fn observed(self, dependency: Arc<str>, observer: Arc<dyn Observer>) -> Self {
        self.observer(dependency, observer)
    }

    fn is_transparent(&self) -> bool {
        true
    }
}
