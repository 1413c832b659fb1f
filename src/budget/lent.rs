use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use tokio::time::Instant;

use super::bucket::Bucket;
use super::builder::{Terms, tokens};
use crate::clock;
use crate::lanes::Lane;
use crate::sync::{AtomicU64, Ordering};
use crate::verdict::Verdict;

/// What all clones of a budget share.
pub(super) struct Shared {
    pub(super) bucket: Bucket,
    pub(super) terms: Terms,
    pub(super) refused: AtomicU64,
    epoch: Instant,
}

impl Shared {
    pub(super) fn new(bucket: Bucket, terms: Terms) -> Self {
        Self {
            bucket,
            terms,
            refused: AtomicU64::new(0),
            epoch: clock::now(),
        }
    }

    /// What was taken for a retry after this verdict, if it could be.
    #[inline]
    pub(super) fn withdraw(&self, after: Verdict) -> Option<u64> {
        let cost = self.terms.cost(after);
        if self.bucket.withdraw(cost, || self.now()) {
            return Some(cost);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        // One that only observes lets the retry go for nothing.
        self.terms.observe_only.then_some(0)
    }

    /// The balance now, in millitokens.
    pub(super) fn balance(&self) -> u64 {
        self.bucket.balance(|| self.now())
    }

    /// Nanoseconds since it was made. Only a trickle asks for them.
    fn now(&self) -> u64 {
        clock::nanos_since(self.epoch)
    }
}

/// A budget, as a call holds it and lends it to the retry below.
#[derive(Clone)]
pub(crate) struct LentBudget(Arc<Lane<Shared>>);

impl LentBudget {
    #[inline]
    pub(super) const fn new(lane: Arc<Lane<Shared>>) -> Self {
        Self(lane)
    }

    /// See [`Budget::deposit`](super::Budget::deposit).
    #[inline]
    pub(crate) fn deposit(&self) {
        self.0.bucket.deposit();
    }

    /// The tokens that are there now.
    pub(crate) fn balance(&self) -> f64 {
        tokens(self.0.balance())
    }

    /// See [`Budget::try_withdraw`](super::Budget::try_withdraw).
    #[inline]
    pub(crate) fn try_withdraw(&self, after: Verdict) -> Option<Withdrawal> {
        self.0
            .withdraw(after)
            .map(|amount| Withdrawal::new(Arc::clone(&self.0), amount))
    }
}

/// What was taken for a retry. Dropping it puts it back: the retry did not start.
///
/// ```
/// use tower_composure::{Budget, Verdict};
///
/// let budget = Budget::default();
/// let withdrawal = budget.try_withdraw(Verdict::REFUSED).unwrap();
/// assert_eq!(budget.balance(), 19.0);
/// drop(withdrawal); // the retry was never made
/// assert_eq!(budget.balance(), 20.0);
/// ```
#[must_use = "dropping it puts the tokens back"]
pub struct Withdrawal {
    lane: Option<Arc<Lane<Shared>>>,
    amount: u64,
}

impl Withdrawal {
    pub(crate) const NOTHING: Self = Self {
        lane: None,
        amount: 0,
    };

    #[inline]
    pub(super) const fn new(lane: Arc<Lane<Shared>>, amount: u64) -> Self {
        Self {
            lane: Some(lane),
            amount,
        }
    }

    #[inline]
    pub(crate) const fn is_nothing(&self) -> bool {
        self.lane.is_none()
    }

    /// The retry has started: the tokens are gone.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::default();
    /// budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
    /// assert_eq!(budget.balance(), 19.0);
    /// ```
    #[inline]
    pub fn spend(mut self) {
        drop(self.lane.take());
        // There is nothing to put back.
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for Withdrawal {
    #[inline]
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            lane.bucket.add(self.amount);
        }
    }
}

impl fmt::Debug for Withdrawal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Withdrawal")
            .field("tokens", &tokens(self.amount))
            .finish_non_exhaustive()
    }
}
