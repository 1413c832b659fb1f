//! Six outages on a virtual clock: how much load retries add to them, and what bounds it.
//!
//! ```text
//! cargo run --release --example storm
//! cargo run --release --example storm -- --scenario 3 --processes 1000 --json
//! ```
//!
//! Nothing is real but the layers: servers are functions, and the clock stands still until everybody waits, so minutes
//! take seconds and a seed gives the same figures each time.
//!
//! 1. A deploy: 200 sessions and 30 s of 503.
//! 2. An overload that outlives its cause, unless a budget bounds the retries.
//! 3. A fleet of up to 10,000 processes, each with a budget of its own.
//! 4. Three layers that retry.
//! 5. A rate limiter that tells 1,000 clients the same `Retry-After`.
//! 6. A partial outage, by the budget's ratio.
//!
//! It compares with tower. tower-resilience goes through the same deploy in the package of the benchmarks (`storm_peers`
//! in `benches/`), so that nobody compiles it for an example.
//!
//! Where to read: a file a scenario; `sim.rs` has the server and the load, `tower_policy.rs` tower's retry.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;

use clap::Parser;
use indicatif::ProgressBar;
use serde_json::json;
use tower_composure::BoxError;

use crate::args::Args;
use crate::deploy::Deploy;
use crate::fleet::Fleet;
use crate::table::Table;

mod args;
mod chart;
mod deploy;
mod fleet;
mod layers;
mod overload;
mod partial;
mod sim;
mod table;
mod throttled;
mod tower_policy;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let scenarios = args.scenarios();
    let progress = progress(scenarios.len());
    let mut tables = Vec::new();
    for number in scenarios {
        progress.set_message(format!("scenario {number}"));
        let table = scenario(number, &args).await?;
        let file = format!("storm-{number}-{}.svg", table.name);
        let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).join(file);
        chart::draw(&file, &table)?;
        if !args.json {
            progress.suspend(|| println!("{table}\nChart: {}\n", file.display()));
        }
        tables.push(table.json());
        progress.inc(1);
    }
    progress.finish_and_clear();
    if args.json {
        println!("{}", json!({"seed": args.seed, "scenarios": tables}));
    }
    Ok(())
}

async fn scenario(number: u8, args: &Args) -> Result<Table, BoxError> {
    let seed = args.seed;
    match number {
        1 => {
            let sessions = args.sessions;
            deploy::run(Deploy { sessions, seed }).await
        }
        2 => overload::run(seed).await,
        3 => Fleet::new(args.processes, seed).run().await,
        4 => layers::run(seed).await,
        5 => throttled::run(seed).await,
        _ => partial::run(seed).await,
    }
}

/// One step a scenario, for a person who waits.
fn progress(scenarios: usize) -> ProgressBar {
    if stdout().is_terminal() {
        ProgressBar::new(scenarios as u64)
    } else {
        ProgressBar::hidden()
    }
}
