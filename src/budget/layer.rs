use tower_layer::Layer;

use super::{Budget, BudgetService};

/// Lends a budget to the retry layer below it. See the [module](crate::budget).
///
/// The budget lives in the layer: all services made from it and all their clones share it.
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_composure::{Budget, BudgetLayer, Effect, RetryLayer};
///
/// let layers = ServiceBuilder::new()
///     .layer(BudgetLayer::new(Budget::default()))
///     .layer(RetryLayer::new(Effect::Read));
/// ```
#[derive(Debug, Clone)]
pub struct BudgetLayer {
    budget: Option<Budget>,
}

impl BudgetLayer {
    /// Lends this budget.
    ///
    /// ```
    /// use tower_composure::{Budget, BudgetLayer};
    ///
    /// let layer = BudgetLayer::new(Budget::new(0.1, 20)?);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn new(budget: Budget) -> Self {
        Self {
            budget: Some(budget),
        }
    }

    /// Lends nothing: the retries below are bounded by their attempts alone. Not recommended.
    ///
    /// ```
    /// use tower_composure::BudgetLayer;
    ///
    /// let layer = BudgetLayer::no_budget();
    /// ```
    pub const fn no_budget() -> Self {
        Self { budget: None }
    }
}

/// Lends a [`Budget::default`]: ratio 0.1, burst 20.
impl Default for BudgetLayer {
    fn default() -> Self {
        Self::new(Budget::default())
    }
}

impl<S> Layer<S> for BudgetLayer {
    type Service = BudgetService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BudgetService::new(inner, self.budget.clone())
    }
}
