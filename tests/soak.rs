//! Many calls at once through the whole stack, given up at any poll, with panics, while the breaker is reconfigured and
//! retries are switched: afterwards nothing is missing and nothing is left.
//!
//! 100,000 calls by default; `COMPOSURE_SOAK_CALLS=1000000` for the full size.
#![cfg(not(loom))]
#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of tests are tests too"
)]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tower::layer::layer_fn;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::circuit_breaker::CircuitBreakerBuilder;
use tower_composure::{
    Attempt, Backoff, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, CircuitState,
    DeadlineLayer, Effect, Jitter, Policy, RetryLayer, RetryMode, RetrySwitch, Verdict,
};

const CALLS: u64 = 100_000;
const CALLERS: u64 = 64;
const PERMITS: usize = 16;
const BURST: u32 = 100_000_000;
const SCRIPTED: &str = "the soak's own";
const MS: Duration = Duration::from_millis(1);

/// What a call is to do, in the bits of a number.
#[derive(Clone, Copy)]
struct Ask(u64);

/// A stream of numbers that depends on nothing but its seed.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Copy)]
struct Told;

impl Policy<Ask, (), BoxError> for Told {
    fn effect(&self, _: &Ask) -> Effect {
        Effect::Read
    }

    fn classify(&self, _: &Attempt, outcome: Result<&(), &BoxError>) -> Verdict {
        match outcome {
            Ok(()) => Verdict::Success,
            Err(error) if error.is::<Throttled>() => Verdict::THROTTLED,
            Err(_) => Verdict::UNKNOWN,
        }
    }
}

#[derive(Debug)]
struct Throttled;

impl std::fmt::Display for Throttled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("throttled")
    }
}

impl std::error::Error for Throttled {}

#[derive(Default)]
struct Counts {
    first: AtomicU64,
    retries: AtomicU64,
    /// Successes that reached the retry layer.
    successes: AtomicU64,
    in_flight: AtomicU64,
}

/// Counts directly below the retry, where each started retry has been paid for and each success earns.
#[derive(Clone)]
struct Tap<S> {
    inner: S,
    counts: Arc<Counts>,
}

impl<S> Service<Ask> for Tap<S>
where
    S: Service<Ask, Response = (), Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = ();
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        let counts = Arc::clone(&self.counts);
        let first = Attempt::current().unwrap().number() == 1;
        let count = if first {
            &counts.first
        } else {
            &counts.retries
        };
        count.fetch_add(1, Ordering::Relaxed);
        let call = self.inner.call(ask);
        Box::pin(async move {
            let outcome = call.await;
            if outcome.is_ok() {
                counts.successes.fetch_add(1, Ordering::Relaxed);
            }
            outcome
        })
    }
}

