//! The command line.

use clap::Parser;

/// Agent sessions charge cards and send receipts through an outage, with a scripted model and no network.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What decides the jitter, the answers that are lost and what the model forgets
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,

    /// Sessions, each with three orders within a minute
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sessions: u32,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}
