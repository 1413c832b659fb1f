//! An observer that is given away, although several layers share it.

use tower_composure::{Effect, Observer, RetryLayer};

struct Metrics;

impl Observer for Metrics {}

fn main() {
    let layer = RetryLayer::builder(Effect::Read).observer(Metrics).build();
    let _ = layer;
}
