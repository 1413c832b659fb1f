//! The budget under every interleaving: loom runs each model with all the orders its atomics allow.
#![cfg(loom)]

use loom::thread;
use tower_composure::{Budget, Verdict};

/// Takes one token for good.
fn take(budget: &Budget) -> bool {
    budget
        .try_withdraw(Verdict::UNKNOWN)
        .map(|token| token.spend())
        .is_some()
}

/// Fails where `Bucket::withdraw` loads, compares and then subtracts, as tower's budget does.
#[test]
fn two_threads_never_take_one_token_twice() {
    loom::model(|| {
        let budget = Budget::new(0.0, 1).unwrap();
        let other = budget.clone();
        let other = thread::spawn(move || take(&other));
        let mine = take(&budget);
        let theirs = other.join().unwrap();
        assert!(mine ^ theirs, "there was one");
        assert!(budget.balance() < 1.0);
    });
}

/// Fails where `Bucket::add` loads and then stores.
#[test]
fn deposits_are_not_lost() {
    loom::model(|| {
        let budget = Budget::builder()
            .ratio(0.5)
            .burst(3)
            .starting_empty()
            .build()
            .unwrap();
        let other = budget.clone();
        let other = thread::spawn(move || other.deposit());
        budget.deposit();
        other.join().unwrap();
        assert!(take(&budget), "two halves are one");
        assert!(!take(&budget));
    });
}

/// Fails where `Bucket::add` forgets the cap between its look and its change.
#[test]
fn a_token_that_comes_back_never_passes_the_cap() {
    loom::model(|| {
        let budget = Budget::new(1.0, 1).unwrap();
        let token = budget.try_withdraw(Verdict::UNKNOWN).unwrap();
        let other = budget.clone();
        let other = thread::spawn(move || other.deposit());
        drop(token);
        other.join().unwrap();
        assert!(take(&budget));
        assert!(!take(&budget), "it holds one");
    });
}

/// Fails where `Withdrawal` does not put back what it took.
#[test]
fn a_dropped_withdrawal_comes_back() {
    loom::model(|| {
        let budget = Budget::new(0.0, 1).unwrap();
        let other = budget.clone();
        let other = thread::spawn(move || drop(other.try_withdraw(Verdict::UNKNOWN)));
        let mine = take(&budget);
        other.join().unwrap();
        assert_eq!(take(&budget), !mine, "exactly one, now or then");
    });
}
