use std::sync::Arc;

use tower_layer::Layer;

use crate::observer::Observer;

/// A layer that gives requests their idempotency keys, in a stack.
///
/// For a key layer of your own an empty `impl KeyLayer for MyKeyLayer {}` is enough.
pub trait KeyLayer: Sized {
    /// The same layer, which tells this observer of the keys it mints and keeps, under this name. The stack calls it
    /// with its own. By default nobody is told.
    #[must_use]
    fn observed(self, dependency: Arc<str>, observer: Arc<dyn Observer>) -> Self {
        let _ = (dependency, observer);
        self
    }
}

/// No key layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKey;

impl KeyLayer for NoKey {}

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
}
