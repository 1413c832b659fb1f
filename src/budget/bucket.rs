//! The bucket: one atomic in millitokens.
//!
//! Whole thousandths make a ratio exact: 0.35 over 100 deposits is 35 tokens, where adding 0.1 ten times in floating
//! point is not 1.

use crate::sync::{AtomicU64, Ordering};

/// A thousandth of a retry.
pub(crate) const TOKEN: u64 = 1000;

/// A balance between zero and a cap.
///
/// Every change is one compare-exchange of the balance itself: nothing checks first and acts later. Nothing else in
/// memory depends on the balance, so every access is relaxed.
#[derive(Debug)]
pub(crate) struct Bucket {
    balance: AtomicU64,
    cap: u64,
    deposit: u64,
}

impl Bucket {
    /// A full bucket. All amounts are millitokens.
    pub(crate) fn full(cap: u64, deposit: u64) -> Self {
        Self {
            balance: AtomicU64::new(cap),
            cap,
            deposit,
        }
    }

    /// Earns what one success earns. A full bucket is only read, so that a healthy fleet does not fight for the line.
    pub(crate) fn deposit(&self) {
        if self.deposit != 0 {
            self.add(self.deposit);
        }
    }

    /// Takes an amount, or nothing at all.
    pub(crate) fn withdraw(&self, amount: u64) -> bool {
        self.balance
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |balance| {
                balance.checked_sub(amount)
            })
            .is_ok()
    }

    /// Adds up to the cap.
    pub(crate) fn add(&self, amount: u64) {
        let _ = self
            .balance
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |balance| {
                (balance < self.cap).then(|| balance.saturating_add(amount).min(self.cap))
            });
    }

    pub(crate) fn balance(&self) -> u64 {
        self.balance.load(Ordering::Relaxed)
    }

    pub(crate) fn cap(&self) -> u64 {
        self.cap
    }

    pub(crate) fn deposit_amount(&self) -> u64 {
        self.deposit
    }
}
