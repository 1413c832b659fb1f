//! `RESULTS.md`, all of it.

use std::fmt::Write as _;
use std::fs;

use composure_benches::cases::GROUPS;

use crate::build_cost;
use crate::chart;
use crate::counts::{Counts, Goal, STACK_HTTP};
use crate::machine;
use crate::parts::{self, Times};
use crate::tools::{self, Failure};

const RESULTS: &str = "RESULTS.md";
const CHART: &str = "RESULTS.svg";

/// Measures everything, and writes.
pub fn write() -> Result<(), Failure> {
    let machine = machine::describe()?;
    let counts = Counts::of_all()?;
    let times = Times::measure()?;
    let mut text = format!(
        "# Results\n\nWritten by `benches/run`; [README.md](README.md) says what each table is. Counts repeat anywhere; \
         of times, compare\nthose of one table.\n\n{machine}\n![instructions of a call that succeeds]({CHART})\n"
    );
    let mut section = |title: &str, body: &str| {
        write!(text, "\n## {title}\n\n{}\n", body.trim_end())?;
        Ok::<_, Failure>(())
    };
    let again = [counts.again()];
    section(
        "Goals of the counts",
        &goals(counts.goals().into_iter().chain(again)),
    )?;
    for group in &GROUPS {
        section(group.title, &table(&counts, group.cases)?)?;
    }
    section(
        "The stack over HTTP, above the clone of a request that any retry pays",
        &over_clone(&counts),
    )?;
    section("Time of a call", &times.table()?)?;
    section(
        "Ours to theirs, by time",
        &format!("{}\n{}", times.ratios()?, goals(times.goals())),
    )?;
    let (in_flight, in_flight_goals) = parts::in_flight()?;
    section(
        "100,000 calls in flight, held for 100 ms",
        &format!("{in_flight}\n{}", goals(in_flight_goals)),
    )?;
    section("Contention", &parts::contention()?)?;
    section("A deploy, 200 sessions, 30 s of 503", &parts::storm()?)?;
    let build = build_cost::measure()?;
    section(
        "Compiling",
        &format!(
            "{}\n{}",
            parts::build(&build)?,
            goals(parts::build_goals(&build))
        ),
    )?;
    fs::write(tools::package().join(RESULTS), text)?;
    fs::write(tools::package().join(CHART), chart::svg(&counts)?)?;
    Ok(())
}

fn goals(goals: impl IntoIterator<Item = Goal>) -> String {
    goals
        .into_iter()
        .map(|goal| format!("- {}\n", goal.line()))
        .collect()
}

fn over_clone(counts: &Counts) -> String {
    format!(
        "{} instructions, {} allocations.",
        counts.instructions(STACK_HTTP),
        counts.allocations(STACK_HTTP)
    )
}

fn table(counts: &Counts, cases: &[(&str, Option<u64>)]) -> Result<String, Failure> {
    let mut text = String::from(
        "| case | instructions a call | over bare | at most | allocations | bytes |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let bare = cases
        .first()
        .map_or(0, |(name, _)| counts.instructions(name));
    for (name, most) in cases {
        let instructions = counts.instructions(name);
        let over = instructions.saturating_sub(bare);
        let most = match most {
            Some(most) if instructions > *most => format!("{most}, NOT MET"),
            Some(most) => format!("{most}, met"),
            None => String::new(),
        };
        writeln!(
            text,
            "| {name} | {instructions} | {over} | {most} | {} | {} |",
            counts.allocations(name),
            counts.bytes(name)
        )?;
    }
    Ok(text)
}
