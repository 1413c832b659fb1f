//! A layer of the user's own in the place of the key layer.

use tower::layer::util::Identity;
use tower_composure::{ConfigError, HttpPolicy, Stack};

fn main() -> Result<(), ConfigError> {
    let stack = Stack::builder(HttpPolicy::new())
        .idempotency_key(Identity::new())
        .build()?;
    let _ = stack;
    Ok(())
}
