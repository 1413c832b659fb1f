//! What crosses layers: the call context.
//!
//! Layers do not talk through the request, so any request type works. They talk through a scope: a handful of cells
//! of the thread that are set while a call or a poll of an inner service runs and put back afterwards. In scope are the
//! [`Deadline`](crate::Deadline) (it only ever narrows), the budget and the breaker that are lent to the retry below, the [`Attempt`](crate::Attempt)
//! and whether a retry layer above owns this call, and the [`IdempotencyKey`](crate::IdempotencyKey). A service at the bottom reads them with
//! no plumbing:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use std::time::Duration;
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{Attempt, BoxError, Deadline, DeadlineLayer, Effect, RetryLayer};
//!
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::call(Duration::from_secs(8)))
//!     .layer(RetryLayer::new(Effect::Read))
//!     .service_fn(|()| async {
//!         assert!(Deadline::current().unwrap().remaining() <= Duration::from_secs(8));
//!         Ok::<_, BoxError>(Attempt::current().unwrap().number())
//!     });
//! assert_eq!(service.oneshot(()).await.unwrap(), 1);
//! # }
//! ```
//!
//! # Where the scope ends
//!
//! It does not follow `tokio::spawn`, a `tower::buffer::Buffer` or another thread: [`CallContext::current`] captures
//! it and [`CallContext::scope`] carries it over. Most of it is read when a service is *called*, so make the call
//! inside of the scope, in an async block. The first `poll_ready` and the drop of an inner future are outside of the
//! scope; what must run on a drop captures the context first.
//!
//! Where a thread's locals are already gone there is no context, and never a panic.

mod attempt_scope;
mod captured;
mod cells;
mod deadline_scope;
mod frame;
mod handles;
mod key;
mod keyed;
mod reported;

pub(crate) use attempt_scope::{AttemptScope, Below, CallScope};
pub use captured::{CallContext, Scoped};
pub(crate) use cells::{
    attempt, began, clear_signals, deadline, expired, frame, has_published, has_timer, is_absolute,
    is_over, is_watched, mark_expired, notes, outer_deadline, publish, publish_success,
    publish_success_in, published, published_attempt, set_began, set_has_timer, set_notes,
    time_left,
};
pub(crate) use deadline_scope::{DeadlineScope, Mark, Span, SpanOfLayer, start_of};
pub(crate) use frame::Frame;
pub(crate) use handles::{HiddenBreaker, Lending, PermitScope, hidden_breaker, put_breaker};
#[cfg(feature = "tool")]
pub(crate) use key::KeyInScope;
#[cfg(any(feature = "http", feature = "tool"))]
pub(crate) use key::claim_key;
pub(crate) use key::{SharedKey, key};
pub use keyed::Keyed;
pub use reported::Reported;
