//! A payment API goes through a deploy while 200 agent sessions charge cards through it.
//!
//! ```text
//! cargo run --release --example payment_deploy
//! ```
//!
//! Everything is real: an axum server on a loopback port, a hyper-util client, a SQLite file. The API answers 503 before
//! it acts during the outage, and loses 3 % of its answers all the time: the card is charged and the client hears
//! nothing. Four clients go through the same load, one after the other:
//!
//! - `none`: one attempt.
//! - `naive`: four attempts, a fixed wait, no budget, no key: what people write by hand.
//! - `retry`: the whole stack of this crate but its breaker.
//! - `composure`: the whole stack.
//!
//! Where to read: `client.rs` has the four clients, `scenario.rs` the numbers, `server.rs` the API.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::io::{IsTerminal, stdout};
use std::path::Path;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tower_composure::BoxError;

use crate::args::Args;
use crate::client::Kind;
use crate::report::Report;
use crate::scenario::Scenario;

mod args;
mod chart;
mod client;
mod load;
mod report;
mod scenario;
mod server;
mod watch;

/// Where the chart goes. `docs/payment_deploy.svg` is a copy of what a run with default arguments draws here.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/payment_deploy.svg");

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let scenario = args.scenario();
    if !args.json {
        println!("{scenario}\n");
    }

    let progress = progress(&scenario)?;
    let mut runs = Vec::new();
    for kind in Kind::ALL {
        progress.set_message(kind.name());
        runs.push(load::run(kind, &scenario, &progress).await?);
    }
    progress.finish_and_clear();

    let report = Report { runs };
    chart::draw(Path::new(CHART), &scenario, &report)?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{report}\nChart: {CHART}");
    }
    Ok(())
}

/// One bar over all calls of all runs, for a person who waits.
fn progress(scenario: &Scenario) -> Result<ProgressBar, BoxError> {
    if !stdout().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let calls = u64::from(scenario.calls()) * Kind::ALL.len() as u64;
    let style = ProgressStyle::with_template("{msg:9} {wide_bar} {pos}/{len} calls, {eta} left")?;
    Ok(ProgressBar::new(calls).with_style(style))
}
