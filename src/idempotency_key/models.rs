//! The key of one call, claimed from two threads, under every interleaving.
//!
//! `RUSTFLAGS='--cfg loom -C debug-assertions' LOOM_MAX_PREEMPTIONS=3 cargo test --release --no-default-features
//! --features tool --lib`

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::thread;

use super::IdempotencyKey;
use crate::context::claim_key;

/// Fails where `KeyInScope::claim` loads the count and then stores it.
#[test]
fn two_requests_of_one_call_never_claim_one_key() {
    loom::model(|| {
        // All threads of a model have the locals of this one, as if each had carried the context over.
        let claims = IdempotencyKey::new("order-7").unwrap().scope(async {
            let claim = || claim_key(|| unreachable!("there is one in scope"));
            let other = thread::spawn(claim);
            [claim(), other.join().unwrap()]
        });
        let Poll::Ready(mut claims) = pin!(claims).poll(&mut Context::from_waker(Waker::noop()))
        else {
            unreachable!("it waits for nothing")
        };
        claims.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        let claims = claims.each_ref().map(IdempotencyKey::as_str);
        assert_eq!(claims, ["order-7", "order-7-2"]);
    });
}
