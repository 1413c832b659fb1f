//! Builds a world's stack, lets its callers call, and says what was seen.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, advance, sleep_until, timeout};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::{
    Backoff, Budget, BudgetLayer, CallReport, CircuitBreaker, CircuitBreakerLayer, CircuitState,
    Count as Counts, DeadlineLayer, Effect, IdempotencyKey, Jitter, Observer, RetryLayer,
};

use super::ears::Ears;
use super::service::{Answer, Arrival, Ask, Count, SCRIPTED, Server, Tap, Told};
use super::world::{Part, Patience, Retry, World};

pub type Client = BoxCloneService<Ask, Answer, BoxError>;

/// Longer than any script: who has not ended by then is dropped.
const FOREVER: Duration = Duration::from_secs(3600);

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What became of one call.
#[derive(Debug, Default)]
pub struct Call {
    /// When the stack was called, once it was ready.
    pub called: Option<Instant>,
    pub ended: Option<Instant>,
    /// None where its caller gave up.
    pub outcome: Option<Result<Answer, BoxError>>,
    pub report: Option<CallReport>,
    pub panicked: bool,
}

/// What was seen of a world, once everything had ended.
pub struct Seen {
    pub calls: Vec<Call>,
    pub arrivals: Vec<Arrival>,
    pub in_flight: usize,
    /// Permits taken and not given back.
    pub permits_out: usize,
    pub budget: Budget,
    pub breaker: CircuitBreaker,
    /// Calls above and below each retry, the outermost first.
    pub taps: Vec<[Arc<Count>; 2]>,
    pub events: Vec<String>,
}

impl Seen {
    /// The arrivals of each caller, in order.
    pub fn by_caller(&self) -> impl Iterator<Item = Vec<&Arrival>> {
        (0..self.calls.len()).map(|number| {
            let arrivals = self.arrivals.iter();
            arrivals.filter(|seen| seen.caller == number).collect()
        })
    }
}

/// What all layers of a stack share.
struct Built {
    client: Client,
    budget: Budget,
    breaker: CircuitBreaker,
    permits: Vec<(Arc<Semaphore>, usize)>,
    taps: Vec<[Arc<Count>; 2]>,
}

fn breaker(world: &World, ears: &Arc<Ears>) -> CircuitBreaker {
    let counts = if world.counts_attempts {
        Counts::Attempts
    } else {
        Counts::Calls
    };
    CircuitBreaker::builder()
        .consecutive_failures(3)
        .open_time(ms(100))
        .max_open_time(ms(400))
        .open_jitter(0.0)
        .probes(2)
        .probe_lease(FOREVER)
        .count(counts)
        .seed(world.seed)
        .observer(Arc::clone(ears) as Arc<dyn Observer>)
        .build()
        .unwrap()
}

fn retry(world: &World, retry: Retry, ears: &Arc<Ears>) -> RetryLayer<Told> {
    RetryLayer::builder(Told)
        .max_attempts(retry.attempts)
        .backoff(Backoff::constant(ms(retry.backoff)).jitter(Jitter::Full))
        .nested(retry.nested)
        .server_honours_keys(retry.honours_keys)
        .seed(world.seed)
        .observer(Arc::clone(ears) as Arc<dyn Observer>)
        .build()
        .unwrap()
}

fn build(world: &World, server: Server, ears: &Arc<Ears>) -> Built {
    let ratio = f64::from(world.ratio) / 1000.0;
    let mut built = Built {
        client: BoxCloneService::new(server),
        budget: Budget::new(ratio, world.burst).unwrap(),
        breaker: breaker(world, ears),
        permits: Vec::new(),
        taps: Vec::new(),
    };
    for part in world.parts.iter().rev() {
        let inner = built.client;
        built.client = match *part {
            Part::CallDeadline(limit) => boxed(DeadlineLayer::call(ms(limit)).layer(inner)),
            Part::AttemptDeadline(limit) => boxed(DeadlineLayer::attempt(ms(limit)).layer(inner)),
            Part::Budget => boxed(BudgetLayer::new(built.budget.clone()).layer(inner)),
            Part::Breaker => {
                boxed(CircuitBreakerLayer::new(built.breaker.clone(), Told).layer(inner))
            }
            Part::Limit(most) => {
                let permits = Arc::new(Semaphore::new(most));
                built.permits.push((Arc::clone(&permits), most));
                boxed(GlobalConcurrencyLimitLayer::with_semaphore(permits).layer(inner))
            }
            Part::Retry(settings) => {
                let counts = [Arc::new(Count::default()), Arc::new(Count::default())];
                built.taps.insert(0, counts.clone());
                let [above, below] = counts;
                let retried = retry(world, settings, ears).layer(Tap {
                    inner,
                    count: below,
                });
                boxed(Tap {
                    inner: retried,
                    count: above,
                })
            }
        };
    }
    built
}

