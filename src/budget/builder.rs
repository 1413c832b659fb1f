use std::sync::Arc;

use super::Budget;
use super::bucket::{Bucket, TOKEN};
use crate::error::ConfigError;
use crate::verdict::Verdict;

/// Builds a [`Budget`]. From [`Budget::builder`].
///
/// ```
/// use tower_composure::Budget;
///
/// let budget = Budget::builder().ratio(0.2).burst(50).name("payments").build()?;
/// assert_eq!((budget.ratio(), budget.burst(), budget.name()), (0.2, 50.0, "payments"));
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct BudgetBuilder {
    ratio: f64,
    burst: u32,
    trickle: f64,
    empty: bool,
    costs: [f64; 3],
    observe_only: bool,
    name: Arc<str>,
}

impl Default for BudgetBuilder {
    fn default() -> Self {
        Self {
            ratio: 0.1,
            burst: 20,
            trickle: 0.0,
            empty: false,
            costs: [1.0; 3],
            observe_only: false,
            name: "".into(),
        }
    }
}

impl BudgetBuilder {
    /// How many tokens each success earns, counted in thousandths and rounded down. Default 0.1.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::builder().ratio(0.35).build()?.ratio(), 0.35);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = ratio;
        self
    }

    /// The most it holds, in tokens, and what a cold process may spend. Default 20.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::builder().burst(5).build()?.balance(), 5.0);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn burst(mut self, tokens: u32) -> Self {
        self.burst = tokens;
        self
    }

    /// Tokens that come in each second, whatever happens: for callers with so little traffic that successes alone would
    /// never earn a retry. Counted in thousandths, computed from elapsed time when somebody looks. Default 0.
    ///
    /// It adds to the load in an outage: trickle × time, for each process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use std::time::Duration;
    /// use tower_composure::Budget;
    ///
    /// let budget = Budget::builder().trickle(0.5).starting_empty().build()?;
    /// tokio::time::advance(Duration::from_secs(4)).await;
    /// assert_eq!(budget.balance(), 2.0);
    /// # Ok(()) }
    /// ```
    pub const fn trickle(mut self, tokens_a_second: f64) -> Self {
        self.trickle = tokens_a_second;
        self
    }

    /// Starts with nothing, so that even the first retry has to be earned; and lets the burst be zero, which refuses
    /// every retry for ever.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::builder().starting_empty().build()?;
    /// assert!(budget.try_withdraw(Verdict::REFUSED).is_none());
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn starting_empty(mut self) -> Self {
        self.empty = true;
        self
    }

    /// What a retry costs after an outcome that was `Unknown`, in tokens. Default 1. A timeout holds a connection and a
    /// caller for its whole length, so it may cost more than a refusal.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::builder().unknown_costs(2.0).build()?;
    /// budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
    /// assert_eq!(budget.balance(), 18.0);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn unknown_costs(mut self, tokens: f64) -> Self {
        self.costs[UNKNOWN] = tokens;
        self
    }

    /// What a retry costs after an outcome that was `Refused`, in tokens. Default 1.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::builder().refused_costs(0.5).build()?;
    /// budget.try_withdraw(Verdict::REFUSED).unwrap().spend();
    /// assert_eq!(budget.balance(), 19.5);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn refused_costs(mut self, tokens: f64) -> Self {
        self.costs[REFUSED] = tokens;
        self
    }

    /// What a retry costs after an outcome that was `Throttled`, in tokens. Default 1.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::builder().throttled_costs(5.0).build()?;
    /// budget.try_withdraw(Verdict::THROTTLED).unwrap().spend();
    /// assert_eq!(budget.balance(), 15.0);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn throttled_costs(mut self, tokens: f64) -> Self {
        self.costs[THROTTLED] = tokens;
        self
    }

    /// Refuses nothing, and counts what it would have refused: to try numbers out before they bind.
    ///
    /// ```
    /// use tower_composure::{Budget, Verdict};
    ///
    /// let budget = Budget::builder().starting_empty().observe_only().build()?;
    /// assert!(budget.try_withdraw(Verdict::REFUSED).is_some());
    /// assert_eq!(budget.refused(), 1); // would have been
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn observe_only(mut self) -> Self {
        self.observe_only = true;
        self
    }

    /// The name of what is called, as events and dashboards give it. Default `""`.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// assert_eq!(Budget::builder().name("payments").build()?.name(), "payments");
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Builds it, full unless it was told to start empty.
    ///
    /// # Errors
    ///
    /// Where a number is not a number, negative, above its range, or below a thousandth but not zero; where a retry
    /// would cost nothing; and where the burst is zero without [`starting_empty`](Self::starting_empty), or below what
    /// one retry costs.
    ///
    /// ```
    /// use tower_composure::Budget;
    ///
    /// let error = Budget::builder().burst(0).build().unwrap_err();
    /// assert_eq!(error.setting(), "burst");
    /// ```
    pub fn build(self) -> Result<Budget, ConfigError> {
        if self.burst == 0 && !self.empty {
            return Err(ConfigError::new(
                "burst",
                "0 refuses every retry; starting_empty says that this is meant",
            ));
        }
        let [throttled, refused, unknown] = self.costs;
        let throttled = cost("throttled_costs", throttled)?;
        let refused = cost("refused_costs", refused)?;
        let unknown = cost("unknown_costs", unknown)?;
        let cap = u64::from(self.burst) * TOKEN;
        let most = throttled.max(refused).max(unknown);
        if self.burst > 0 && most > cap {
            let reason = format!("{} is below a cost of {}", self.burst, tokens(most));
            return Err(ConfigError::new("burst", reason));
        }
        let bucket = Bucket::new(
            if self.empty { 0 } else { cap },
            cap,
            thousandths("ratio", self.ratio)?,
            thousandths("trickle", self.trickle)?,
        );
        Ok(Budget::of(
            bucket,
            Terms {
                costs: [throttled, refused, unknown],
                observe_only: self.observe_only,
                name: self.name,
            },
        ))
    }
}

