//! The waits of calls that always fail.

use std::time::Duration;

use tower::{Layer, ServiceExt};
use tower_composure::{Backoff, CallReport, Effect, RetryLayer};

use super::{Script, Step};

pub type Calls = Script<(), (), &'static str>;

pub fn exponential(base_ms: u64, cap_ms: u64) -> Backoff {
    Backoff::exponential(
        Duration::from_millis(base_ms),
        Duration::from_millis(cap_ms),
    )
}

/// When the attempts at a call that always fails come, and the sum of its waits.
pub async fn attempts(backoff: Backoff, max: u32, seed: u64) -> (Vec<u128>, Duration) {
    let script = Calls::new([Step::Err("down")]);
    let layer = RetryLayer::builder(Effect::Read)
        .max_attempts(max)
        .backoff(backoff)
        .seed(seed)
        .build()
        .unwrap();
    let (_, report) = CallReport::of(layer.layer(script.clone()).oneshot(())).await;
    (script.times(), report.unwrap().backoff())
}
