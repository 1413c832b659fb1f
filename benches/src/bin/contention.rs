//! Million operations a second of one and of two threads on one shared object, all peers in one run.
//!
//! Each thread is pinned to a core. Rounds go through all cases in turn, so that a slow spell of the machine meets all of
//! them; a round in which a thread was preempted, or in which the two did not run together, is thrown away. The figures are medians.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use composure_benches::contention::{BOTH, BREAKER, Case, DEPOSIT, cases};
use composure_benches::{Bare, call};
use tower::Layer;
use tower_composure::{CircuitBreaker, CircuitBreakerLayer, Effect};

const ROUND: Duration = Duration::from_millis(2);

fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(301);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let cases = cases();
    let handle = runtime.handle();
    let operations: Vec<[u64; 2]> = cases.iter().map(|case| calibrate(case, handle)).collect();
    let mut rates: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for (index, case) in cases.iter().enumerate() {
            for threads in [1, 2] {
                if let Some(rate) = round(case, threads, operations[index][threads - 1], handle) {
                    rates.entry((index, threads)).or_default().push(rate);
                }
            }
        }
    }
    let table = report(&cases, &rates);
    goals(&table);
    time_window_at_volume();
}

/// How many operations fill a round.
fn calibrate(case: &Case, handle: &tokio::runtime::Handle) -> [u64; 2] {
    [1, 2].map(|threads| {
        let mut operations = 1000;
        loop {
            let rate = measure(case, threads, operations, handle).0;
            let wanted = rate * 1e6 * ROUND.as_secs_f64() / threads as f64;
            if wanted < 2.0 * operations as f64 {
                return (wanted as u64).max(1000);
            }
            operations *= 4;
        }
    })
}

fn round(
    case: &Case,
    threads: usize,
    operations: u64,
    handle: &tokio::runtime::Handle,
) -> Option<f64> {
    let (rate, preempted) = measure(case, threads, operations, handle);
    (!preempted).then_some(rate)
}

/// Million operations a second of all threads together, and whether one of them was preempted or they ran one after the
/// other.
fn measure(
    case: &Case,
    threads: usize,
    operations: u64,
    handle: &tokio::runtime::Handle,
) -> (f64, bool) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let arrived = AtomicUsize::new(0);
    let results: Vec<(Instant, Instant, bool)> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|index| {
                let mut worker = (case.worker)();
                let core = cores.get(index % cores.len().max(1)).copied();
                let arrived = &arrived;
                scope.spawn(move || {
                    let _entered = handle.enter();
                    if let Some(core) = core {
                        core_affinity::set_for_current(core);
                    }
                    worker(operations / 20 + 1);
                    // Spinning, so that nobody starts late because it had to be woken.
                    arrived.fetch_add(1, Ordering::SeqCst);
                    while arrived.load(Ordering::SeqCst) < threads {
                        std::hint::spin_loop();
                    }
                    let before = preemptions();
                    let start = Instant::now();
                    worker(operations);
                    let end = Instant::now();
                    (start, end, preemptions() != before)
                })
            })
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().expect("no case panics"))
            .collect()
    });
    let all = |pick: fn(&(Instant, Instant, bool)) -> Instant| {
        let mut times: Vec<Instant> = results.iter().map(pick).collect();
        times.sort();
        (times[0], times[times.len() - 1])
    };
    let (first_start, last_start) = all(|result| result.0);
    let (first_end, last_end) = all(|result| result.1);
    let whole = (last_end - first_start).as_secs_f64();
    let together = first_end
        .saturating_duration_since(last_start)
        .as_secs_f64();
    let rate = operations as f64 * threads as f64 / whole / 1e6;
    let apart = together < 0.8 * whole;
    (rate, apart || results.iter().any(|result| result.2))
}

/// How often this thread has been switched away from against its will.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

type Table = BTreeMap<(&'static str, &'static str), [f64; 2]>;

fn report(cases: &[Case], rates: &BTreeMap<(usize, usize), Vec<f64>>) -> Table {
    println!("| pattern | case | 1 thread, Mops/s | 2 threads, Mops/s | rounds kept |");
    println!("| --- | --- | ---: | ---: | ---: |");
    let mut table = Table::new();
    for (index, case) in cases.iter().enumerate() {
        let kept = |threads| rates.get(&(index, threads)).map_or(0, Vec::len);
        let both = [1, 2].map(|threads| median(rates.get(&(index, threads))));
        println!(
            "| {} | {} | {:.2} | {:.2} | {}, {} |",
            case.pattern,
            case.name,
            both[0],
            both[1],
            kept(1),
            kept(2)
        );
        table.insert((case.pattern, case.name), both);
    }
    table
}

fn median(rates: Option<&Vec<f64>>) -> f64 {
    let mut rates = rates.cloned().unwrap_or_default();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

fn goals(table: &Table) {
    let two = |pattern, name| table[&(pattern, name)][1];
    let goal = |what: &str, ratio: f64, least: f64| {
        let met = if ratio >= least { "met" } else { "NOT MET" };
        println!("{met}: {what}: {ratio:.1} times, goal {least}");
    };
    println!();
    let ours = "tower-composure";
    let tower = "tower TpsBudget";
    goal(
        "a deposit into a full bucket, 2 threads, to tower's",
        two(DEPOSIT, ours) / two(DEPOSIT, tower),
        50.0,
    );
    goal(
        "deposit and withdraw, 2 threads, to tower's",
        two(BOTH, ours) / two(BOTH, tower),
        4.0,
    );
    let windowed = two(BREAKER, "recloser").max(two(BREAKER, "failsafe, default policy"));
    let count = two(BREAKER, "tower-composure, count window");
    goal(
        "a breaker with a window, 2 threads, to the faster of recloser and failsafe",
        count / windowed,
        1.5,
    );
    let faster = two(BREAKER, "recloser").max(two(BREAKER, "failsafe, failures in a row"));
    let streak = two(BREAKER, "tower-composure, failures in a row");
    goal(
        "a breaker by failures in a row, 2 threads, likewise",
        streak / faster,
        2.0,
    );
}

/// A time window costs the same with a hundred records in it as with a hundred thousand.
fn time_window_at_volume() {
    let cost = |records: u64| {
        let mut costs: Vec<f64> = (0..21)
            .map(|_| {
                let breaker = CircuitBreaker::builder()
                    .time_window(Duration::from_secs(3600))
                    .build()
                    .expect("settings that work");
                let mut service = CircuitBreakerLayer::new(breaker, Effect::Read).layer(Bare);
                for number in 0..records {
                    call(&mut service, number);
                }
                let start = Instant::now();
                for number in 0..100_000 {
                    call(&mut service, number);
                }
                start.elapsed().as_secs_f64() * 1e9 / 100_000.0
            })
            .collect();
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    let (few, many) = (cost(100), cost(100_000));
    let met = if many <= few * 1.2 { "met" } else { "NOT MET" };
    println!(
        "{met}: a call in a time window at 100,000 records to one at 100: {:.2}, {many:.0} and {few:.0} ns",
        many / few
    );
}
