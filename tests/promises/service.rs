//! The service at the bottom, which follows the script, and the taps that count what passes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};
use tower::{BoxError, Service};
use tower_composure::{Attempt, Effect, IdempotencyKey, Policy, Verdict};

use super::world::{Act, Does, World};

/// How a panic begins that the script wants.
pub const SCRIPTED: &str = "the script says so";

/// A request: which caller's it is.
#[derive(Clone)]
pub struct Ask {
    pub caller: usize,
    pub effect: Effect,
    pub keyed: bool,
}

/// A response that says what it means.
#[derive(Clone, Copy, Debug)]
pub struct Answer(pub Verdict);

/// An error that says what it means.
#[derive(Clone, Copy, Debug)]
pub struct Said(pub Verdict);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scripted failure")
    }
}

impl std::error::Error for Said {}

/// Believes what the outcomes say of themselves.
#[derive(Clone, Copy)]
pub struct Told;

impl Policy<Ask, Answer, BoxError> for Told {
    fn effect(&self, ask: &Ask) -> Effect {
        ask.effect
    }

    fn keyed(&self, ask: &Ask) -> bool {
        ask.keyed
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&Answer, &BoxError>) -> Verdict {
        match outcome {
            Ok(Answer(verdict)) => *verdict,
            Err(error) => match error.downcast_ref() {
                Some(Said(verdict)) => *verdict,
                None => Policy::<Ask, Answer, _>::classify(&Effect::Read, attempt, outcome),
            },
        }
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub caller: usize,
    pub at: Instant,
    pub act: Act,
    /// When it was answered, where nobody dropped it before.
    pub ended: Option<Instant>,
    pub key: Option<String>,
}

#[derive(Default)]
pub struct Log {
    pub arrivals: Mutex<Vec<Arrival>>,
    pub in_flight: AtomicUsize,
    stalls: Mutex<std::collections::VecDeque<u64>>,
}

/// Strict about readiness: it counts for one instance and one call.
pub struct Server {
    world: Arc<World>,
    pub log: Arc<Log>,
    ready: bool,
    stall: Option<Pin<Box<Sleep>>>,
}

impl Server {
    pub fn new(world: &Arc<World>) -> Self {
        let log = Log::default();
        log.stalls.lock().unwrap().extend(&world.stalls);
        Self {
            world: Arc::clone(world),
            log: Arc::new(log),
            ready: false,
            stall: None,
        }
    }
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self {
            world: Arc::clone(&self.world),
            log: Arc::clone(&self.log),
            ready: false,
            stall: None,
        }
    }
}

impl Service<Ask> for Server {
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.ready {
            return Poll::Ready(Ok(()));
        }
        if self.stall.is_none() {
            let stall = self.log.stalls.lock().unwrap().pop_front();
            if let Some(wait) = stall.filter(|wait| *wait > 0) {
                self.stall = Some(Box::pin(sleep(Duration::from_millis(wait))));
            }
        }
        if let Some(stall) = &mut self.stall {
            ready!(stall.as_mut().poll(cx));
            self.stall = None;
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        assert!(self.ready, "called without being polled ready");
        self.ready = false;
        let (index, act) = self.arrived(&ask);
        assert!(act.does != Does::PanicInCall, "{SCRIPTED}, in call");
        self.log.in_flight.fetch_add(1, Ordering::SeqCst);
        let guard = InFlight(Arc::clone(&self.log));
        Box::pin(async move {
            let log = &guard.0;
            if act.takes > 0 {
                sleep(Duration::from_millis(act.takes)).await;
            }
            let outcome = match act.does {
                Does::Respond(verdict) => Ok(Answer(verdict)),
                Does::Fail(verdict) => Err(Said(verdict).into()),
                Does::Hang => std::future::pending().await,
                Does::PanicInCall | Does::PanicInPoll => panic!("{SCRIPTED}, in poll"),
            };
            log.arrivals.lock().unwrap()[index].ended = Some(Instant::now());
            outcome
        })
    }
}

impl Server {
    fn arrived(&self, ask: &Ask) -> (usize, Act) {
        let mut arrivals = self.log.arrivals.lock().unwrap();
        let earlier = arrivals.iter().filter(|seen| seen.caller == ask.caller);
        let acts = &self.world.callers[ask.caller].acts;
        let act = acts[earlier.count().min(acts.len() - 1)];
        arrivals.push(Arrival {
            caller: ask.caller,
            at: Instant::now(),
            act,
            ended: None,
            key: IdempotencyKey::current().map(|key| key.as_str().to_owned()),
        });
        (arrivals.len() - 1, act)
    }
}

struct InFlight(Arc<Log>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts calls, and the successes among their outcomes.
#[derive(Default)]
pub struct Count {
    pub calls: AtomicUsize,
    pub successes: AtomicUsize,
}

#[derive(Clone)]
pub struct Tap<S> {
    pub inner: S,
    pub count: Arc<Count>,
}

impl<S> Service<Ask> for Tap<S>
where
    S: Service<Ask, Response = Answer, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        self.count.calls.fetch_add(1, Ordering::SeqCst);
        let count = Arc::clone(&self.count);
        let call = self.inner.call(ask);
        Box::pin(async move {
            let outcome = call.await;
            if matches!(outcome, Ok(Answer(Verdict::Success))) {
                count.successes.fetch_add(1, Ordering::SeqCst);
            }
            outcome
        })
    }
}
