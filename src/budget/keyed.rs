use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::service::lend;
use super::{BudgetFuture, BudgetLayer};
use crate::keyed::Budgets;

impl BudgetLayer {
    /// Lends each request the budget of what it calls. `key` names that; requests without a name share the one for
    /// `""`. See [`keyed`](crate::keyed).
    ///
    /// ```
    /// use tower_composure::keyed::Budgets;
    /// use tower_composure::{Budget, BudgetLayer};
    ///
    /// struct Call { api: &'static str }
    ///
    /// let budgets = Budgets::new("apis", 100, Budget::builder())?;
    /// let layer = BudgetLayer::keyed(budgets, |call: &Call| Some(call.api));
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn keyed<Req, F>(budgets: Budgets, key: F) -> KeyedBudgetLayer<F>
    where
        F: Fn(&Req) -> Option<&str>,
    {
        KeyedBudgetLayer {
            budgets,
            key: Arc::new(key),
        }
    }
}

/// Lends each request the budget of what it calls. From [`BudgetLayer::keyed`].
///
/// ```
/// use tower_composure::budget::KeyedBudgetLayer;
/// use tower_composure::keyed::Budgets;
/// use tower_composure::{Budget, BudgetLayer};
///
/// let budgets = Budgets::new("hosts", 100, Budget::builder())?;
/// let layer: KeyedBudgetLayer<_> = BudgetLayer::keyed(budgets, |host: &String| Some(host));
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub struct KeyedBudgetLayer<F> {
    budgets: Budgets,
    key: Arc<F>,
}

/// Lends each request the budget of what it calls. From [`BudgetLayer::keyed`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_composure::budget::KeyedBudgetService;
/// use tower_composure::keyed::Budgets;
/// use tower_composure::{Budget, BudgetLayer, Effect, RetryLayer};
///
/// let budgets = Budgets::new("hosts", 100, Budget::builder())?;
/// let inner = service_fn(|_: &'static str| async { Err::<(), _>(std::io::Error::other("down")) });
/// let service: KeyedBudgetService<_, _> =
///     BudgetLayer::keyed(budgets.clone(), |host: &&str| Some(*host)).layer(RetryLayer::new(Effect::Read).layer(inner));
/// service.oneshot("shop.test").await.unwrap_err();
/// assert_eq!(budgets.get("shop.test").balance(), 17.0); // three retries
/// # Ok(()) }
/// ```
pub struct KeyedBudgetService<S, F> {
    inner: S,
    budgets: Budgets,
    key: Arc<F>,
}

impl<S, F> Layer<S> for KeyedBudgetLayer<F> {
    type Service = KeyedBudgetService<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        KeyedBudgetService {
            inner,
            budgets: self.budgets.clone(),
            key: Arc::clone(&self.key),
        }
    }
}

impl<S, F, Req> Service<Req> for KeyedBudgetService<S, F>
where
    S: Service<Req>,
    F: Fn(&Req) -> Option<&str>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BudgetFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let budget = self.budgets.get((self.key)(&request).unwrap_or_default());
        lend(Some(budget.lend()), &mut self.inner, request)
    }
}

impl<F> Clone for KeyedBudgetLayer<F> {
    fn clone(&self) -> Self {
        Self {
            budgets: self.budgets.clone(),
            key: Arc::clone(&self.key),
        }
    }
}

impl<S: Clone, F> Clone for KeyedBudgetService<S, F> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            budgets: self.budgets.clone(),
            key: Arc::clone(&self.key),
        }
    }
}

impl<F> fmt::Debug for KeyedBudgetLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBudgetLayer")
            .field("budgets", &self.budgets)
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, F> fmt::Debug for KeyedBudgetService<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBudgetService")
            .field("inner", &self.inner)
            .field("budgets", &self.budgets)
            .finish_non_exhaustive()
    }
}