const THROTTLED: usize = 0;
const REFUSED: usize = 1;
const UNKNOWN: usize = 2;

/// What does not change about a budget.
#[derive(Debug)]
pub(super) struct Terms {
    costs: [u64; 3],
    pub(super) observe_only: bool,
    pub(super) name: Arc<str>,
}

impl Terms {
    /// What a retry after this verdict costs, in millitokens.
    pub(super) const fn cost(&self, after: Verdict) -> u64 {
        let [throttled, refused, unknown] = self.costs;
        match after {
            Verdict::Throttled { .. } => throttled,
            Verdict::Refused { .. } => refused,
            Verdict::Unknown { .. } => unknown,
            // Nothing is retried after these.
            Verdict::Success | Verdict::Fault | Verdict::Rejected => TOKEN,
        }
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            costs: [TOKEN; 3],
            observe_only: false,
            name: "".into(),
        }
    }
}

fn cost(setting: &'static str, told: f64) -> Result<u64, ConfigError> {
    match thousandths(setting, told)? {
        0 => Err(ConfigError::new(setting, "0 would not bound retries")),
        cost => Ok(cost),
    }
}

fn thousandths(setting: &'static str, number: f64) -> Result<u64, ConfigError> {
    let bad = |why: &str| ConfigError::new(setting, format!("{number} {why}"));
    if !(0.0..=1000.0).contains(&number) {
        return Err(bad("is not between 0 and 1000"));
    }
    // The products of most decimals fall a hair beside the whole thousandth that was meant: 0.29 * 1000 is 290 less 6e-14.
    let thousandths = (number * 1000.0 + 1e-6).floor();
    if thousandths == 0.0 && number > 0.0 {
        return Err(bad("is less than a thousandth, and would count as nothing"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked above to lie between 0 and 1,000,000"
    )]
    Ok(thousandths as u64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a balance has at most 42 bits, and a float holds 53"
)]
pub(super) fn tokens(millitokens: u64) -> f64 {
    millitokens as f64 / TOKEN as f64
}
