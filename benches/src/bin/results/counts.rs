//! Instructions and allocations of a call: they repeat, whatever else the machine does.

use std::collections::HashMap;
use std::process::Command;

use composure_benches::cases::GROUPS;

use crate::tools::{self, Failure};

/// The names under which ours are reported: those of the cases, but for the stack over HTTP.
pub const OURS: [&str; 6] = [
    "retry",
    "budget_retry",
    "deadline",
    "circuit_breaker",
    "stack",
    STACK_HTTP,
];

/// `http_stack` over `http_clone`.
pub const STACK_HTTP: &str = "stack_http";
const STACK_HTTP_AT_MOST: u64 = 900;
const MINUEND: &str = "http_stack";
const SUBTRAHEND: &str = "http_clone";

/// The breakers' windows are full before the calls that make the difference.
const FEW: u64 = 1000;
const MANY: u64 = 11_000;

/// A figure, and what it is held against.
pub struct Goal {
    pub what: String,
    pub figure: String,
    pub goal: String,
    pub met: bool,
}

impl Goal {
    /// A figure that is to be at most so much, to as many places as the goal.
    pub fn at_most(what: &str, figure: f64, most: f64, places: usize) -> Self {
        Self {
            what: what.to_owned(),
            figure: format!("{figure:.places$}"),
            goal: format!("at most {most}"),
            met: figure <= most,
        }
    }

    pub fn line(&self) -> String {
        let met = if self.met { "met" } else { "NOT MET" };
        format!("{met}: {}: {}, goal {}", self.what, self.figure, self.goal)
    }
}

#[derive(Default)]
pub struct Counts {
    instructions: HashMap<&'static str, u64>,
    allocations: HashMap<&'static str, (f64, f64)>,
}

impl Counts {
    /// Of every case.
    pub fn of_all() -> Result<Self, Failure> {
        Self::of(
            GROUPS
                .iter()
                .flat_map(|group| group.cases)
                .map(|case| case.0),
        )
    }

    /// Of the cases that [`OURS`] are made from.
    pub fn of_ours() -> Result<Self, Failure> {
        let cases = OURS.into_iter().filter(|name| *name != STACK_HTTP);
        Self::of(cases.chain([MINUEND, SUBTRAHEND]))
    }

    fn of(cases: impl Iterator<Item = &'static str>) -> Result<Self, Failure> {
        let cases: Vec<&'static str> = cases.collect();
        let mut counts = Self::default();
        let lines = tools::run("allocations", &cases)?;
        for (case, line) in cases.iter().zip(lines.lines()) {
            let mut fields = line.split(' ').skip(1);
            let mut next = || fields.next().unwrap_or_default().parse::<f64>();
            counts.allocations.insert(case, (next()?, next()?));
        }
        for case in cases {
            let (few, many) = (callgrind(case, FEW)?, callgrind(case, MANY)?);
            let calls = many.saturating_sub(few) / (MANY - FEW);
            counts.instructions.insert(case, calls);
        }
        Ok(counts)
    }

    /// Of a case, or of [`STACK_HTTP`].
    pub fn instructions(&self, name: &str) -> u64 {
        if name == STACK_HTTP {
            let clone = self.instructions(SUBTRAHEND);
            return self.instructions(MINUEND).saturating_sub(clone);
        }
        self.instructions.get(name).copied().unwrap_or(0)
    }

    /// Of a case, or of [`STACK_HTTP`].
    pub fn allocations(&self, name: &str) -> f64 {
        if name == STACK_HTTP {
            return self.allocations(MINUEND) - self.allocations(SUBTRAHEND);
        }
        self.allocations.get(name).map_or(0.0, |counts| counts.0)
    }

    /// What these allocations hold.
    pub fn bytes(&self, name: &str) -> f64 {
        self.allocations.get(name).map_or(0.0, |counts| counts.1)
    }

    /// Each of ours against the most that it may cost.
    pub fn goals(&self) -> Vec<Goal> {
        let cases = GROUPS.iter().flat_map(|group| group.cases);
        let bounded = cases.filter_map(|(name, most)| Some((*name, (*most)?)));
        let bounded = bounded.chain([(STACK_HTTP, STACK_HTTP_AT_MOST)]);
        let instructions = bounded.map(|(name, most)| self.instructions_at_most(name, name, most));
        let allocations = OURS.into_iter().map(|name| Goal {
            what: format!("allocations of {name}"),
            figure: self.allocations(name).to_string(),
            goal: "0".to_owned(),
            met: self.allocations(name) == 0.0,
        });
        instructions.chain(allocations).collect()
    }

    fn instructions_at_most(&self, name: &str, of: &str, most: u64) -> Goal {
        Goal {
            what: format!("instructions of {of}"),
            figure: self.instructions(name).to_string(),
            goal: format!("at most {most}"),
            met: self.instructions(name) <= most,
        }
    }

    /// One failure, then success, against the best of the peers that have a budget too. The whole report says how far it is
    /// from that; `--check` does not ask for it.
    pub fn again(&self) -> Goal {
        let of = "again_retry, to again_tower_retry_budget's";
        let most = self.instructions("again_tower_retry_budget") * 11 / 10;
        self.instructions_at_most("again_retry", of, most)
    }
}

/// All instructions of a run with so many calls.
fn callgrind(case: &str, calls: u64) -> Result<u64, Failure> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(tools::sibling("instructions")?)
        .args([case, &calls.to_string()]);
    let output = command
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let refs = log.lines().find_map(|line| line.split("refs:").nth(1));
    match refs {
        Some(refs) if output.status.success() => Ok(refs.trim().replace(',', "").parse()?),
        _ => Err(format!("valgrind of {case}: {}\n{log}", output.status).into()),
    }
}
