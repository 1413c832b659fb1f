use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, UnitWeighter};
use tokio::time::Instant;

use super::Recipe;
use crate::budget::BudgetBuilder;
use crate::circuit_breaker::CircuitBreakerBuilder;
use crate::clock;
use crate::error::ConfigError;
use crate::sync::{AtomicU64, Ordering};

/// A budget for each key. See the [module](crate::keyed).
///
/// ```
/// use tower_composure::Budget;
/// use tower_composure::keyed::Budgets;
///
/// let budgets = Budgets::new("hosts", 100, Budget::builder().burst(5))?;
/// assert_eq!(budgets.get("shop.test").balance(), 5.0);
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub type Budgets = Registry<BudgetBuilder>;

/// A breaker for each key. See the [module](crate::keyed).
///
/// ```
/// use tower_composure::CircuitBreaker;
/// use tower_composure::keyed::CircuitBreakers;
///
/// let breakers = CircuitBreakers::new("hosts", 100, CircuitBreaker::builder())?;
/// breakers.get("shop.test").force_open();
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub type CircuitBreakers = Registry<CircuitBreakerBuilder>;

/// One of a kind for each key, made as keys appear and bounded in number. Clones share it. See the
/// [module](crate::keyed).
///
/// ```
/// use tower_composure::Budget;
/// use tower_composure::budget::BudgetBuilder;
/// use tower_composure::keyed::Registry;
///
/// let budgets: Registry<BudgetBuilder> = Registry::new("hosts", 100, Budget::builder())?;
/// assert_eq!(budgets.get("shop.test").name(), "shop.test");
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub struct Registry<R: Recipe> {
    shared: Arc<Shared<R>>,
}

struct Shared<R: Recipe> {
    name: Arc<str>,
    recipe: R,
    capacity: usize,
    overflow: R::Made,
    cache: Cache<String, Entry<R::Made>, UnitWeighter, DefaultHashBuilder, Keep<R>>,
    epoch: Instant,
    // When room was last made, in microseconds after the epoch.
    swept: AtomicU64,
}

#[derive(Clone)]
struct Entry<T> {
    made: T,
    // Microseconds after the epoch.
    used: Arc<AtomicU64>,
}

/// Microseconds between two looks for room.
const SWEEP: u64 = 1_000_000;

impl<R: Recipe> Registry<R> {
    /// A registry of this name, for at most `capacity` keys of which none matters more than another. Its recipe is
    /// tried out at once.
    ///
    /// # Errors
    ///
    /// Where the capacity is zero, or what the recipe says contradicts itself.
    ///
    /// ```
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Budgets;
    ///
    /// assert!(Budgets::new("hosts", 100, Budget::builder()).is_ok());
    /// assert!(Budgets::new("hosts", 0, Budget::builder()).is_err());
    /// ```
    pub fn new(name: impl Into<Arc<str>>, capacity: usize, recipe: R) -> Result<Self, ConfigError> {
        let error = |reason: &str| ConfigError::new("capacity", format!("{capacity} {reason}"));
        if capacity == 0 {
            return Err(error("keys is no registry"));
        }
        let options = OptionsBuilder::new()
            .estimated_items_capacity(capacity)
            .weight_capacity(u64::try_from(capacity).unwrap_or(u64::MAX))
            .build()
            .map_err(|_| error("is not a capacity for a cache"))?;
        let epoch = clock::now();
        let keep = Keep::of(&recipe, epoch);
        Ok(Self {
            shared: Arc::new(Shared {
                name: name.into(),
                overflow: recipe.make("overflow".into())?,
                recipe,
                capacity,
                cache: Cache::with_options(
                    options,
                    UnitWeighter,
                    DefaultHashBuilder::default(),
                    keep,
                ),
                epoch,
                swept: AtomicU64::new(0),
            }),
        })
    }

    /// The name it was given.
    ///
    /// ```
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Budgets;
    ///
    /// assert_eq!(Budgets::new("hosts", 100, Budget::builder())?.name(), "hosts");
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The one for a key, made where there is none.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    /// use tower_composure::keyed::CircuitBreakers;
    ///
    /// let breakers = CircuitBreakers::new("hosts", 100, CircuitBreaker::builder())?;
    /// breakers.get("shop.test").force_open(); // the same one as the layer's
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn get(&self, key: &str) -> R::Made {
        let shared = &*self.shared;
        if let Some(entry) = shared.cache.get(key) {
            entry.used.store(shared.now(), Ordering::Relaxed);
            return entry.made;
        }
        if !shared.has_room() {
            return shared.overflow.clone();
        }
        let made = shared.cache.get_or_insert_with(key, || {
            Ok::<_, ConfigError>(Entry {
                made: shared.recipe.make(key.into())?,
                used: Arc::new(AtomicU64::new(shared.now())),
            })
        });
        // The recipe was tried out when the registry was made, so there is always one.
        made.map_or_else(|_| shared.overflow.clone(), |entry| entry.made)
    }

