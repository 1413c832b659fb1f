//! Many calls at once through the whole stack, given up at any poll, with panics, while the breaker is reconfigured and
//! retries are switched: afterwards nothing is missing and nothing is left.
//!
//! 100,000 calls by default; `COMPOSURE_SOAK_CALLS=1000000` for the full size.
#![cfg(not(loom))]
#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "the helpers of tests are tests too"
)]

mod callers;
mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use callers::{Ears, all_call, operator, settings};
use service::{Ask, Counts, Limits, SCRIPTED, Shared, Told, stack};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::{
    Backoff, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, CircuitState, Jitter,
    RetryLayer, RetrySwitch,
};

const CALLS: u64 = 100_000;
const PERMITS: usize = 16;
const BURST: u32 = 100_000_000;
const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What this process holds in memory, in KiB, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn retry(backoff: Backoff, switch: &RetrySwitch) -> RetryLayer<Told> {
    let retry = RetryLayer::builder(Told).backoff(backoff.jitter(Jitter::Full));
    retry.switch(switch.clone()).seed(7).build().unwrap()
}

async fn run(calls: u64) {
    let counts = Arc::new(Counts::default());
    let budget = Budget::builder().ratio(0.25).burst(BURST).starting_empty();
    let budget = budget.build().unwrap();
    (0..40_000).for_each(|_| budget.deposit());
    let breaker = settings().build().unwrap();
    let permits = Arc::new(Semaphore::new(PERMITS));
    let shared = Shared {
        breaker: CircuitBreakerLayer::new(breaker.clone(), Told),
        budget: BudgetLayer::new(budget.clone()),
        permits: Arc::clone(&permits),
        counts: Arc::clone(&counts),
    };
    let switch = RetrySwitch::new();
    let soon = retry(Backoff::exponential(MS, 4 * MS), &switch);
    let late = retry(Backoff::exponential(HOUR / 4, HOUR / 2), &switch);
    let short = Limits {
        call: 40 * MS,
        attempt: 10 * MS,
    };
    // A timer that is short goes by itself, so one that is left behind would not be seen.
    let long = Limits {
        call: 4 * HOUR,
        attempt: HOUR,
    };
    let (short, long) = (stack(&shared, soon, short), stack(&shared, late, long));
    let changing = tokio::spawn(operator(breaker.clone(), switch, 3));

    let ears = Ears::default();
    all_call(&short, &long, calls / 5, 0, &ears).await;
    let warm = resident();
    all_call(&short, &long, calls - calls / 5, 1 << 32, &ears).await;
    changing.abort();
    assert!(changing.await.unwrap_err().is_cancelled());
    // A task is counted for a moment after it has ended, and a timer that fires is held for one.
    let none_left = async {
        while Handle::current().metrics().num_alive_tasks() > 0 || ears.count() > 0 {
            sleep(MS).await;
        }
    };
    let none_left = timeout(Duration::from_secs(30), none_left).await;
    none_left.unwrap_or_else(|_| panic!("{} timers or waiters are left", ears.count()));

    assert_eq!(permits.available_permits(), PERMITS);
    check_books(&counts, &budget);
    assert!(closes(&breaker).await, "{:?}", breaker.metrics());
    if let (Some(before), Some(after)) = (warm, resident()) {
        let grown = after.saturating_sub(before);
        println!("{calls} calls: {before} KiB grew by {grown} KiB");
        assert!(grown < 8 * 1024, "{before} KiB grew by {grown} KiB");
    }
}

/// To the token: what there was, and what was earned, less what was spent.
fn check_books(counts: &Counts, budget: &Budget) {
    assert_eq!(counts.in_flight.load(Ordering::Relaxed), 0);
    let count = |count: &AtomicU64| i64::try_from(count.load(Ordering::Relaxed)).unwrap();
    let (first, retries) = (count(&counts.first), count(&counts.retries));
    let successes = count(&counts.successes);
    let expected = 10_000_000 + 250 * successes - 1000 * retries;
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^52")]
    let balance = (budget.balance() * 1000.0).round() as i64;
    let seen = format!("{first} admitted, {successes} successes, {retries} retries");
    assert_eq!(balance, expected, "{seen}");
    println!("{seen}");
    assert!(retries > 100 && successes > 1000, "{seen}");
}

/// A few successes close it, whatever it is, where no probe is out.
async fn closes(breaker: &CircuitBreaker) -> bool {
    if breaker.metrics().remaining() == Duration::MAX
        || breaker.state() == CircuitState::ForcedClosed
    {
        breaker.reset();
    }
    let mut service = CircuitBreakerLayer::new(breaker.clone(), Told)
        .layer(tower::service_fn(|_: Ask| async { Ok::<_, BoxError>(()) }));
    for _ in 0..100 {
        if breaker.state() == CircuitState::Closed {
            return true;
        }
        sleep(breaker.metrics().remaining()).await;
        let _ = service.ready().await.unwrap().call(Ask(0)).await;
    }
    false
}

#[test]
fn nothing_is_missing_after_many_calls() {
    let calls = std::env::var("COMPOSURE_SOAK_CALLS");
    let calls = calls.map_or(CALLS, |calls| calls.parse().unwrap());
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref() != Some(&SCRIPTED) {
            loud(panic);
        }
    }));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap()
        .block_on(run(calls));
}

/// What the test above rests on: a timer in the wheel is heard for as long as it is there.
#[tokio::test(start_paused = true)]
async fn a_timer_that_is_left_behind_is_seen() {
    let ears = Ears::default();
    let waker = ears.waker(Waker::noop());
    let mut timer = Box::pin(sleep(HOUR));
    assert!(
        timer
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(waker);
    assert_eq!(ears.count(), 1);
    drop(timer);
    assert_eq!(ears.count(), 0);
}
