use std::fmt;
use std::sync::Arc;

use super::bucket::{Bucket, TOKEN};
use crate::error::ConfigError;

/// A retry budget. Clones share one balance.
///
/// Defaults: ratio 0.1, burst 20, as [`Budget::default`] makes it.
#[derive(Clone)]
pub struct Budget {
    bucket: Arc<Bucket>,
}

impl Budget {
    /// A full budget: each success earns `ratio` tokens, up to `burst` tokens, and each retry costs one.
    ///
    /// `ratio` counts in thousandths, rounded down. `burst` is also what a cold process may spend.
    ///
    /// # Errors
    ///
    /// Where `ratio` is not a number, negative, above 1000 or below a thousandth but not zero; and where `burst` is
    /// zero, since such a budget would refuse the first retry of every process: ask for that with
    /// [`Budget::starting_empty`].
    pub fn new(ratio: f64, burst: u32) -> Result<Self, ConfigError> {
        if burst == 0 {
            return Err(ConfigError::new(
                "burst",
                "0 refuses every retry; starting_empty makes a budget that must be earned first",
            ));
        }
        let cap = u64::from(burst).saturating_mul(TOKEN);
        Ok(Self::of(Bucket::full(cap, millitokens(ratio)?)))
    }

    /// A budget that holds up to `burst` tokens but has to earn the first one: a cold process gets no retries.
    ///
    /// # Errors
    ///
    /// As [`Budget::new`]; here `burst` may be zero, which refuses every retry for ever.
    pub fn starting_empty(ratio: f64, burst: u32) -> Result<Self, ConfigError> {
        let cap = u64::from(burst).saturating_mul(TOKEN);
        let bucket = Bucket::full(cap, millitokens(ratio)?);
        bucket.withdraw(cap);
        Ok(Self::of(bucket))
    }

    fn of(bucket: Bucket) -> Self {
        Self {
            bucket: Arc::new(bucket),
        }
    }

    /// Earns what one success earns. The retry layer does this; a caller that retries by hand may.
    pub fn deposit(&self) {
        self.bucket.deposit();
    }

    /// Takes one token, or nothing. The token goes back when the withdrawal is dropped, unless it was
    /// [spent](Withdrawal::spend).
    pub fn try_withdraw(&self) -> Option<Withdrawal> {
        self.bucket.withdraw(TOKEN).then(|| Withdrawal {
            bucket: Some(Arc::clone(&self.bucket)),
        })
    }

    /// The tokens that are there now.
    pub fn balance(&self) -> f64 {
        tokens(self.bucket.balance())
    }

    /// Whether it holds as much as it can.
    pub fn is_full(&self) -> bool {
        self.bucket.balance() >= self.bucket.cap()
    }

    /// The most it can hold, in tokens.
    pub fn burst(&self) -> f64 {
        tokens(self.bucket.cap())
    }

    /// What one success earns, in tokens.
    pub fn ratio(&self) -> f64 {
        tokens(self.bucket.deposit_amount())
    }
}

/// Ratio 0.1 and burst 20: a tenth more load than there are successes, and twenty retries for a cold start.
impl Default for Budget {
    fn default() -> Self {
        Self::of(Bucket::full(20 * TOKEN, TOKEN / 10))
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("ratio", &self.ratio())
            .field("burst", &self.burst())
            .field("balance", &self.balance())
            .finish()
    }
}

fn millitokens(ratio: f64) -> Result<u64, ConfigError> {
    let bad = |why: &str| ConfigError::new("ratio", format!("{ratio} {why}"));
    if !(0.0..=1000.0).contains(&ratio) {
        return Err(bad("is not between 0 and 1000"));
    }
    // The products of most ratios fall a hair beside the whole thousandth that was meant: 0.29 * 1000 is 290 less 6e-14.
    let thousandths = (ratio * 1000.0 + 1e-6).floor();
    if thousandths == 0.0 && ratio > 0.0 {
        return Err(bad("is less than a thousandth, and would earn nothing"));
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
fn tokens(millitokens: u64) -> f64 {
    millitokens as f64 / TOKEN as f64
}

/// A token taken for a retry. Dropping it puts the token back: the retry did not start.
#[derive(Debug)]
#[must_use = "dropping it puts the token back"]
pub struct Withdrawal {
    bucket: Option<Arc<Bucket>>,
}

impl Withdrawal {
    /// The retry has started: the token is gone.
    pub fn spend(mut self) {
        self.bucket = None;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if let Some(bucket) = self.bucket.take() {
            bucket.add(TOKEN);
        }
    }
}
