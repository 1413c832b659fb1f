//! Runs all benchmarks and writes `RESULTS.md` and its chart. `benches/run` builds and starts it.
//!
//! - without arguments: everything, about ten minutes;
//! - `--json`: instructions and allocations of a call alone, as one JSON object, and nothing is written;
//! - `--check`: the instructions alone, and it fails where one of ours costs more than it may.

mod build_cost;
mod chart;
mod counts;
mod document;
mod machine;
mod parts;
mod tools;

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::counts::{Counts, OURS};
use crate::tools::Failure;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [] => document::write(),
        ["--json"] => Counts::of_ours().map(|counts| println!("{}", json(&counts))),
        ["--check"] => check(),
        _ => {
            eprintln!("usage: run [--json | --check]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Ours, by the names of the layers. The stack over HTTP is what it costs over the clone that any retry pays.
fn json(counts: &Counts) -> Value {
    let mut instructions = Map::new();
    let mut allocations = Map::new();
    for name in OURS {
        instructions.insert(name.to_owned(), json!(counts.instructions(name)));
        allocations.insert(name.to_owned(), json!(counts.allocations(name)));
    }
    json!({"instructions": instructions, "allocations": allocations})
}

fn check() -> Result<(), Failure> {
    let goals = Counts::of_ours()?.goals();
    for goal in &goals {
        println!("{}", goal.line());
    }
    if goals.iter().all(|goal| goal.met) {
        Ok(())
    } else {
        Err("a call costs more than it may".into())
    }
}
