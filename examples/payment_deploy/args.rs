//! The command line.

use clap::Parser;

use crate::scenario::Scenario;

/// A payment API goes through a deploy while agent sessions charge cards through it: four clients, one load.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    // In one seed of eleven the answer to one of the breaker's three probes is lost, as 3 % of all answers are, and it
    // stays open for twice as long: 1 is such a seed. The default is one of the other ten.
    /// What decides the phases of the sessions, the answers that are lost and the jitter
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,

    /// Sessions that share the load of 40 calls/s
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) sessions: u32,

    /// Take the deploy's own time, about 4 minutes, and send Retry-After with some 503s
    #[arg(long)]
    pub(crate) full: bool,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// The deploy that these arguments describe.
    pub(crate) fn scenario(&self) -> Scenario {
        Scenario {
            seed: self.seed,
            sessions: self.sessions,
            scale: if self.full { 1 } else { 10 },
            retry_after: self.full,
            ..Scenario::default()
        }
    }
}
