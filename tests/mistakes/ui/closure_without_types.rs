//! A closure as a policy, whose arguments are not named.

use tower_composure::{RetryLayer, Verdict, policy_fn};

fn main() {
    let layer = RetryLayer::new(policy_fn(|_, outcome| match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::UNKNOWN,
    }));
    let _ = layer;
}
