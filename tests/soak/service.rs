//! What is called: a policy, a service that does everything a service may do, and the stack around it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;
use tower::layer::layer_fn;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, Service, ServiceBuilder};
use tower_composure::{
    Attempt, BudgetLayer, CircuitBreakerLayer, DeadlineLayer, Effect, Policy, RetryLayer, Verdict,
};

pub const SCRIPTED: &str = "the soak's own";

/// What a call is to do, in the bits of a number.
#[derive(Clone, Copy)]
pub struct Ask(pub u64);

/// A stream of numbers that depends on nothing but its seed.
pub fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Copy)]
pub struct Told;

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
pub struct Counts {
    pub first: AtomicU64,
    pub retries: AtomicU64,
    /// Successes that reached the retry layer.
    pub successes: AtomicU64,
    pub in_flight: AtomicU64,
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
            sleep(Duration::from_millis(1)).await;
            Ok(())
        }
        98 => std::future::pending().await,
        _ => std::panic::panic_any(SCRIPTED),
    }
}

/// How long everything takes at most.
#[derive(Clone, Copy)]
pub struct Limits {
    pub call: Duration,
    pub attempt: Duration,
}

/// What all the stacks share.
#[derive(Clone)]
pub struct Shared {
    pub breaker: CircuitBreakerLayer<Told>,
    pub budget: BudgetLayer,
    pub permits: Arc<Semaphore>,
    pub counts: Arc<Counts>,
}

/// The whole stack, with a tap where the budget is charged.
pub fn stack(
    shared: &Shared,
    retry: RetryLayer<Told>,
    limits: Limits,
) -> impl Service<Ask, Response = (), Error = BoxError, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static
+ use<> {
    let (tapped, serving) = (Arc::clone(&shared.counts), Arc::clone(&shared.counts));
    ServiceBuilder::new()
        .layer(shared.breaker.clone())
        .layer(DeadlineLayer::call(limits.call))
        .layer(shared.budget.clone())
        .layer(retry)
        .layer(layer_fn(move |inner| Tap {
            inner,
            counts: Arc::clone(&tapped),
        }))
        .layer(DeadlineLayer::attempt(limits.attempt))
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(
            &shared.permits,
        )))
        .service_fn(move |ask| serve(ask, Arc::clone(&serving)))
}
