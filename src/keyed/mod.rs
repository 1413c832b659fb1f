//! One budget and one breaker for each dependency, where one client talks to many.
//!
//! A client of many hosts needs a breaker for each: with one for all, the fault of one host refuses calls to the
//! others. What names the dependency is in the request: for HTTP the authority, for tools the API that a tool declares,
//! since tools that share an API share its budget.
//!
//! A [`Registry`] makes them as keys appear, from one recipe, and hands out the same one for the same key. It is
//! bounded in number. When it is full, those that have not been used for longest go first, and never one that matters:
//! one that a call is using, an open breaker, or a breaker that is not closed or a budget that is not full and was used
//! within the idle time. A flood of new keys cannot make a dependency's breaker forget that it is open. Where everything
//! in it matters, it holds up to twice its capacity; beyond that new keys share one, the overflow.
//!
//! # When to use
//!
//! A gateway, a crawler, an agent with many tools: many dependencies behind one client.
//!
//! # When not to
//!
//! Keys that are as many as the requests (a path with an id, a user): each would have a budget of its own, and the sum
//! of all bursts bounds nothing.
//!
//! # Where in the stack
//!
//! Where the layers with one budget and one breaker stand.
//!
//! # Cost
//!
//! A look-up takes a lock of the cache's shard and reads the clock, and the first call of a key allocates.
//!
//! # Cancellation, errors
//!
//! As the [budget](crate::budget) and the [breaker](crate::circuit_breaker). Readiness is not per key: `poll_ready`
//! knows no request, so it waits for the inner service also where the call will then be refused.
//!
//! # Examples
//!
//! ```
//! use tower::ServiceBuilder;
//! use tower_composure::keyed::{Budgets, CircuitBreakers};
//! use tower_composure::{Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, Effect, RetryLayer};
//!
//! #[derive(Clone)]
//! struct Call { api: &'static str }
//!
//! let budgets = Budgets::new("apis", 1000, Budget::builder())?;
//! let breakers = CircuitBreakers::new("apis", 1000, CircuitBreaker::builder())?;
//! let client = ServiceBuilder::new()
//!     .layer(CircuitBreakerLayer::keyed(breakers.clone(), Effect::Read, |call: &Call| Some(call.api)))
//!     .layer(BudgetLayer::keyed(budgets.clone(), |call: &Call| Some(call.api)))
//!     .layer(RetryLayer::new(Effect::Read))
//!     .service_fn(|call: Call| async move { Ok::<_, std::io::Error>(call.api) });
//! # let _ = client;
//! breakers.get("billing").force_open();
//! assert_eq!(breakers.list().len(), 1);
//! # Ok::<(), tower_composure::ConfigError>(())
//! ```

mod registry;

use std::sync::Arc;
use std::time::Duration;

pub use registry::{Budgets, CircuitBreakers, Registry};

use crate::budget::{Budget, BudgetBuilder};
use crate::circuit_breaker::{CircuitBreaker, CircuitBreakerBuilder};
use crate::error::ConfigError;

/// What a registry makes of a key, and when it may forget it.
///
/// ```
/// use std::sync::Arc;
/// use tower_composure::ConfigError;
/// use tower_composure::keyed::{Recipe, Registry};
///
/// /// A counter for each key, kept while somebody else holds it.
/// struct Counters;
///
/// impl Recipe for Counters {
///     type Made = Arc<str>;
///
///     fn make(&self, name: Arc<str>) -> Result<Arc<str>, ConfigError> {
///         Ok(name)
///     }
///
///     fn is_in_use(made: &Arc<str>) -> bool {
///         Arc::strong_count(made) > 1
///     }
///
///     fn is_marked(_: &Arc<str>) -> bool {
///         false
///     }
/// }
///
/// assert_eq!(&*Registry::new("counters", 10, Counters)?.get("shop.test"), "shop.test");
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a registry cannot make one `{Self}` for each key",
    label = "not a recipe",
    note = "`Budgets` take a `BudgetBuilder`, `CircuitBreakers` a `CircuitBreakerBuilder`, neither of them built yet"
)]
pub trait Recipe {
    /// What it makes.
    type Made: Clone;

    /// Makes one.
    ///
    /// # Errors
    ///
    /// Where the recipe's settings contradict each other.
    ///
    /// ```
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Recipe;
    ///
    /// assert_eq!(Budget::builder().make("shop.test".into())?.name(), "shop.test");
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    fn make(&self, name: Arc<str>) -> Result<Self::Made, ConfigError>;

    /// Whether somebody beside the registry holds it.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    /// use tower_composure::circuit_breaker::CircuitBreakerBuilder;
    /// use tower_composure::keyed::Recipe;
    ///
    /// let breaker = CircuitBreaker::default();
    /// assert!(!CircuitBreakerBuilder::is_in_use(&breaker));
    /// let held = breaker.clone();
    /// assert!(CircuitBreakerBuilder::is_in_use(&breaker));
    /// ```
    fn is_in_use(made: &Self::Made) -> bool;

    /// Whether it knows something that a new one would not.
    ///
    /// ```
    /// use tower_composure::budget::BudgetBuilder;
    /// use tower_composure::keyed::Recipe;
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::default();
    /// assert!(!BudgetBuilder::is_marked(&budget));
    /// budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
    /// assert!(BudgetBuilder::is_marked(&budget));
    /// ```
    fn is_marked(made: &Self::Made) -> bool;

    /// Whether it must be kept however long nobody has used it.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    /// use tower_composure::circuit_breaker::CircuitBreakerBuilder;
    /// use tower_composure::keyed::Recipe;
    ///
    /// let breaker = CircuitBreaker::default();
    /// breaker.force_open();
    /// assert!(CircuitBreakerBuilder::must_stay(&breaker));
    /// ```
    fn must_stay(made: &Self::Made) -> bool {
        let _ = made;
        false
    }

    /// The longest for which what it knows matters.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Recipe;
    ///
    /// assert_eq!(Budget::builder().memory(), Duration::from_secs(600));
    /// ```
    fn memory(&self) -> Duration {
        Duration::from_secs(600)
    }
}

impl Recipe for BudgetBuilder {
    type Made = Budget;

    fn make(&self, name: Arc<str>) -> Result<Budget, ConfigError> {
        self.clone().name(name).build()
    }

    fn is_in_use(made: &Budget) -> bool {
        made.is_shared()
    }

    fn is_marked(made: &Budget) -> bool {
        !made.is_full()
    }
}

impl Recipe for CircuitBreakerBuilder {
    type Made = CircuitBreaker;

    fn make(&self, name: Arc<str>) -> Result<CircuitBreaker, ConfigError> {
        self.clone().name(name).build()
    }

    fn is_in_use(made: &CircuitBreaker) -> bool {
        made.is_shared()
    }

    fn is_marked(made: &CircuitBreaker) -> bool {
        !made.is_closed()
    }

    fn must_stay(made: &CircuitBreaker) -> bool {
        made.is_refusing()
    }
}
