use std::fmt;
use std::sync::Arc;

use super::bucket::{Bucket, TOKEN};
use super::builder::{BudgetBuilder, Terms, tokens};
use super::lent::{LentBudget, Shared, Withdrawal};
use crate::error::ConfigError;
use crate::lanes::Lanes;
use crate::sync::Ordering;
use crate::verdict::Verdict;

/// A retry budget. Clones share one balance.
///
/// Defaults: ratio 0.1, burst 20, as [`Budget::default`] makes it.
///
/// ```
/// use tower_composure::{Budget, Verdict};
///
/// let budget = Budget::new(0.5, 10)?;
/// budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
/// budget.clone().deposit();
/// assert_eq!(budget.balance(), 9.5);
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
    lanes: Arc<Lanes<Shared>>,
}

impl Budget {
    /// Starts with the defaults.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::builder().build()?.balance(), 20.0);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn builder() -> BudgetBuilder {
        BudgetBuilder::default()
    }

    /// A full budget: each success earns `ratio` tokens, up to `burst` tokens, and each retry costs one.
    ///
    /// # Errors
    ///
    /// As [`BudgetBuilder::build`].
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// let budget = Budget::new(0.1, 5)?;
    /// assert_eq!(budget.balance(), 5.0);
    /// assert!(Budget::new(-1.0, 5).is_err());
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn new(ratio: f64, burst: u32) -> Result<Self, ConfigError> {
        Self::builder().ratio(ratio).burst(burst).build()
    }

    pub(super) fn of(bucket: Bucket, terms: Terms) -> Self {
        let shared = Arc::new(Shared::new(bucket, terms));
        Self {
            lanes: Arc::new(Lanes::new(&shared)),
            shared,
        }
    }

    /// Earns what one success earns. The retry layer does this; a caller that retries by hand may.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// let budget = Budget::builder().starting_empty().build()?;
    /// budget.deposit();
    /// assert_eq!(budget.balance(), 0.1);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    #[inline]
    pub fn deposit(&self) {
        self.shared.bucket.deposit();
    }

    /// Takes what a retry after this verdict costs, or nothing. It goes back when the withdrawal is dropped, unless it
    /// was [spent](Withdrawal::spend). The retry layer does this.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::new(0.1, 1)?;
    /// let taken = budget.try_withdraw(Verdict::UNKNOWN).unwrap();
    /// assert!(budget.try_withdraw(Verdict::UNKNOWN).is_none());
    /// drop(taken); // the retry was not made
    /// assert_eq!(budget.balance(), 1.0);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn try_withdraw(&self, after: Verdict) -> Option<Withdrawal> {
        self.shared
            .withdraw(after)
            .map(|amount| Withdrawal::new(self.lanes.of_this_thread(), amount))
    }

    /// What a call holds of it.
    #[inline]
    pub(crate) fn lend(&self) -> LentBudget {
        LentBudget::new(self.lanes.of_this_thread())
    }

    /// The tokens that are there now.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::default().balance(), 20.0);
    /// ```
    pub fn balance(&self) -> f64 {
        tokens(self.shared.balance())
    }

    /// Whether it holds as much as it can.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::default();
    /// assert!(budget.is_full());
    /// budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
    /// assert!(!budget.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        self.shared.balance() >= self.shared.bucket.cap()
    }

    /// Retries it has refused since it was made; where it only observes, those it would have refused.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::builder().starting_empty().build()?;
    /// assert!(budget.try_withdraw(Verdict::UNKNOWN).is_none());
    /// assert_eq!(budget.refused(), 1);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// The most it can hold, in tokens.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::default().burst(), 20.0);
    /// ```
    pub fn burst(&self) -> f64 {
        tokens(self.shared.bucket.cap())
    }

    /// What one success earns, in tokens.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::default().ratio(), 0.1);
    /// ```
    pub fn ratio(&self) -> f64 {
        tokens(self.shared.bucket.deposit_amount())
    }

    /// What each second earns, in tokens.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::builder().trickle(0.5).build()?.trickle(), 0.5);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn trickle(&self) -> f64 {
        tokens(self.shared.bucket.trickle())
    }

    /// The name it was given.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::default().name(), "");
    /// ```
    pub fn name(&self) -> &str {
        &self.shared.terms.name
    }

    /// Whether there is another clone, or a call under way.
    #[cfg(feature = "keyed")]
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.lanes) > 1 || self.lanes.are_in_use()
    }
}

/// Ratio 0.1 and burst 20: a tenth more load than there are successes, and twenty retries for a cold start.
impl Default for Budget {
    fn default() -> Self {
        let burst = 20 * TOKEN;
        Self::of(Bucket::new(burst, burst, TOKEN / 10, 0), Terms::default())
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.name())
            .field("ratio", &self.ratio())
            .field("burst", &self.burst())
            .field("trickle", &self.trickle())
            .field("balance", &self.balance())
            .finish_non_exhaustive()
    }
}
