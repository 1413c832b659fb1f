//! The deploy of the example `storm` with tower-resilience beside this crate and tower: the same load, the same server,
//! the same table. With `--json`, one JSON object and nothing else.
//!
//! It runs on tokio's paused clock. The refill of tower-resilience's token bucket reads std's clock, which stands still
//! here, so the bucket is set to refill by its deposits alone, and its breaker, which would never close again, is left out.

use std::time::Duration;

use tower::Layer;
use tower_composure::BoxError;
use tower_resilience_retry::{ExponentialRandomBackoff, RetryBudgetBuilder, RetryLayer};

use crate::deploy::Deploy;
use crate::sim::{Call, Failed};

#[path = "../../../examples/storm/deploy.rs"]
mod deploy;
#[path = "../../../examples/storm/sim.rs"]
#[expect(dead_code, reason = "the example has more scenarios, and charts")]
mod sim;
#[path = "../../../examples/storm/table.rs"]
#[expect(dead_code, reason = "the example has more scenarios, and charts")]
mod table;
#[path = "../../../examples/storm/tower_policy.rs"]
#[expect(dead_code, reason = "the example has more scenarios, and charts")]
mod tower_policy;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), BoxError> {
    let deploy = Deploy {
        sessions: 200,
        seed: 42,
    };
    let mut table = deploy::run(deploy).await?;
    let retry = || {
        // Half the base and all of it as jitter is full jitter, its own way of saying it.
        let waits = ExponentialRandomBackoff::new(Duration::from_millis(100), 1.0)
            .expect("settings that work")
            .max_interval(Duration::from_secs(1));
        RetryLayer::<Call, (), Failed>::builder()
            .max_attempts(4)
            .backoff(waits)
    };
    let layer = retry().build();
    let name = "tower-resilience retry";
    deploy.add(&mut table, name, |api| layer.layer(api)).await?;

    let bucket = RetryBudgetBuilder::new().token_bucket();
    let bucket = bucket.tokens_per_second(0.0).max_tokens(20).build()?;
    let layer = retry().budget(bucket).build();
    let name = "tower-resilience retry + token bucket of 20";
    deploy.add(&mut table, name, |api| layer.layer(api)).await?;

    if std::env::args().any(|argument| argument == "--json") {
        println!("{}", table.json());
    } else {
        table.says.pop();
        println!("{table}");
    }
    Ok(())
}
