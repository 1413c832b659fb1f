//! The bucket: one atomic in millitokens, and one for the trickle.
//!
//! Whole thousandths make a ratio exact: 0.35 over 100 deposits is 35 tokens, where adding 0.1 ten times in floating
//! point is not 1. Pure: time comes in as nanoseconds on the budget's own clock.

use crate::sync::{AtomicU64, Ordering};

/// A thousandth of a retry.
pub(super) const TOKEN: u64 = 1000;

const SECOND: u128 = 1_000_000_000;

/// A balance between zero and a cap.
///
/// Every change is one compare-exchange of the balance itself: nothing checks first and acts later. Nothing else in
/// memory depends on the balance, so every access is relaxed.
#[derive(Debug)]
pub(super) struct Bucket {
    level: Level,
    cap: u64,
    deposit: u64,
    /// Millitokens a second.
    trickle: u64,
}

/// What changes, on a cache line of its own and of the one that is fetched with it. A thread that reads the cap would
/// otherwise wait for the line that another thread has just written, and then once more to write it.
#[derive(Debug)]
#[repr(align(128))]
struct Level {
    balance: AtomicU64,
    /// Up to when the trickle has been added.
    credited: AtomicU64,
}

impl Bucket {
    /// A bucket that holds `balance` at time zero. All amounts are millitokens.
    pub(super) fn new(balance: u64, cap: u64, deposit: u64, trickle: u64) -> Self {
        Self {
            level: Level {
                balance: AtomicU64::new(balance.min(cap)),
                credited: AtomicU64::new(0),
            },
            cap,
            deposit,
            trickle,
        }
    }

    /// Earns what one success earns. A full bucket is only read, so that a healthy fleet does not fight for the line.
    #[inline]
    pub(super) fn deposit(&self) {
        if self.deposit != 0 {
            self.add(self.deposit);
        }
    }

    /// Takes an amount, or nothing at all.
    #[inline]
    pub(super) fn withdraw(&self, amount: u64, now: impl FnOnce() -> u64) -> bool {
        if self.trickle != 0 {
            self.credit(now());
        }
        self.level
            .balance
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |balance| {
                balance.checked_sub(amount)
            })
            .is_ok()
    }

    /// Adds up to the cap.
    #[inline]
    pub(super) fn add(&self, amount: u64) {
        let _ = self
            .level
            .balance
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |balance| {
                (balance < self.cap).then(|| balance.saturating_add(amount).min(self.cap))
            });
    }

    /// What is there at a time, the trickle until then included. Looking changes nothing.
    pub(super) fn balance(&self, now: impl FnOnce() -> u64) -> u64 {
        let balance = self.level.balance.load(Ordering::Relaxed);
        if self.trickle == 0 {
            return balance;
        }
        let (earned, _) = self.earned(self.level.credited.load(Ordering::Relaxed), now());
        balance.saturating_add(earned).min(self.cap)
    }

    pub(super) const fn cap(&self) -> u64 {
        self.cap
    }

    pub(super) const fn deposit_amount(&self) -> u64 {
        self.deposit
    }

    pub(super) const fn trickle(&self) -> u64 {
        self.trickle
    }

    /// Adds the trickle up to now. Whoever moves the time forward adds what that time has earned, once.
    fn credit(&self, now: u64) {
        let moved =
            self.level
                .credited
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |since| {
                    let (earned, until) = self.earned(since, now);
                    (earned > 0).then_some(until)
                });
        if let Ok(since) = moved {
            let (earned, _) = self.earned(since, now);
            self.add(earned);
        }
    }

    /// What the time since `since` has earned in whole millitokens, and up to when that is: the rest is carried on, less
    /// a fraction of a nanosecond, so that however often it is asked it never earns more than it was told to.
    fn earned(&self, since: u64, now: u64) -> (u64, u64) {
        let elapsed = u128::from(now.saturating_sub(since));
        let rate = u128::from(self.trickle);
        let earned = elapsed.saturating_mul(rate) / SECOND;
        if rate == 0 {
            return (0, since);
        }
        let spent = earned.saturating_mul(SECOND).div_ceil(rate);
        let until = since.saturating_add(u64::try_from(spent).unwrap_or(u64::MAX));
        (u64::try_from(earned).unwrap_or(u64::MAX), until)
    }
}
