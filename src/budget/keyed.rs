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
pub struct KeyedBudgetLayer<F> {
    budgets: Budgets,
    key: Arc<F>,
}

/// Lends each request the budget of what it calls. From [`BudgetLayer::keyed`].
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
