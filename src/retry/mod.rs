//! Retries that are classified, spread out, and bounded four times over.
//!
//! A [`RetryLayer`] calls the inner service, asks its [`Policy`](crate::Policy) what the outcome means, and makes
//! another attempt where the verdict allows it and everything else agrees. All of it is asked when the retry is
//! decided, before the wait, the cheapest first, and each answer has its own
//! [`StopReason`](crate::StopReason):
//!
//! 1. no retry layer above owns this call, and over one that nobody owns none below has repeated it already,
//! 2. attempts are left,
//! 3. repeating is safe for the request's [`Effect`](crate::Effect),
//! 4. the request can be replayed,
//! 5. retries are switched on,
//! 6. a breaker in scope has not opened since it let this call in,
//! 7. the server's hint is within the limit,
//! 8. the wait ends before the deadline,
//! 9. the budget gives a token.
//!
//! A refusal to retry is not an error. The last outcome goes up unchanged, response or error, and the reason goes into
//! the [`CallReport`](crate::CallReport).
//!
//! # When to use
//!
//! Around calls that can fail for a moment: in one place of each path to a dependency. A retry layer inside of another
//! one's scope makes one attempt, so three layers of three attempts are three requests and not 27.
//!
//! # When not to
//!
//! Around something that already retries and that you cannot see: an SDK, or an HTTP client with retries of its own.
//! Switch one of the two off.
//!
//! # Where in the stack
//!
//! Below the breaker, the call's deadline, the key and the budget; above the attempt's deadline and the service. Layers
//! below it run once an attempt (a signer gives each attempt a fresh signature), layers above it once a call. A
//! `ConcurrencyLimit` below is free during a wait; above, it is held.
//!
//! # The wait
//!
//! max(backoff, hint + U[0, max(base, hint/4)]): a server's hint is a floor, with a little jitter on top so that all
//! who were told the same do not come back at once. The jitter is trimmed to end before the deadline; the hint never is.
//!
//! RFC 9110 §9.2.2 asks clients not to retry a failed automatic retry. This layer, like nearly all of its kind, goes
//! past that on purpose: the budget is what keeps the sum of retries small.
//!
//! # Readiness
//!
//! The instance that was polled ready makes the first attempt. Its clone makes the others and is polled ready before
//! each of them. A readiness error is returned as it is, and the token goes back.
//!
//! # The losing response
//!
//! A response that a retry replaces is let go of when the retry is decided, before the wait: dropped, or what a
//! [`Release`] strategy does with it. Dropping the unread body of an HTTP/1 response costs its connection;
//! `http::DrainBody` reads it to its end first, within bounds, so that the connection serves the next attempt.
//!
//! # Cancellation
//!
//! Dropping the future drops the attempt, the losing response or the wait it is in. It deposits nothing, and the token
//! of a retry that had not started goes back.
//!
//! # Errors
//!
//! None of its own: the error type is that of the inner service.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{Effect, RetryLayer};
//!
//! static CALLS: AtomicU32 = AtomicU32::new(0);
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(Effect::Read)) // 4 attempts, full jitter from 200 ms up to 2 s
//!     .service_fn(|()| async {
//!         match CALLS.fetch_add(1, Ordering::Relaxed) {
//!             0 => Err(std::io::Error::other("a blip")),
//!             _ => Ok("fine"),
//!         }
//!     });
//! assert_eq!(service.oneshot(()).await.unwrap(), "fine");
//! # }
//! ```
//!
//! Configured:
//!
//! ```
//! use std::time::Duration;
//! use tower_composure::{Backoff, Effect, Jitter, RetryLayer};
//!
//! let layer = RetryLayer::builder(Effect::Read)
//!     .max_attempts(3)
//!     .backoff(
//!         Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1)).jitter(Jitter::Equal),
//!     )
//!     .max_hint(Duration::from_secs(10))
//!     .build()?;
//! # let _: RetryLayer<Effect> = layer;
//! # Ok::<(), tower_composure::ConfigError>(())
//! ```

#[warn(
    clippy::arithmetic_side_effects,
    reason = "sums of time must saturate, not panic"
)]
mod at_once;
mod backoff;
mod builder;
mod config;
mod decide;
mod drive;
mod events;
mod facts;
mod failed;
mod future;
mod layer;
mod ownership;
mod progress;
mod release;
mod replay;
mod service;
mod started;
mod switch;
#[warn(
    clippy::arithmetic_side_effects,
    reason = "sums of time must saturate, not panic"
)]
mod wait;
mod waits;

pub use backoff::{Backoff, Jitter};
pub use builder::RetryLayerBuilder;
pub use future::RetryFuture;
pub use layer::RetryLayer;
pub use release::{DropResponse, NothingToWaitFor, Release};
pub use replay::{CloneRequest, Replay, ReplayFn, replay_fn};
pub use service::RetryService;
pub use switch::{RetryMode, RetrySwitch};
