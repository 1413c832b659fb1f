//! What only a feature has.

use tower_composure::fault::FaultLayer;

fn main() {
    let _ = FaultLayer::<(), (), ()>::builder();
}
