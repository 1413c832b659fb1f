//! The figures of the runs, as a table, as sentences and as JSON.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tower_composure::CircuitState;

use crate::client::Kind;
use crate::load::Ended;
use crate::scenario::{BIN, Scenario};
use crate::server::{Arrival, Ledger};
use crate::watch::Course;

/// All runs, in the order of [`Kind::ALL`].
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: Vec<Run>,
}

/// What one client did to the API, and got from it.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) name: &'static str,
    /// Requests that the API saw.
    pub(crate) requests: usize,
    pub(crate) calls: usize,
    /// Calls that were planned to start during the outage.
    pub(crate) outage_calls: usize,
    /// Requests made for those calls, for each of them. Below 1 where a breaker kept calls from the API.
    pub(crate) amplification: f64,
    /// The fullest bin of arrivals, relative to a normal one.
    pub(crate) peak_bin: f64,
    pub(crate) succeeded: usize,
    /// Orders with more than one charge.
    pub(crate) charged_twice: u32,
    /// Answers that gave the charge of an earlier request.
    pub(crate) replayed: usize,
    /// Of all calls, failed ones included.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Retries that were not made, by reason, and calls that the breaker rejected.
    pub(crate) refused: BTreeMap<&'static str, u32>,
    #[serde(skip)]
    pub(crate) outage_requests: usize,
    /// Arrivals in each [`BIN`].
    #[serde(skip)]
    pub(crate) bins: Vec<u32>,
    /// Seconds since the start, and the tokens that the budget held from then on.
    #[serde(skip)]
    pub(crate) tokens: Vec<(f64, f64)>,
    /// Seconds since the start, and the state that the breaker entered.
    #[serde(skip)]
    pub(crate) states: Vec<(f64, CircuitState)>,
}

impl Run {
    pub(crate) fn new(
        kind: Kind,
        scenario: &Scenario,
        ended: &[Ended],
        in_outage: &HashSet<u32>,
        ledger: &Ledger,
    ) -> Self {
        let bins = bins(&ledger.arrivals);
        let peak = bins.iter().copied().max().unwrap_or(0);
        let outage_requests = ledger
            .arrivals
            .iter()
            .filter(|arrival| in_outage.contains(&arrival.order))
            .count();
        let mut latencies: Vec<_> = ended.iter().map(|call| call.latency).collect();
        latencies.sort_unstable();
        Self {
            name: kind.name(),
            requests: ledger.arrivals.len(),
            calls: ended.len(),
            outage_calls: in_outage.len(),
            amplification: ratio(outage_requests, in_outage.len()),
            peak_bin: f64::from(peak) / scenario.normal_bin(),
            succeeded: ended.iter().filter(|call| call.succeeded).count(),
            charged_twice: ledger.charged_twice,
            replayed: ended.iter().filter(|call| call.replayed).count(),
            p50_ms: percentile(&latencies, 50),
            p99_ms: percentile(&latencies, 99),
            refused: BTreeMap::new(),
            outage_requests,
            bins,
            tokens: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Adds what was heard of the client in a run that began at `start`.
    pub(crate) fn watched(&mut self, course: Course, start: Instant) {
        let since = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
        self.refused = course.refused;
        let tokens = course.tokens.into_iter();
        self.tokens = tokens.map(|(at, tokens)| (since(at), tokens)).collect();
        let states = course.states.into_iter();
        self.states = states.map(|(at, state)| (since(at), state)).collect();
    }

    /// How often a retry was refused, or a call rejected, for this reason.
    pub(crate) fn refused_by(&self, reason: &str) -> u32 {
        self.refused.get(reason).copied().unwrap_or(0)
    }
}

fn bins(arrivals: &[Arrival]) -> Vec<u32> {
    let mut bins = Vec::new();
    for arrival in arrivals {
        let bin = usize::try_from(arrival.at.as_nanos() / BIN.as_nanos()).unwrap_or(0);
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += 1;
    }
    bins
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// In milliseconds. The nearest rank, of sorted latencies.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    let latency = sorted.get(rank.saturating_sub(1)).copied();
    latency.unwrap_or_default().as_secs_f64() * 1000.0
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:9}  {:>8}  {:>13}  {:>8}  {:>9}  {:>13}  {:>8}  {:>8}  {:>8}  retries refused, by reason",
            "run",
            "requests",
            "amplification",
            "peak bin",
            "succeeded",
            "charged twice",
            "replayed",
            "p50",
            "p99",
        )?;
        for run in &self.runs {
            writeln!(f, "{run}")?;
        }
        self.explain(f)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused: Vec<_> = self
            .refused
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        write!(
            f,
            "{:9}  {:>8}  {:>13.2}  {:>7.1}x  {:>9}  {:>13}  {:>8}  {:>6.1}ms  {:>6.1}ms  {}",
            self.name,
            self.requests,
            self.amplification,
            self.peak_bin,
            self.succeeded,
            self.charged_twice,
            self.replayed,
            self.p50_ms,
            self.p99_ms,
            if refused.is_empty() {
                "-".to_owned()
            } else {
                refused.join(", ")
            },
        )
    }
}

impl Report {
    /// What the table shows, in words.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [none, naive, retry, composure] = self.runs.as_slice() else {
            return Ok(());
        };
        writeln!(
            f,
            "\nOf {} calls {} started during the outage. Amplification is the requests made for those, for each of \
             them;\nlatencies are those of all calls, failed ones included.\n",
            none.calls, none.outage_calls
        )?;
        writeln!(
            f,
            "none       adds no load, and leaves every lost answer as an order in doubt.\n\
             naive      multiplied the load of the outage by {:.1} and charged {} orders twice.",
            naive.amplification, naive.charged_twice
        )?;
        writeln!(
            f,
            "retry      charged {} twice: a lost answer is asked for again under the same key ({} replayed). Its budget\n\
             \x20          refused {} retries, so the outage got {} requests for {} calls. {} more calls succeeded than \
             with none.",
            count(retry.charged_twice),
            retry.replayed,
            retry.refused_by("budget_exhausted"),
            retry.outage_requests,
            retry.outage_calls,
            difference(retry.succeeded, none.succeeded),
        )?;
        writeln!(
            f,
            "composure  trades successes for load: its breaker kept calls from the API, which got {} requests instead of {}\n\
             \x20          for the calls of the outage, and since it stays open for a while after the API is back, {} \
             fewer\n           calls succeeded than with retry. Its amplification is below 1 because a call that is \
             refused is no request.",
            composure.outage_requests,
            retry.outage_requests,
            difference(retry.succeeded, composure.succeeded),
        )
    }
}

fn count(orders: u32) -> String {
    match orders {
        0 => "none".to_owned(),
        orders => orders.to_string(),
    }
}

/// How many more, with a sign where it is fewer.
fn difference(more: usize, less: usize) -> String {
    if more >= less {
        (more - less).to_string()
    } else {
        format!("-{}", less - more)
    }
}