struct InFlight(Arc<Counts>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Succeeds mostly; fails, is slow, hangs and panics now and then.
async fn serve(ask: Ask, counts: Arc<Counts>) -> Result<(), BoxError> {
    counts.in_flight.fetch_add(1, Ordering::Relaxed);
    let _guard = InFlight(counts);
    let mut seed = ask.0 ^ u64::from(Attempt::current().unwrap().number());
    match next(&mut seed) % 100 {
        0..=59 => Ok(()),
        60..=79 => Err(Throttled.into()),
        80..=84 => Err("broken".into()),
        85..=94 => {
            for _ in 0..seed % 4 {
                tokio::task::yield_now().await;
            }
            Ok(())
        }
        95..=97 => {
            sleep(MS).await;
            Ok(())
        }
        98 => std::future::pending().await,
        _ => std::panic::panic_any(SCRIPTED),
    }
}

/// Polls a future so many times, and then drops it.
async fn give_up<F: Future>(future: F, mut polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(move |cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

async fn caller<S>(mut service: S, calls: u64, mut seed: u64)
where
    S: Service<Ask, Response = (), Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    for _ in 0..calls {
        let number = next(&mut seed);
        // Half of the callers wait for as long as it takes, the others give up at some poll.
        let polls = if number & 1 == 0 {
            u64::MAX
        } else {
            (number >> 1) % 6
        };
        let called = service.ready().await.unwrap().call(Ask(number));
        // On a task of its own, which a panic ends.
        let _ = tokio::spawn(give_up(called, polls)).await;
    }
}

/// Changes everything that can be changed while it runs.
async fn operator(breaker: CircuitBreaker, switch: RetrySwitch, mut seed: u64) {
    loop {
        sleep(5 * MS).await;
        match next(&mut seed) % 8 {
            0 => breaker.force_open(),
            1 => breaker.force_closed(),
            2 => switch.set(RetryMode::Off),
            3 => switch.set(RetryMode::ObserveOnly),
            4 => breaker.reconfigure(settings().probes(1)).unwrap(),
            5 => breaker.reconfigure(settings().failure_rate(0.2)).unwrap(),
            _ => {}
        }
        sleep(MS).await;
        switch.set(RetryMode::On);
        if matches!(
            breaker.state(),
            CircuitState::ForcedOpen | CircuitState::ForcedClosed
        ) {
            breaker.reset();
        }
    }
}

fn settings() -> CircuitBreakerBuilder {
    CircuitBreaker::builder()
        .window(50)
        .minimum_calls(20)
        .failure_rate(0.3)
        .open_time(MS)
        .max_open_time(4 * MS)
        .probe_lease(Duration::from_secs(3600))
        .seed(1)
}

/// What this process holds in memory, in KiB, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The whole stack, with a tap where the budget is charged.
async fn run(calls: u64) {
    let counts = Arc::new(Counts::default());
    let budget = Budget::builder().ratio(0.25).burst(BURST).starting_empty();
    let budget = budget.build().unwrap();
    (0..40_000).for_each(|_| budget.deposit());
    let breaker = settings().build().unwrap();
    let retry = RetryLayer::builder(Told)
        .backoff(Backoff::exponential(MS, 4 * MS).jitter(Jitter::Full))
        .seed(7)
        .build()
        .unwrap();
    let permits = Arc::new(Semaphore::new(PERMITS));
    let (tapped, serving) = (Arc::clone(&counts), Arc::clone(&counts));
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(breaker.clone(), Told))
        .layer(DeadlineLayer::call(40 * MS))
        .layer(BudgetLayer::new(budget.clone()))
        .layer(retry.clone())
        .layer(layer_fn(move |inner| Tap {
            inner,
            counts: Arc::clone(&tapped),
        }))
        .layer(DeadlineLayer::attempt(10 * MS))
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(
            &permits,
        )))
        .service_fn(move |ask| serve(ask, Arc::clone(&serving)));
    let changing = tokio::spawn(operator(breaker.clone(), retry.switch().clone(), 3));

    all_call(&service, calls / 5, 0).await;
    let warm = resident();
    all_call(&service, calls - calls / 5, 1 << 32).await;
    changing.abort();
    assert!(changing.await.unwrap_err().is_cancelled());
    // A task is counted for a moment after it has ended.
    let none_left = async {
        while Handle::current().metrics().num_alive_tasks() > 0 {
            sleep(MS).await;
        }
    };
    timeout(Duration::from_secs(30), none_left).await.unwrap();

    assert_eq!(permits.available_permits(), PERMITS);
    check_books(&counts, &budget);
    assert!(closes(&breaker).await, "{:?}", breaker.metrics());
    if let (Some(before), Some(after)) = (warm, resident()) {
        let grown = after.saturating_sub(before);
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
    assert!(retries > 100 && successes > 1000, "{seen}");
}

/// All callers make their calls at once.
async fn all_call<S>(service: &S, calls: u64, seed: u64)
where
    S: Service<Ask, Response = (), Error = BoxError> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let callers = (0..CALLERS).map(|number| {
        let share = calls / CALLERS + u64::from(number < calls % CALLERS);
        tokio::spawn(caller(service.clone(), share, seed + number))
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
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
