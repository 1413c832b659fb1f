//! On what, and with what, the figures were made.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::tools::{self, Failure};

/// The peers, and what they stand on.
const CRATES: [&str; 12] = [
    "tower-composure",
    "tower",
    "tokio",
    "http",
    "tower-resilience-retry",
    "tower-resilience-circuitbreaker",
    "tower-resilience-timelimiter",
    "recloser",
    "failsafe",
    "seatbelt",
    "stats_alloc",
    "criterion",
];

/// A list of versions and a line about the machine.
pub fn describe() -> Result<String, Failure> {
    let lock = fs::read_to_string(tools::package().join("Cargo.lock"))?;
    let rustc = tools::output(Command::new("rustc").arg("--version"))?;
    let valgrind = tools::output(Command::new("valgrind").arg("--version"))?;
    let mut text = String::new();
    let crates = CRATES.map(|name| format!("{name} {}", version(&lock, name).unwrap_or("?")));
    writeln!(text, "- {}", crates.join(", "))?;
    writeln!(
        text,
        "- {}, {}; release with one codegen unit and no LTO",
        rustc.trim(),
        valgrind.trim()
    )?;
    let processor = field("/proc/cpuinfo", "model name");
    let cores = std::thread::available_parallelism()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    writeln!(
        text,
        "- {}, {cores} cores, Linux {}; load average at the start: {}",
        processor.unwrap_or_else(|| "an unnamed processor".to_owned()),
        kernel.split(['-', '+']).next().unwrap_or_default().trim(),
        load()
    )?;
    Ok(text)
}

/// Of the last one, five and fifteen minutes.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split(':').nth(1)?.trim().to_owned())
}

fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let entry = lock
        .split(&format!("name = \"{name}\"\nversion = \""))
        .nth(1)?;
    entry.split('"').next()
}
