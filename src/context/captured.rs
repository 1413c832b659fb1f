use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::attempt_scope::{AttemptScope, Below};
use super::cells;
use super::deadline_scope::DeadlineScope;
use super::frame::Frame;
use super::handles::{self, Lending};
use super::key::{KeyInScope, SharedKey};
use crate::budget::LentBudget;
use crate::deadline::Deadline;
use crate::rare::Slot;

/// A copy of the call context, to carry it over a `tokio::spawn`, a `Buffer` or to another thread.
///
/// It holds the deadline, the attempt and its owner, the lent budget and the idempotency key. It carries no breaker:
/// what a spawned task does is not what the breaker above admitted.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::{BoxError, CallContext, Deadline, DeadlineLayer};
///
/// let service = ServiceBuilder::new()
///     .layer(DeadlineLayer::call(Duration::from_secs(1)))
///     .service_fn(|()| async {
///         let context = CallContext::current();
///         let task = tokio::spawn(context.scope(async { Deadline::current().is_some() }));
///         Ok::<_, BoxError>(task.await?)
///     });
/// assert!(service.oneshot(()).await.unwrap());
/// # }
/// ```
#[derive(Clone)]
pub struct CallContext {
    deadline: Deadline,
    // The attempt and its owner.
    frame: Frame,
    budget: Option<LentBudget>,
    key: Option<KeyInScope>,
}

impl CallContext {
    /// Captures what is in scope here. Outside of any layer that is an empty context.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower::{ServiceBuilder, ServiceExt};
    /// use tower_composure::{Attempt, BoxError, CallContext, Effect, RetryLayer};
    ///
    /// let service = ServiceBuilder::new().layer(RetryLayer::new(Effect::Read)).service_fn(|()| async {
    ///     let context = CallContext::current();
    ///     let task = tokio::spawn(context.scope(async { Attempt::current().unwrap().number() }));
    ///     Ok::<_, BoxError>(task.await?)
    /// });
    /// assert_eq!(service.oneshot(()).await?, 1);
    /// # Ok(()) }
    /// ```
    pub fn current() -> Self {
        Self {
            deadline: cells::deadline(),
            frame: cells::frame().without_handles(),
            budget: handles::copy(),
            key: handles::copy(),
        }
    }

    /// Runs a future inside of this context. What was in scope around it is put back after each poll.
    ///
    /// A service that is called before the future is made is called outside: write
    /// `context.scope(async move { service.call(request).await })`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower_composure::{CallContext, IdempotencyKey};
    ///
    /// let key = IdempotencyKey::new("order-7")?;
    /// let context = key.scope(async { CallContext::current() }).await;
    /// let seen = context.scope(async { IdempotencyKey::current() }).await;
    /// assert_eq!(seen.unwrap().as_str(), "order-7");
    /// # Ok(()) }
    /// ```
    pub fn scope<F>(self, future: F) -> Scoped<F> {
        Scoped {
            future,
            below: Below::new(self.frame, SharedKey::of(self.key.clone())),
            budget: Slot::new(self.budget.clone()),
            context: self,
        }
    }
}

/// Nothing in scope.
impl Default for CallContext {
    fn default() -> Self {
        Self {
            deadline: Deadline::never(),
            frame: Frame::EMPTY,
            budget: None,
            key: None,
        }
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("deadline", &self.deadline)
            .field("attempt", &self.frame.attempt())
            .field("owned", &self.frame.is_owned())
            .field("budget", &self.budget.is_some())
            .field("key", &self.key.is_some())
            .finish()
    }
}

pin_project! {
    /// A future that runs inside of a captured [`CallContext`]. From [`CallContext::scope`].
    ///
    /// Dropping it drops the future inside, outside of the scope.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower_composure::CallContext;
    /// use tower_composure::context::Scoped;
    ///
    /// let future: Scoped<_> = CallContext::current().scope(async { 7 });
    /// assert_eq!(future.await, 7);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct Scoped<F> {
        #[pin]
        future: F,
        context: CallContext,
        below: Below,
        budget: Slot<LentBudget>,
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let context = this.context;
        let _deadline = DeadlineScope::captured(context.deadline);
        // This also hides the breaker, and the budget of the scope around.
        let _attempt = AttemptScope::enter(this.below, context.frame.number());
        let _budget = Lending::enter(this.budget);
        this.future.poll(cx)
    }
}

impl<F> fmt::Debug for Scoped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoped")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
