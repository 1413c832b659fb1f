//! A circuit breaker: fail fast while a dependency is down, and notice when it is back.
//!
//! A retry makes one call survive a blip. When the dependency stays down, every call still waits for its timeouts
//! first, and every attempt is load on something that is trying to come up. A breaker watches outcomes, refuses calls
//! once too many of them fail, and lets a few probes through after a while to see whether it may close again.
//!
//! - *Closed* lets calls through and counts their outcomes.
//! - *Open* refuses them with [`BreakerOpen`], which says how long that will last.
//! - *Half-open* lets a limited number of probes through. They decide whether it closes or opens again, for longer.
//!
//! # When to use
//!
//! Around every call of a remote dependency that can be down for longer than a call can wait.
//!
//! # When not to
//!
//! Around something that fails one key at a time: one broken shard would then refuse calls to all of them. And it
//! trades successes for load: while it is open, calls fail that might have succeeded.
//!
//! # Where in the stack
//!
//! Outermost. A refusal then costs no attempt, no wait and no token, and the breaker sees one outcome a call. It still
//! lends itself to the retry below, so a call that is already inside stops retrying when the breaker opens, and
//! [`Count::Attempts`] can count what the retries would smooth over. A deadline above it ends calls that never become
//! failures here, so put the deadline below.
//!
//! # What counts
//!
//! The [`Verdict`](crate::Verdict) of the policy: `Refused`, `Unknown` and `Fault` are failures, `Success` is a
//! success, `Throttled` and `Rejected` are neither and do not enter the window. A probe whose outcome is a `Rejected`
//! *response* shows that the dependency is there, so it counts as a success; a local error shows nothing. An `Unknown`
//! that came of a deadline from above the breaker is neutral: an impatient caller is not a sick dependency.
//!
//! # Cancellation
//!
//! A dropped call proves nothing: it is not counted, and a probe gives its place back. A probe that hangs loses its
//! place when its lease ends. No drop at any point can leave the breaker stuck.
//!
//! # Errors
//!
//! [`BreakerOpen`], found by walking `source()`. The error type is [`BoxError`](crate::BoxError); errors of the inner
//! service go through as they are.
//!
//! # Cost
//!
//! While closed it takes no lock and makes no allocation, and reads no clock. A success in a window without failures
//! only reads. There is no background task: the state is computed from the clock when it is read.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{BreakerOpen, CircuitBreaker, CircuitBreakerLayer, CircuitState, Effect};
//!
//! let breaker = CircuitBreaker::builder().window(10).minimum_calls(5).build().unwrap();
//! let service = ServiceBuilder::new()
//!     .layer(CircuitBreakerLayer::new(breaker.clone(), Effect::Read))
//!     .service_fn(|()| async { Err::<(), _>(std::io::Error::other("down")) });
//! for _ in 0..5 {
//!     service.clone().oneshot(()).await.unwrap_err();
//! }
//! assert_eq!(breaker.state(), CircuitState::Open);
//! let error = service.oneshot(()).await.unwrap_err();
//! assert!(!BreakerOpen::find(&*error).unwrap().remaining().is_zero());
//! # }
//! ```

#![warn(
    clippy::arithmetic_side_effects,
    reason = "times and counts must saturate, not panic"
)]

mod builder;
mod count_window;
mod error;
mod future;
mod handle;
#[cfg(feature = "keyed")]
mod keyed;
mod layer;
mod live;
mod machine;
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod notes;
mod permit;
mod probes;
mod service;
mod settings;
mod shared;
mod state;
mod streak;
mod tag;
mod time_window;
mod window;

pub use builder::CircuitBreakerBuilder;
pub use error::BreakerOpen;
pub use future::CircuitBreakerFuture;
pub(crate) use future::settle;
pub use handle::CircuitBreaker;
#[cfg(feature = "keyed")]
pub use keyed::{KeyedCircuitBreakerLayer, KeyedCircuitBreakerService};
pub use layer::CircuitBreakerLayer;
pub use metrics::{CircuitMetrics, CircuitState, Transition};
pub(crate) use notes::Notes;
pub(crate) use permit::{BreakerLane, LentPermit, NO_TIME, Permit};
pub use service::CircuitBreakerService;
pub(crate) use service::{admit, admit_plainly, poll_ready};
pub use settings::Count;
