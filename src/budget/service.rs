use std::task::{Context, Poll};

use tower_service::Service;

use super::{Budget, BudgetFuture, LentBudget};
use crate::context::Lending;
use crate::rare::Slot;

/// Lends a budget to the retry layer below it. See the [module](crate::budget).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::budget::BudgetService;
/// use tower_composure::{Budget, BudgetLayer};
///
/// let inner = service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
/// let service: BudgetService<_> = BudgetLayer::new(Budget::default()).layer(inner);
/// assert_eq!(service.oneshot(7).await?, 7);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct BudgetService<S> {
    inner: S,
    budget: Option<Budget>,
}

impl<S> BudgetService<S> {
    pub(super) const fn new(inner: S, budget: Option<Budget>) -> Self {
        Self { inner, budget }
    }
}

impl<S, Req> Service<Req> for BudgetService<S>
where
    S: Service<Req>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BudgetFuture<S::Future>;

    #[inline(always)]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        lend(
            self.budget.as_ref().map(Budget::lend),
            &mut self.inner,
            request,
        )
    }
}

/// Calls a service with a budget in scope.
pub(super) fn lend<S, Req>(
    budget: Option<LentBudget>,
    inner: &mut S,
    request: Req,
) -> BudgetFuture<S::Future>
where
    S: Service<Req>,
{
    let mut budget = Slot::new(budget);
    let called = {
        let _lending = Lending::enter(&mut budget);
        inner.call(request)
    };
    BudgetFuture::lending(called, budget)
}
