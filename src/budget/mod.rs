//! One retry budget, shared by everyone who calls a dependency.
//!
//! A limit of attempts bounds one call; it does nothing for the dependency. When everything fails, four attempts a call
//! are four times the load, just when the dependency can bear it least, and the load stays even after the cause has
//! gone: that is a retry storm. A budget bounds the *sum*: each success earns a fraction of a retry, each retry costs
//! one, and when the bucket is empty calls fail after their first attempt.
//!
//! With a ratio of 0.1 and a burst of 20, a dependency in outage gets at most its first attempts, a tenth of the
//! successes before, and twenty requests more, whatever the number of sessions. Processes need no coordination: if each
//! adds at most 10 %, the fleet adds at most 10 %; only the burst multiplies.
//!
//! # When to use
//!
//! Around every retry. One [`Budget`] for each dependency, cloned into every client that calls it.
//!
//! # When not to
//!
//! One budget for several dependencies: the failure of one would take the retries of the others. A budget for each
//! session is no budget: two hundred sessions with twenty tokens each are four thousand retries.
//!
//! # Where in the stack
//!
//! [`BudgetLayer`] stands directly above the retry layer, which finds the budget in the call context: the first retry
//! below uses it, and an inner stack cannot spend its caller's tokens. A budget layer with no retry below moves nothing.
//!
//! Where one retry layer alone is to have it, give it to that one:
//! [`RetryLayerBuilder::budget`](crate::retry::RetryLayerBuilder::budget) costs a call less than a layer does.
//!
//! # What moves the balance
//!
//! - A call that succeeds deposits the ratio, once, however many attempts it took.
//! - A retry withdraws one token when it is decided, before its wait, so that a thousand sleepers cannot all believe
//!   that a token is theirs. First attempts cost nothing and are never refused.
//! - A retry that never starts (the call is dropped in its wait, the breaker opens, the service fails to become ready)
//!   puts its token back.
//!
//! It starts full, so that a cold process may retry.
//!
//! # Cancellation
//!
//! Dropping a call deposits nothing and puts back the token of a retry that had not started.
//!
//! # Errors
//!
//! None of its own. A refused retry is not an error: the last outcome goes up unchanged, with
//! [`StopReason::BudgetExhausted`](crate::StopReason::BudgetExhausted) in its report.
//!
//! # Examples
//!
//! ```
//! use tower::ServiceBuilder;
//! use tower_composure::{Budget, BudgetLayer, Effect, RetryLayer};
//!
//! let payments = Budget::default(); // ratio 0.1, burst 20
//! let client = ServiceBuilder::new()
//!     .layer(BudgetLayer::new(payments.clone()))
//!     .layer(RetryLayer::new(Effect::Read))
//!     .service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id) });
//! # let _ = client;
//! assert_eq!(payments.balance(), 20.0);
//! ```
//!
//! Configured:
//!
//! ```
//! use tower_composure::Budget;
//!
//! let budget = Budget::builder()
//!     .ratio(0.35)
//!     .burst(50)
//!     .trickle(0.5) // a token every two seconds, for a caller with little traffic
//!     .unknown_costs(2.0) // a timeout costs two
//!     .build()?;
//! assert!(budget.is_full());
//! let error = Budget::new(f64::NAN, 50).unwrap_err();
//! assert_eq!(error.to_string(), "ratio: NaN is not between 0 and 1000");
//! # Ok::<(), tower_composure::ConfigError>(())
//! ```

#[warn(
    clippy::arithmetic_side_effects,
    reason = "token sums must saturate, not panic"
)]
mod bucket;
mod builder;
mod future;
mod handle;
#[cfg(feature = "keyed")]
mod keyed;
mod layer;
mod lent;
#[cfg(all(test, loom))]
mod models;
mod service;

pub use builder::BudgetBuilder;
pub use future::BudgetFuture;
pub use handle::Budget;
#[cfg(feature = "keyed")]
pub use keyed::{KeyedBudgetLayer, KeyedBudgetService};
pub use layer::BudgetLayer;
pub(crate) use lent::LentBudget;
pub use lent::Withdrawal;
pub use service::BudgetService;
