//! Agent sessions charge cards and send receipts through an outage, with a scripted model and no network.
//!
//! ```text
//! cargo run --release --example agent_turns
//! ```
//!
//! A model takes each order through three tools: it looks the charge up (a read), charges the card (an idempotent
//! write, whose API honours keys), and sends a receipt (a write, whose API does not). For 30 s the fault injector
//! answers 503 in their place, and at all times some answers get lost: the work is done and nobody hears of it. The
//! model does what the envelope tells it to, and sometimes asks for the same charge again. The clock is virtual, so
//! that a minute takes a second.
//!
//! Where to read: `tools.rs` has the tools and their layers, `model.rs` what the model does, `api.rs` what is behind.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use clap::Parser;
use tower_composure::BoxError;

use crate::args::Args;

mod api;
mod args;
mod model;
mod report;
mod tools;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let report = model::run(&args).await?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{report}");
    }
    Ok(())
}