fn boxed<S>(service: S) -> Client
where
    S: Service<Ask, Response = Answer, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    BoxCloneService::new(service)
}

/// Polls a future, and drops it where its caller has seen enough of it.
async fn patient<F: Future>(future: F, patience: Patience) -> Option<F::Output> {
    let mut polls = match patience {
        Patience::Polls(polls) => polls,
        _ => u32::MAX,
    };
    let mut future = pin!(future);
    std::future::poll_fn(move |cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Dropped here and now, not with the next event.
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn call(mut client: Client, ask: Ask, patience: Patience, called: &Mutex<Call>) {
    let key = IdempotencyKey::new(format!("key-of-{}", ask.caller)).unwrap();
    let keyed = ask.keyed;
    let whole = async {
        client.ready().await?;
        called.lock().unwrap().called = Some(Instant::now());
        let answer = client.call(ask);
        let outcome = CallReport::of(patient(answer, patience)).await;
        Ok::<_, BoxError>(outcome)
    };
    let limit = match patience {
        Patience::Millis(wait) => ms(wait),
        _ => FOREVER,
    };
    let outcome = if keyed {
        timeout(limit, key.scope(whole)).await
    } else {
        timeout(limit, whole).await
    };
    let mut call = called.lock().unwrap();
    call.ended = Some(Instant::now());
    match outcome {
        Err(_) => {}
        Ok(Err(unready)) => call.outcome = Some(Err(unready)),
        Ok(Ok((outcome, report))) => {
            call.outcome = outcome;
            call.report = report;
        }
    }
}

/// Opens the breaker and waits until it would let a probe through.
async fn make_half_open(breaker: &CircuitBreaker) {
    let failing = tower::service_fn(|_: Ask| async { Err::<Answer, BoxError>("down".into()) });
    let mut service = CircuitBreakerLayer::new(breaker.clone(), Told).layer(failing);
    for caller in 0..3 {
        let (effect, keyed) = (Effect::Read, false);
        let ask = Ask {
            caller,
            effect,
            keyed,
        };
        let _ = service.ready().await.unwrap().call(ask).await;
    }
    advance(ms(100)).await;
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
}

/// All callers, each on a task of its own, which a panic ends.
async fn let_all_call(world: &World, client: Client) -> Vec<Call> {
    let start = Instant::now();
    let mut calls = Vec::new();
    for (number, caller) in world.callers.iter().cloned().enumerate() {
        let client = client.clone();
        let seen = Arc::new(Mutex::new(Call::default()));
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                sleep_until(start + ms(caller.at)).await;
                let ask = Ask {
                    caller: number,
                    effect: caller.effect,
                    keyed: caller.keyed,
                };
                call(client, ask, caller.patience, &seen).await;
            }
        });
        calls.push((seen, task));
    }
    drop(client);
    let mut leaps = world.leaps.clone();
    leaps.sort_unstable();
    let clock = tokio::spawn(async move {
        for (at, by) in leaps {
            sleep_until(start + ms(at)).await;
            advance(ms(by)).await;
        }
    });
    let mut ended = Vec::new();
    for (seen, task) in calls {
        let panicked = task.await.is_err();
        let seen = Arc::into_inner(seen).unwrap();
        let call = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.push(Call { panicked, ..call });
    }
    clock.await.unwrap();
    ended
}

async fn run(world: &Arc<World>) -> Seen {
    let ears = Arc::new(Ears::new(world.observer_panics));
    let server = Server::new(world);
    let log = Arc::clone(&server.log);
    let built = build(world, server, &ears);
    if world.half_open {
        make_half_open(&built.breaker).await;
    }
    let calls = let_all_call(world, built.client).await;
    let out = |(permits, most): &(Arc<Semaphore>, usize)| most - permits.available_permits();
    Seen {
        calls,
        arrivals: log.arrivals.lock().unwrap().clone(),
        in_flight: log.in_flight.load(Ordering::SeqCst),
        permits_out: built.permits.iter().map(out).sum(),
        budget: built.budget,
        breaker: built.breaker,
        taps: built.taps,
        events: ears.heard(),
    }
}

/// Plays a world to its end on a paused clock, and then asks.
pub fn play<T>(world: &World, ask: impl AsyncFnOnce(Seen) -> T) -> T {
    keep_quiet_about_scripted_panics();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let world = Arc::new(world.clone());
    runtime.block_on(async { ask(run(&world).await).await })
}

/// They would bury the one that matters.
fn keep_quiet_about_scripted_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = panic.payload().downcast_ref::<String>();
            if !said.is_some_and(|said| said.starts_with(SCRIPTED)) {
                loud(panic);
            }
        }));
    });
}
