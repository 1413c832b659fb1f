//! What the crate adds to a build: crates, and seconds of processor time over those of its dependencies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::tools::{self, Failure, cargo};

/// One set of features.
pub struct BuildCost {
    pub features: &'static str,
    /// What a user compiles, without the crate itself.
    pub dependencies: usize,
    pub of_dependencies: Duration,
    pub of_the_crate: Duration,
}

const SETS: [(&str, &[&str]); 3] = [
    ("none", &["--no-default-features"]),
    ("default", &[]),
    ("full", &["--features", "full"]),
];

/// Builds each set from nothing, in a folder of its own.
pub fn measure() -> Result<Vec<BuildCost>, Failure> {
    let crate_folder = tools::package().join("..");
    let target = tools::sibling("build_cost")?;
    SETS.into_iter()
        .map(|(features, flags)| {
            let cost = one(&crate_folder, &target, features, flags);
            std::fs::remove_dir_all(&target).ok();
            cost
        })
        .collect()
}

fn one(
    folder: &Path,
    target: &PathBuf,
    features: &'static str,
    flags: &[&str],
) -> Result<BuildCost, Failure> {
    let tree = [
        &["tree", "--locked", "-e", "normal,build", "--prefix", "none"],
        flags,
    ]
    .concat();
    let tree = tools::output(&mut cargo(folder, &tree))?;
    // A line is a name, a version and perhaps a mark that it has been shown before.
    let crates: BTreeSet<String> = tree
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty() && !name.starts_with("tower-composure "))
        .collect();
    let build = [&["build", "--locked", "--quiet", "--lib"], flags].concat();
    let timed = || -> Result<Duration, Failure> {
        let before = processor_time_of_children()?;
        let mut build = cargo(folder, &build);
        // As Cargo builds a dependency: only what is under work is built to be built again.
        build.env("CARGO_INCREMENTAL", "0");
        tools::output(build.env("CARGO_TARGET_DIR", target))?;
        Ok(processor_time_of_children()?.saturating_sub(before))
    };
    let everything = timed()?;
    let clean = ["clean", "--locked", "--quiet", "-p", "tower-composure"];
    tools::output(cargo(folder, &clean).env("CARGO_TARGET_DIR", target))?;
    let of_the_crate = timed()?;
    Ok(BuildCost {
        features,
        dependencies: crates.len(),
        of_dependencies: everything.saturating_sub(of_the_crate),
        of_the_crate,
    })
}

/// What the processes that this one has started and waited for have spent, and theirs: on Linux, `cutime` and `cstime` of
/// proc(5), in hundredths of a second.
fn processor_time_of_children() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may hold spaces; these are the 14th and 15th field behind it.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
}
