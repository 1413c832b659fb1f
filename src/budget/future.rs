use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::LentBudget;
use crate::context::Lending;
use crate::rare::Slot;

pin_project! {
    /// The future of a [`BudgetService`](super::BudgetService).
    ///
    /// Dropping it drops the inner future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_composure::budget::BudgetFuture;
    /// use tower_composure::{Budget, BudgetLayer};
    ///
    /// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
    /// let mut service = BudgetLayer::new(Budget::default()).layer(inner);
    /// let future: BudgetFuture<_> = service.ready().await?.call(7);
    /// assert_eq!(future.await?, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct BudgetFuture<F> {
        #[pin]
        inner: F,
        budget: Slot<LentBudget>,
    }
}

impl<F> BudgetFuture<F> {
    pub(super) const fn lending(inner: F, budget: Slot<LentBudget>) -> Self {
        Self { inner, budget }
    }
}

impl<F: Future> Future for BudgetFuture<F> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _lending = Lending::enter(this.budget);
        this.inner.poll(cx)
    }
}

impl<F> fmt::Debug for BudgetFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetFuture").finish_non_exhaustive()
    }
}
