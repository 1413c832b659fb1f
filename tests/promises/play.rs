//! Builds a world's stack, lets its callers call, and says what was seen.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, advance, sleep_until, timeout};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::circuit_breaker::Transition;
use tower_composure::{
    Attempt, AttemptFinished, Backoff, Budget, BudgetLayer, CallReport, CircuitBreaker,
    CircuitBreakerLayer, CircuitState, Count as Counts, DeadlineExceeded, DeadlineLayer,
    IdempotencyKey, Jitter, Observer, RetryLayer, RetryScheduled, StopReason,
};

use super::service::{Answer, Arrival, Ask, Count, SCRIPTED, Server, Tap, Told};
use super::world::{Part, Patience, Retry, World};

pub type Client = BoxCloneService<Ask, Answer, BoxError>;

/// Longer than any script: who has not ended by then is dropped.
const FOREVER: Duration = Duration::from_secs(3600);

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What became of one call.
#[derive(Debug)]
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

/// Hears everything, and panics now and then.
#[derive(Default)]
pub struct Ears {
    pub heard: Mutex<Vec<String>>,
    panics_every: Option<u32>,
    count: AtomicU32,
}

impl Ears {
    fn hear(&self, event: String) {
        self.heard.lock().unwrap().push(event);
        let count = self.count.fetch_add(1, Ordering::SeqCst);
        let panics = self.panics_every.is_some_and(|every| count % every == 0);
        assert!(!panics, "{SCRIPTED}, in an observer");
    }
}

impl Observer for Ears {
    fn attempt_started(&self, name: &str, attempt: &Attempt) {
        self.hear(format!("{name} {attempt:?}"));
    }
    fn attempt_finished(&self, name: &str, finished: &AttemptFinished) {
        self.hear(format!("{name} {finished:?}"));
    }
    fn retry_scheduled(&self, name: &str, retry: &RetryScheduled) {
        self.hear(format!("{name} {retry:?}"));
    }
    fn retry_refused(&self, name: &str, attempt: &Attempt, reason: StopReason) {
        self.hear(format!("{name} {attempt:?} {reason:?}"));
    }
    fn call_finished(&self, name: &str, report: &CallReport) {
        self.hear(format!("{name} {report:?}"));
    }
    fn budget_deposited(&self, name: &str, balance: f64) {
        self.hear(format!("{name} deposited {balance}"));
    }
    fn budget_withdrawn(&self, name: &str, balance: f64) {
        self.hear(format!("{name} withdrawn {balance}"));
    }
    fn budget_exhausted(&self, name: &str, balance: f64) {
        self.hear(format!("{name} exhausted {balance}"));
    }
    fn breaker_transition(&self, name: &str, transition: &Transition) {
        self.hear(format!("{name} {transition:?}"));
    }
    fn breaker_rejected(&self, name: &str, remaining: Duration) {
        self.hear(format!("{name} rejected {remaining:?}"));
    }
    fn breaker_probe(&self, name: &str) {
        self.hear(format!("{name} probe"));
    }
    fn deadline_exceeded(&self, name: &str, exceeded: &DeadlineExceeded) {
        self.hear(format!("{name} {exceeded:?} {exceeded}"));
    }
    fn key_minted(&self, name: &str) {
        self.hear(format!("{name} minted"));
    }
    fn key_kept(&self, name: &str) {
        self.hear(format!("{name} kept"));
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
        let (effect, keyed) = (tower_composure::Effect::Read, false);
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

async fn run(world: &Arc<World>) -> Seen {
    let ears = Arc::new(Ears {
        panics_every: world.observer_panics,
        ..Ears::default()
    });
    let server = Server::new(world);
    let log = Arc::clone(&server.log);
    let built = build(world, server, &ears);
    if world.half_open {
        make_half_open(&built.breaker).await;
    }
    let start = Instant::now();
    let mut tasks = Vec::new();
    let mut calls = Vec::new();
    for (caller, said) in world.callers.iter().enumerate() {
        let (effect, keyed, patience) = (said.effect, said.keyed, said.patience);
        let (client, at) = (built.client.clone(), start + ms(said.at));
        let seen = Arc::new(Mutex::new(Call {
            called: None,
            ended: None,
            outcome: None,
            report: None,
            panicked: false,
        }));
        calls.push(Arc::clone(&seen));
        tasks.push(tokio::spawn(async move {
            sleep_until(at).await;
            let ask = Ask {
                caller,
                effect,
                keyed,
            };
            call(client, ask, patience, &seen).await;
        }));
    }
    let mut leaps = world.leaps.clone();
    leaps.sort_unstable();
    let clock = tokio::spawn(async move {
        for (at, by) in leaps {
            sleep_until(start + ms(at)).await;
            advance(ms(by)).await;
        }
    });
    drop(built.client);
    for (task, call) in tasks.into_iter().zip(&calls) {
        let panicked = task.await.is_err();
        call.lock()
            .unwrap_or_else(|lock| lock.into_inner())
            .panicked = panicked;
    }
    clock.await.unwrap();
    let calls = calls.into_iter().map(|call| {
        let call = Arc::into_inner(call).unwrap();
        call.into_inner().unwrap_or_else(|lock| lock.into_inner())
    });
    let out = |(permits, most): &(Arc<Semaphore>, usize)| most - permits.available_permits();
    Seen {
        calls: calls.collect(),
        arrivals: log.arrivals.lock().unwrap().clone(),
        in_flight: log.in_flight.load(Ordering::SeqCst),
        permits_out: built.permits.iter().map(out).sum(),
        budget: built.budget,
        breaker: built.breaker,
        taps: built.taps,
        events: ears
            .heard
            .lock()
            .unwrap_or_else(|lock| lock.into_inner())
            .clone(),
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
