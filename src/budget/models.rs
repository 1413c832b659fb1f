//! The bucket under every interleaving: loom runs each model with all the orders its atomics allow. Time is an
//! argument of the bucket, so this is where its trickle can be modelled; `tests/loom_budget.rs` has what callers see.
//!
//! `RUSTFLAGS='--cfg loom -C debug-assertions' LOOM_MAX_PREEMPTIONS=3 cargo test --release --no-default-features --lib`

use loom::sync::Arc;
use loom::thread;

use super::bucket::{Bucket, TOKEN};

const SECOND: u64 = 1_000_000_000;

/// An empty bucket of 10 tokens that earns one a second.
fn trickling() -> Arc<Bucket> {
    Arc::new(Bucket::new(0, 10 * TOKEN, 0, TOKEN))
}

/// Fails where `credit` loads the time and then stores it.
#[test]
fn no_second_is_earned_twice() {
    loom::model(|| {
        let bucket = trickling();
        let other = Arc::clone(&bucket);
        let other = thread::spawn(move || other.withdraw(TOKEN, || SECOND));
        let mine = bucket.withdraw(TOKEN, || SECOND);
        let theirs = other.join().unwrap();
        assert!(!(mine && theirs), "one second has earned one token");
        let left = TOKEN - TOKEN * u64::from(mine || theirs);
        assert_eq!(bucket.balance(|| SECOND), left);
    });
}

/// Fails where `credit` lets the time go back, so that a thread with an older clock makes it earn again.
#[test]
fn an_older_clock_earns_nothing_and_loses_nothing() {
    loom::model(|| {
        let bucket = trickling();
        let other = Arc::clone(&bucket);
        let other = thread::spawn(move || u64::from(other.withdraw(TOKEN, || SECOND)));
        let mine = u64::from(bucket.withdraw(TOKEN, || 3 * SECOND));
        let taken = mine + other.join().unwrap();
        assert_eq!(bucket.balance(|| 3 * SECOND) + taken * TOKEN, 3 * TOKEN);
    });
}

/// Fails where a withdrawal subtracts first and puts back what was not there.
#[test]
fn a_refused_withdrawal_is_never_seen_in_the_balance() {
    loom::model(|| {
        let bucket = Arc::new(Bucket::new(TOKEN / 2, TOKEN, TOKEN / 2, 0));
        let other = Arc::clone(&bucket);
        let other = thread::spawn(move || u64::from(other.withdraw(TOKEN, || 0)));
        assert!(bucket.balance(|| 0) <= TOKEN);
        bucket.deposit();
        assert!(bucket.balance(|| 0) <= TOKEN);
        let taken = other.join().unwrap();
        assert_eq!(bucket.balance(|| 0), TOKEN - taken * TOKEN);
    });
}
