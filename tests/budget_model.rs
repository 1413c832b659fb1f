//! The budget beside a plain sum: the same balance after every step, whatever the order of the steps.
#![cfg(not(loom))]

mod support;

use std::time::Duration;

use proptest::prelude::*;
use support::paused;
use tokio::time::advance;
use tower_composure::{Budget, Verdict};

#[derive(Debug, Clone)]
enum Move {
    Deposit,
    Withdraw,
    Drop(usize),
    Spend(usize),
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        3 => Just(Move::Deposit),
        3 => Just(Move::Withdraw),
        1 => any::<usize>().prop_map(Move::Drop),
        1 => any::<usize>().prop_map(Move::Spend),
        2 => (0_u64..2_000).prop_map(Move::Wait),
    ];
    prop::collection::vec(step, 0..200)
}

/// A plain sum in millitokens, and the billionths of one that a trickle has not filled yet.
struct Model {
    sum: u64,
    part: u64,
    cap: u64,
    trickle: u64,
}

const WHOLE: u64 = 1_000_000_000;

impl Model {
    fn add(&mut self, millitokens: u64) {
        self.sum = (self.sum + millitokens).min(self.cap);
    }

    fn wait(&mut self, milliseconds: u64) {
        self.part += milliseconds * 1_000_000 * self.trickle;
        self.add(self.part / WHOLE);
        self.part %= WHOLE;
    }

    /// Whether a token can be taken; nobody knows where a thousandth decides, since less than a nanosecond of the
    /// trickle may be lost with each withdrawal.
    fn has_token(&self) -> Option<bool> {
        let certain = self.trickle == 0 || !(1000..=1001).contains(&(self.sum + 1));
        certain.then_some(self.sum >= 1000)
    }
}

proptest! {
    #[test]
    fn it_moves_as_a_plain_sum_does(
        mille in 1_u32..1500,
        burst in 1_u32..50,
        trickle in prop_oneof![Just(0_u32), 1_u32..5000],
        moves in moves(),
    ) {
        paused(async || {
            let budget = Budget::builder()
                .ratio(f64::from(mille) / 1000.0)
                .burst(burst)
                .trickle(f64::from(trickle) / 1000.0)
                .build()
                .unwrap();
            let cap = u64::from(burst) * 1000;
            let mut model = Model {
                sum: cap,
                part: 0,
                cap,
                trickle: trickle.into(),
            };
            let mut held = Vec::new();
            for step in moves {
                match step {
                    Move::Deposit => {
                        budget.deposit();
                        model.add(mille.into());
                    }
                    Move::Withdraw => {
                        let token = budget.try_withdraw(Verdict::UNKNOWN);
                        let has = model.has_token();
                        assert!(has.is_none_or(|has| has == token.is_some()));
                        model.sum = model.sum.saturating_sub(1000 * u64::from(token.is_some()));
                        held.extend(token);
                    }
                    Move::Drop(which) if !held.is_empty() => {
                        drop(held.swap_remove(which % held.len()));
                        model.add(1000);
                    }
                    Move::Spend(which) if !held.is_empty() => {
                        held.swap_remove(which % held.len()).spend();
                    }
                    Move::Drop(_) | Move::Spend(_) => {}
                    Move::Wait(milliseconds) => {
                        advance(Duration::from_millis(milliseconds)).await;
                        model.wait(milliseconds);
                    }
                }
                #[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
                let expected = model.sum as f64 / 1000.0;
                let slack = if trickle == 0 { 1e-9 } else { 0.001 + 1e-9 };
                assert!((budget.balance() - expected).abs() <= slack);
            }
        });
    }
}
