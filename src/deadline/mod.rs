//! Deadlines: an absolute end for a whole call, and one for each attempt.
//!
//! A timeout that starts anew with every attempt bounds nothing: four attempts of three seconds and the waits between
//! them are more than any caller meant. A [`DeadlineLayer::call`] ends the whole call, attempts, waits and readiness in
//! between; a [`DeadlineLayer::attempt`] below the retry ends each attempt, and never grants more than what is left of
//! the call. Whoever runs below reads [`Deadline::current`] and can plan with it: the retry layer does not start a wait
//! that would not end in time.
//!
//! # When to use
//!
//! Always both, around and below a retry. Below a breaker, so that a dependency that hangs is seen as failing.
//!
//! # When not to
//!
//! As a substitute for `tower::timeout` on a service that is never retried and calls nothing that has deadlines of its
//! own: it works, but its error is boxed and it asks for `S: Clone`.
//!
//! # Where in the stack
//!
//! `call` below the breaker and above the key, the budget and the retry; `attempt` between the retry and the service.
//! Above the breaker a deadline ends calls that the breaker then cannot count as failures.
//!
//! # What is timed
//!
//! From `call` until the response (for HTTP: its head, not its body). The first `poll_ready`, before there is a call,
//! is the caller's to bound; readiness that a retry waits for is inside.
//!
//! The inner future is polled before the clock is asked, so an answer that is there in time is never lost to a late
//! wake-up; a timer exists only once the inner future was pending, and one timer serves a call's deadline and the
//! attempts that end with it.
//!
//! # Cancellation
//!
//! When the deadline has passed, the inner future is dropped in the same poll that reports it: nothing goes on in the
//! background. Dropping the layer's future drops the inner one.
//!
//! # Errors
//!
//! [`DeadlineExceeded`], found by walking `source()` under any number of boxes; it says whether the call or the attempt
//! ran out, and what had failed before. A call whose deadline has already passed fails at once, without a call of the
//! inner service. Errors of the inner service go through as they are.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use std::time::Duration;
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{BoxError, DeadlineExceeded, DeadlineLayer};
//!
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::call(Duration::from_millis(300)))
//!     .service_fn(|()| std::future::pending::<Result<(), BoxError>>());
//! let error = service.oneshot(()).await.unwrap_err();
//! assert!(DeadlineExceeded::find(&*error).unwrap().is_call());
//! # }
//! ```
//!
//! An absolute end that came from elsewhere, and one limit for the attempts under it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use std::time::Duration;
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{BoxError, Deadline, DeadlineLayer, Effect, RetryLayer};
//!
//! let end = Deadline::after(Duration::from_millis(500));
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::until(end))
//!     .layer(RetryLayer::new(Effect::Read))
//!     .layer(DeadlineLayer::attempt(Duration::from_millis(250)))
//!     .service_fn(|()| async { Ok::<_, BoxError>(Deadline::current().unwrap().remaining()) });
//! assert_eq!(service.oneshot(()).await.unwrap(), Duration::from_millis(250));
//! # }
//! ```

mod error;
mod future;
mod instant;
mod layer;
mod service;

pub use error::DeadlineExceeded;
pub use future::DeadlineFuture;
pub(crate) use future::Ending;
pub use instant::Deadline;
pub(crate) use instant::{Expired, Limit};
pub use layer::DeadlineLayer;
pub(crate) use layer::Rule;
pub use service::DeadlineService;