    /// The one for a key, where there is one. Looking is no use.
    ///
    /// ```
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Budgets;
    ///
    /// let budgets = Budgets::new("hosts", 100, Budget::builder())?;
    /// assert!(budgets.find("shop.test").is_none());
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn find(&self, key: &str) -> Option<R::Made> {
        self.shared.cache.peek(key).map(|entry| entry.made)
    }

    /// All keys and what there is for them, for a dashboard. In no order.
    ///
    /// ```
    /// use tower_composure::CircuitBreaker;
    /// use tower_composure::keyed::CircuitBreakers;
    ///
    /// let breakers = CircuitBreakers::new("hosts", 100, CircuitBreaker::builder())?;
    /// breakers.get("shop.test");
    /// for (host, breaker) in breakers.list() {
    ///     println!("{host}: {}", breaker.state().as_str());
    /// }
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn list(&self) -> Vec<(String, R::Made)> {
        let entries = self.shared.cache.iter();
        entries.map(|(key, entry)| (key, entry.made)).collect()
    }

    /// How many keys there are.
    ///
    /// ```
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Budgets;
    ///
    /// let budgets = Budgets::new("hosts", 100, Budget::builder())?;
    /// budgets.get("shop.test");
    /// assert_eq!(budgets.len(), 1);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.shared.cache.len()
    }

    /// Whether there is no key.
    ///
    /// ```
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Budgets;
    ///
    /// assert!(Budgets::new("hosts", 100, Budget::builder())?.is_empty());
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.shared.cache.is_empty()
    }

    /// What keys share that there was no room for.
    ///
    /// ```
    /// use tower_composure::Budget;
    /// use tower_composure::keyed::Budgets;
    ///
    /// let budgets = Budgets::new("hosts", 100, Budget::builder())?;
    /// assert!(budgets.overflow().is_full()); // nobody had to share it
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn overflow(&self) -> R::Made {
        self.shared.overflow.clone()
    }
}

impl<R: Recipe> Shared<R> {
    /// Whether a new key may come in. Where there are twice as many as there should be, those that no longer matter go
    /// first; looking for them takes all the cache's locks, so a flood makes us look once a second.
    fn has_room(&self) -> bool {
        let limit = self.capacity.saturating_mul(2);
        if self.cache.len() < limit {
            return true;
        }
        let now = self.now();
        let due = |swept: u64| now.saturating_sub(swept) >= SWEEP;
        let sweeps = self
            .swept
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |swept| {
                due(swept).then_some(now)
            });
        if sweeps.is_ok() {
            let keep = Keep::of(&self.recipe, self.epoch);
            self.cache.retain(|key, entry| keep.is_pinned(key, entry));
        }
        self.cache.len() < limit
    }

    fn now(&self) -> u64 {
        micros(clock::now().saturating_duration_since(self.epoch))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Which entries the cache may not evict. It is asked under a lock of the cache, so nothing of a user's runs in it.
struct Keep<R> {
    epoch: Instant,
    memory: Duration,
    recipe: PhantomData<fn(R)>,
}

impl<R: Recipe> Keep<R> {
    fn of(recipe: &R, epoch: Instant) -> Self {
        Self {
            epoch,
            memory: recipe.memory(),
            recipe: PhantomData,
        }
    }
}

impl<R> Clone for Keep<R> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<R: Recipe> Lifecycle<String, Entry<R::Made>> for Keep<R> {
    // What is evicted is dropped after the lock, as by default.
    type RequestState = <DefaultLifecycle<String, Entry<R::Made>> as Lifecycle<
        String,
        Entry<R::Made>,
    >>::RequestState;

    fn is_pinned(&self, _: &String, entry: &Entry<R::Made>) -> bool {
        if R::is_in_use(&entry.made) || R::must_stay(&entry.made) {
            return true;
        }
        R::is_marked(&entry.made) && {
            let now = micros(clock::now().saturating_duration_since(self.epoch));
            let idle = now.saturating_sub(entry.used.load(Ordering::Relaxed));
            idle < micros(self.memory)
        }
    }
}

impl<R: Recipe> Clone for Registry<R> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<R: Recipe> fmt::Debug for Registry<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("name", &self.shared.name)
            .field("capacity", &self.shared.capacity)
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}
