//! The table, and the goals that it is held against.

use crate::patterns::{
    BOTH, BREAKER, Case, DEPOSIT, FAILSAFE, FAILSAFE_ROW, OURS, OURS_COUNT, OURS_ROW, RECLOSER,
    TOWER,
};
use crate::runner::Rates;

pub fn load(when: &str) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average at the {when}: {}", load.trim());
}

pub fn table(cases: &[Case], rates: &[Rates]) {
    println!();
    println!(
        "| pattern | case | 1 thread, Mops/s | 2 threads, Mops/s | p10 | p90 | kept, 1 and 2 |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for (case, [one, two]) in cases.iter().zip(rates) {
        println!(
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {}, {} |",
            case.pattern,
            case.name,
            percentile(one, 50),
            percentile(two, 50),
            percentile(two, 10),
            percentile(two, 90),
            one.len(),
            two.len()
        );
    }
    println!();
}

fn percentile(rates: &[f64], percent: usize) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    let place = rates.len().saturating_sub(1) * percent / 100;
    rates.get(place).copied().unwrap_or(f64::NAN)
}

/// The goals, each with two threads.
pub fn goals(cases: &[Case], rates: &[Rates]) {
    let two = |pattern, name| {
        let row = cases
            .iter()
            .position(|case| (case.pattern, case.name) == (pattern, name));
        row.map_or(f64::NAN, |row| percentile(&rates[row][1], 50))
    };
    let recloser = two(BREAKER, RECLOSER);
    let windowed = recloser.max(two(BREAKER, FAILSAFE));
    let any = recloser.max(two(BREAKER, FAILSAFE_ROW));
    let goals = [
        (
            "a deposit into a full bucket, to tower's",
            two(DEPOSIT, OURS) / two(DEPOSIT, TOWER),
            50.0,
        ),
        (
            "withdraw, spend and deposit, to tower's",
            two(BOTH, OURS) / two(BOTH, TOWER),
            4.0,
        ),
        (
            "a call with a count window, to the faster of recloser and failsafe with a window",
            two(BREAKER, OURS_COUNT) / windowed,
            1.5,
        ),
        (
            "a call with failures in a row, to the faster of recloser and failsafe with failures in a row",
            two(BREAKER, OURS_ROW) / any,
            2.0,
        ),
    ];
    for (what, ratio, least) in goals {
        // Where the machine was too busy to keep a round, there is nothing to say.
        let met = if ratio.is_nan() {
            "NOT MEASURED"
        } else {
            met(ratio >= least)
        };
        println!("{met}: {what}: {ratio:.2} times, goal {least}");
    }
}

pub fn met(met: bool) -> &'static str {
    if met { "met" } else { "NOT MET" }
}
