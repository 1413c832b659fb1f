//! The programs that time: what they print, as tables.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;

use composure_benches::cases::TIMED;
use serde_json::Value;

use crate::build_cost::BuildCost;
use crate::counts::Goal;
use crate::tools::{self, Failure, cargo};

/// Median nanoseconds a call, by case, from criterion.
pub struct Times(HashMap<String, f64>);

impl Times {
    pub fn measure() -> Result<Self, Failure> {
        let home = tools::sibling("criterion")?;
        fs::remove_dir_all(&home).ok();
        let bench = ["bench", "--locked", "--quiet", "--bench", "stacks"];
        tools::output(cargo(tools::package(), &bench).env("CRITERION_HOME", &home))?;
        let mut times = HashMap::new();
        for case in TIMED {
            let file = home.join("stacks").join(case).join("new/estimates.json");
            let text = fs::read_to_string(&file).map_err(|error| format!("{file:?}: {error}"))?;
            let estimates: Value = serde_json::from_str(&text)?;
            let median = estimates["median"]["point_estimate"].as_f64();
            times.insert(case.to_owned(), median.ok_or("no median")?);
        }
        Ok(Self(times))
    }

    fn get(&self, case: &str) -> f64 {
        self.0.get(case).copied().unwrap_or(f64::NAN)
    }

    pub fn table(&self) -> Result<String, Failure> {
        let mut text = "| case | ns a call |\n| --- | ---: |\n".to_owned();
        for case in TIMED {
            writeln!(text, "| {case} | {:.1} |", self.get(case))?;
        }
        Ok(text)
    }

    /// Ours to theirs: below 1 is faster.
    pub fn ratios(&self) -> Result<String, Failure> {
        let mut text = "| ours | to | ratio |\n| --- | --- | ---: |\n".to_owned();
        for (ours, theirs) in [
            ("stack", "tower_stack"),
            ("stack", "resilience_stack"),
            ("stack", "seatbelt_stack"),
            ("budget_retry", "tower_retry_budget"),
            ("circuit_breaker", "recloser"),
            ("circuit_breaker", "resilience_breaker"),
            ("circuit_breaker", "seatbelt_breaker"),
            ("http_stack", "http_tower_stack"),
            ("http_stack", "http_resilience_stack"),
            ("again_retry", "again_tower_retry_budget"),
            ("again_stack", "again_tower_stack"),
        ] {
            let ratio = self.ratio(ours, theirs);
            writeln!(text, "| {ours} | {theirs} | {ratio:.2} |")?;
        }
        Ok(text)
    }

    fn ratio(&self, ours: &str, theirs: &str) -> f64 {
        self.get(ours) / self.get(theirs)
    }

    pub fn goals(&self) -> [Goal; 3] {
        [
            ("stack", "tower_stack", 0.6),
            ("stack", "resilience_stack", 0.15),
            ("again_retry", "again_tower_retry_budget", 1.1),
        ]
        .map(|(ours, theirs, most)| {
            let what = format!("time of {ours} to {theirs}'s");
            Goal::at_most(&what, self.ratio(ours, theirs), most, 2)
        })
    }
}

/// A hundred thousand calls that are pending at once.
pub fn in_flight() -> Result<(String, [Goal; 2]), Failure> {
    let lines = tools::run("in_flight", &[])?;
    let rows: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    let wall = |row: &[&str]| row.get(3).and_then(|wall| wall.parse::<f64>().ok());
    let peer = rows.iter().find(|row| row[0] == "tower_retry_timeout");
    let peer = peer.and_then(|row| wall(row)).unwrap_or(f64::NAN);
    let mut text =
        "| case | most pending | bytes a call | wall ms, median of 7 | to tower_retry_timeout |\n"
            .to_owned();
    text.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    for row in &rows {
        let ratio = wall(row).unwrap_or(f64::NAN) / peer;
        writeln!(text, "| {} | {ratio:.2} |", row.join(" | "))?;
    }
    let ours = rows.iter().find(|row| row[0] == "stack");
    let bytes = ours.and_then(|row| row.get(2)?.parse().ok());
    let time = ours.and_then(|row| wall(row)).unwrap_or(f64::NAN);
    let goals = [
        Goal::at_most(
            "bytes of a call of stack",
            bytes.unwrap_or(f64::NAN),
            522.0,
            0,
        ),
        Goal::at_most(
            "wall time of stack to tower_retry_timeout's",
            time / peer,
            1.2,
            2,
        ),
    ];
    Ok((text, goals))
}

/// Two threads on one budget or breaker. Its goals come with it.
pub fn contention() -> Result<String, Failure> {
    let text = tools::run("contention", &[])?;
    // Lists are lists in Markdown too.
    let line = |line: &str| match line.split(':').next() {
        Some("met" | "NOT MET" | "NOT MEASURED") => format!("- {line}\n"),
        _ => format!("{line}\n"),
    };
    Ok(text.lines().map(line).collect())
}

/// The deploy of the example `storm`, with the peers that it leaves out.
pub fn storm() -> Result<String, Failure> {
    let run = ["run", "--locked", "--quiet", "--release"];
    let mut command = cargo(tools::package(), &run);
    command.args([
        "--features",
        "virtual-time",
        "--bin",
        "storm_peers",
        "--",
        "--json",
    ]);
    let table: Value = serde_json::from_str(&tools::output(&mut command)?)?;
    let rows = table["rows"].as_array().ok_or("no rows")?;
    let columns = [
        "requests",
        "amplification",
        "first_second",
        "3s_after",
        "recovered",
        "failed",
    ];
    let mut text = format!("| client | {} |\n", columns.join(" | ").replace('_', " "));
    writeln!(text, "| --- |{}", " ---: |".repeat(columns.len()))?;
    for row in rows {
        write!(text, "| {} |", row["row"].as_str().unwrap_or_default())?;
        for column in columns {
            match &row[column] {
                Value::Number(number) if number.is_f64() => {
                    write!(text, " {:.3} |", number.as_f64().unwrap_or(f64::NAN))?;
                }
                value => write!(text, " {value} |")?,
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// What a build costs.
pub fn build(costs: &[BuildCost]) -> Result<String, Failure> {
    let mut text =
        "| features | crates it depends on | CPU s for those | CPU s for the crate over them |\n"
            .to_owned();
    text.push_str("| --- | ---: | ---: | ---: |\n");
    for cost in costs {
        writeln!(
            text,
            "| {} | {} | {:.1} | {:.1} |",
            cost.features,
            cost.dependencies,
            cost.of_dependencies.as_secs_f64(),
            cost.of_the_crate.as_secs_f64()
        )?;
    }
    Ok(text)
}

pub fn build_goals(costs: &[BuildCost]) -> Option<Goal> {
    let default = costs.iter().find(|cost| cost.features == "default")?;
    let seconds = default.of_the_crate.as_secs_f64();
    Some(Goal::at_most(
        "CPU s over the dependencies, by default",
        seconds,
        5.0,
        1,
    ))
}
