//! A hundred thousand calls that are pending at once: bytes a call, and wall time. A line a case: its name, the most
//! calls that were pending, bytes a call, and the median of the wall times in milliseconds.

use std::alloc::System;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use composure_benches::Never;
use composure_benches::peers::{self, TowerPolicy};
use composure_benches::seatbelt_peers;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::time::Sleep;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{Effect, Stack};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: usize = 100_000;
const HELD: Duration = Duration::from_millis(100);
const ROUNDS: usize = 7;

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static PENDING: AtomicUsize = AtomicUsize::new(0);
static MOST_PENDING: AtomicUsize = AtomicUsize::new(0);
/// Bytes that live when the last call has begun.
static BYTES: AtomicUsize = AtomicUsize::new(0);

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Answers after a while.
#[derive(Clone)]
struct Held;

impl Service<u64> for Held {
    type Response = u64;
    type Error = Never;
    type Future = Holding;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u64) -> Holding {
        let pending = PENDING.fetch_add(1, Ordering::Relaxed) + 1;
        MOST_PENDING.fetch_max(pending, Ordering::Relaxed);
        if BEGUN.fetch_add(1, Ordering::Relaxed) + 1 == CALLS {
            BYTES.store(live(), Ordering::Relaxed);
        }
        Holding {
            sleep: tokio::time::sleep(HELD),
            number,
        }
    }
}

pin_project_lite::pin_project! {
    struct Holding {
        #[pin]
        sleep: Sleep,
        number: u64,
    }
}

impl Future for Holding {
    type Output = Result<u64, Never>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        ready!(this.sleep.poll(cx));
        PENDING.fetch_sub(1, Ordering::Relaxed);
        Poll::Ready(Ok(*this.number))
    }
}

struct Round {
    most_pending: usize,
    bytes: usize,
    wall: Duration,
}

/// One round on a runtime of its own, so that no case finds what another one has grown.
fn round<S>(service: impl FnOnce() -> S) -> Round
where
    S: Service<u64, Response: Send, Error: Send, Future: Send> + Clone + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    BEGUN.store(0, Ordering::Relaxed);
    MOST_PENDING.store(0, Ordering::Relaxed);
    let mut tasks = Vec::with_capacity(CALLS);
    let before = live();
    let start = Instant::now();
    runtime.block_on(async {
        let service = service();
        for number in 0..CALLS as u64 {
            // As it is: an async block around it would hold it twice.
            tasks.push(tokio::spawn(service.clone().oneshot(number)));
        }
        for task in tasks {
            let outcome = task.await.expect("no call panics");
            assert!(outcome.is_ok(), "every call succeeds");
        }
    });
    Round {
        most_pending: MOST_PENDING.load(Ordering::Relaxed),
        bytes: BYTES.load(Ordering::Relaxed).saturating_sub(before) / CALLS,
        wall: start.elapsed(),
    }
}

type Case = (&'static str, Box<dyn Fn() -> Round>);

fn cases() -> [Case; 6] {
    let limit = Duration::from_secs(3);
    [
        ("bare", Box::new(|| round(|| Held))),
        (
            "tower_retry_timeout",
            Box::new(move || {
                let layers = ServiceBuilder::new().retry(TowerPolicy(None));
                round(|| layers.timeout(limit).service(Held))
            }),
        ),
        (
            "tower_stack",
            Box::new(|| round(|| peers::tower_stack(Held))),
        ),
        (
            "resilience_stack",
            Box::new(|| round(|| peers::resilience_stack(Held))),
        ),
        (
            "seatbelt_stack",
            Box::new(|| round(|| seatbelt_peers::stack(Held))),
        ),
        (
            "stack",
            Box::new(|| {
                let stack = Stack::builder(Effect::Read).build();
                round(|| stack.expect("settings that work").layer(Held))
            }),
        ),
    ]
}

fn main() {
    let cases = cases();
    let mut rounds: Vec<Vec<Round>> = cases.iter().map(|_| Vec::new()).collect();
    // In turn, so that a slow spell of the machine meets all of them.
    for _ in 0..ROUNDS {
        for ((_, run), rounds) in cases.iter().zip(&mut rounds) {
            rounds.push(run());
        }
    }
    for ((name, _), mut rounds) in cases.into_iter().zip(rounds) {
        rounds.sort_by_key(|round| round.wall);
        let Round {
            most_pending,
            bytes,
            wall,
        } = &rounds[rounds.len() / 2];
        println!(
            "{name} {most_pending} {bytes} {:.0}",
            wall.as_secs_f64() * 1000.0
        );
    }
}
