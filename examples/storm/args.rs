//! The command line.

use clap::Parser;

/// Six outages on a virtual clock: how much load retries add to them, and what bounds it.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Run one scenario only
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(crate) scenario: Option<u8>,

    /// What decides the jitter and which attempts fail
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,

    /// Sessions of the deploy (1), each with a call a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sessions: u32,

    /// Processes of the largest fleet (3)
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) processes: u32,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// The numbers of the scenarios to run, in order.
    pub(crate) fn scenarios(&self) -> Vec<u8> {
        self.scenario
            .map_or_else(|| (1..=6).collect(), |one| vec![one])
    }
}
