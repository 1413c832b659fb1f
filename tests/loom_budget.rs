//! The budget under every interleaving: loom runs each model with all the orders its atomics allow.
#![cfg(loom)]

use std::sync::atomic::{AtomicU32, Ordering};

use loom::thread;
use tower_composure::Budget;

#[test]
fn two_threads_never_take_one_token_twice() {
    loom::model(|| {
        let budget = Budget::new(0.0, 1).unwrap();
        let other = budget.clone();
        let thread =
            thread::spawn(move || other.try_withdraw().map(|token| token.spend()).is_some());
        let mine = budget.try_withdraw().map(|token| token.spend()).is_some();
        let theirs = thread.join().unwrap();
        assert_eq!(u32::from(mine) + u32::from(theirs), 1);
        let _ = (AtomicU32::new(0), Ordering::SeqCst);
    });
}
