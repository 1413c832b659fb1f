use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::handles::Lending;
use super::key::KeyInScope;
use crate::idempotency_key::IdempotencyKey;
use crate::rare::Slot;

pin_project! {
    /// A future with an idempotency key in scope. From [`IdempotencyKey::scope`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower_composure::IdempotencyKey;
    /// use tower_composure::context::Keyed;
    ///
    /// let future: Keyed<_> = IdempotencyKey::random().scope(async { 7 });
    /// assert_eq!(future.await, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct Keyed<F> {
        #[pin]
        future: F,
        key: Slot<KeyInScope>,
    }
}

impl<F> Keyed<F> {
    pub(crate) fn new(key: IdempotencyKey, future: F) -> Self {
        Self {
            future,
            key: Slot::new(Some(KeyInScope::new(key))),
        }
    }
}

impl<F: Future> Future for Keyed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _key = Lending::enter(this.key);
        this.future.poll(cx)
    }
}

impl<F> fmt::Debug for Keyed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").finish_non_exhaustive()
    }
}
