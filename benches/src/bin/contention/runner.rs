//! Rounds: all cases in turn, with one thread and with two, each pinned to a core.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::patterns::{Case, Worker};

/// How long the threads of a round work.
const ROUND: Duration = Duration::from_millis(2);
/// How long a thread works before it looks at the clock, alone.
const CHUNK: Duration = Duration::from_micros(20);

/// Million operations a second, one figure a round: with one thread and with two.
pub type Rates = [Vec<f64>; 2];

/// Interleaves the rounds, so that a slow spell of the machine meets all cases, and starts each with another case, so
/// that none always follows the same one.
pub fn run(cases: &[Case], rounds: usize, handle: &Handle) -> Vec<Rates> {
    let chunks: Vec<u64> = cases.iter().map(chunk).collect();
    let mut rates: Vec<Rates> = cases.iter().map(|_| Rates::default()).collect();
    for round in 0..rounds {
        for turn in 0..cases.len() {
            let index = (round + turn) % cases.len();
            for threads in [1, 2] {
                if let Some(rate) = measure(&cases[index], threads, chunks[index], handle) {
                    rates[index][threads - 1].push(rate);
                }
            }
        }
    }
    rates
}

/// How many operations fill a chunk.
fn chunk(case: &Case) -> u64 {
    let mut worker = (case.worker)();
    let mut operations = 16;
    loop {
        worker(operations);
        let start = Instant::now();
        worker(operations);
        if start.elapsed() >= CHUNK {
            return operations;
        }
        operations *= 2;
    }
}

/// What one thread did.
struct Done {
    operations: u64,
    start: Instant,
    end: Instant,
    preempted: bool,
}

/// Million operations a second of all threads together; none where one of them was preempted, or where they did not run
/// at the same time.
fn measure(case: &Case, threads: usize, chunk: u64, handle: &Handle) -> Option<f64> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let arrived = AtomicUsize::new(0);
    let done: Vec<Done> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|index| {
                let worker = (case.worker)();
                // The second core for one thread, where there is one: interrupts tend to come to the first.
                let core = cores.get((index + 1) % cores.len().max(1)).copied();
                let arrived = &arrived;
                scope.spawn(move || {
                    let _entered = handle.enter();
                    core.map(core_affinity::set_for_current);
                    work(worker, chunk, || {
                        // Spinning, so that nobody starts late because it had to be woken.
                        arrived.fetch_add(1, Ordering::SeqCst);
                        while arrived.load(Ordering::SeqCst) < threads {
                            std::hint::spin_loop();
                        }
                    })
                })
            })
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().expect("no case panics"))
            .collect()
    });
    let apart =
        spread(done.iter().map(|done| done.start)) + spread(done.iter().map(|done| done.end));
    if apart > ROUND / 10 || done.iter().any(|done| done.preempted) {
        return None;
    }
    let rate = |done: &Done| done.operations as f64 / (done.end - done.start).as_secs_f64() / 1e6;
    Some(done.iter().map(rate).sum())
}

fn work(mut worker: Worker, chunk: u64, wait_for_the_others: impl FnOnce()) -> Done {
    worker(chunk * 10);
    let before = preemptions();
    wait_for_the_others();
    let start = Instant::now();
    let mut operations = 0;
    let end = loop {
        worker(chunk);
        operations += chunk;
        let now = Instant::now();
        if now - start >= ROUND {
            break now;
        }
    };
    Done {
        operations,
        start,
        end,
        preempted: preemptions() != before,
    }
}

fn spread(instants: impl Iterator<Item = Instant> + Clone) -> Duration {
    let first = instants.clone().min();
    first
        .zip(instants.max())
        .map_or(Duration::ZERO, |(first, last)| last - first)
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
