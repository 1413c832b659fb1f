//! A scripted inner service, strict about readiness, and what it saw.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unnecessary_wraps,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it; it reads tokio's paused clock to log times"
)]

#[cfg(feature = "tool")]
pub mod any_json;
pub mod backoff;
#[cfg(feature = "http")]
pub mod body;
pub mod breaker;
#[cfg(feature = "http")]
pub mod charges;
#[cfg(feature = "tool")]
pub mod envelope;
#[cfg(feature = "http")]
pub mod http_policy;
#[cfg(feature = "http")]
pub mod pipe;
pub mod reasons;
#[cfg(feature = "tracing")]
pub mod records;
pub mod told;
#[cfg(feature = "http")]
pub mod watched;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tower::Service;

/// One answer of the script.
#[derive(Debug, Clone)]
pub enum Step<T, E> {
    Ok(T),
    Err(E),
    /// Never answers.
    Hang,
    /// Answers after this long.
    After(Duration, Box<Step<T, E>>),
    /// Panics when polled.
    Panic,
}

impl<T, E> Step<T, E> {
    pub fn after(self, wait: Duration) -> Self {
        Self::After(wait, Box::new(self))
    }

    /// Answers after so many milliseconds, or at once.
    pub fn taking(self, millis: u64) -> Self {
        if millis == 0 {
            self
        } else {
            self.after(Duration::from_millis(millis))
        }
    }
}

/// A call as the service received it.
#[derive(Debug, Clone)]
pub struct Seen<Req> {
    /// Since the script was made.
    pub at: Duration,
    pub request: Req,
}

/// Plays its steps in turn, the last one for ever. It panics when it is called without having been polled ready on this
/// very instance since its last call, and its clones start unready.
pub struct Script<Req, T, E> {
    shared: Arc<Shared<Req, T, E>>,
    ready: bool,
}

struct Shared<Req, T, E> {
    start: Instant,
    steps: Mutex<VecDeque<Step<T, E>>>,
    seen: Mutex<Vec<Seen<Req>>>,
    polled_ready: AtomicUsize,
    in_flight: AtomicUsize,
    readiness: Mutex<VecDeque<Readiness<E>>>,
}

/// What `poll_ready` answers, one for each call to come; ready where the list has run out.
#[derive(Debug, Clone)]
pub enum Readiness<E> {
    Ready,
    Never,
    Fail(E),
}

impl<Req, T: Clone, E: Clone> Script<Req, T, E> {
    pub fn new(steps: impl IntoIterator<Item = Step<T, E>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                start: Instant::now(),
                steps: Mutex::new(steps.into_iter().collect()),
                seen: Mutex::new(Vec::new()),
                polled_ready: AtomicUsize::new(0),
                in_flight: AtomicUsize::new(0),
                readiness: Mutex::new(VecDeque::new()),
            }),
            ready: false,
        }
    }

    /// Scripts the readiness for the first calls.
    pub fn readiness(self, answers: impl IntoIterator<Item = Readiness<E>>) -> Self {
        *self.shared.readiness.lock().unwrap() = answers.into_iter().collect();
        self
    }

    /// The number of calls received.
    pub fn calls(&self) -> usize {
        self.shared.seen.lock().unwrap().len()
    }

    /// When the calls came, in milliseconds since the script was made.
    pub fn times(&self) -> Vec<u128> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter().map(|seen| seen.at.as_millis()).collect()
    }

    /// How long ago it was made.
    pub fn age(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// How often `poll_ready` said ready.
    pub fn readies(&self) -> usize {
        self.shared.polled_ready.load(Ordering::SeqCst)
    }

    /// Futures that have been made and not dropped.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    fn next_step(&self) -> Step<T, E> {
        let mut steps = self.shared.steps.lock().unwrap();
        if steps.len() > 1 {
            steps.pop_front().unwrap()
        } else {
            steps.front().cloned().expect("a script has a step")
        }
    }
}

impl<Req: Clone, T, E> Script<Req, T, E> {
    pub fn seen(&self) -> Vec<Seen<Req>> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl<Req, T, E> Clone for Script<Req, T, E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            ready: false,
        }
    }
}

impl<Req, T, E> Service<Req> for Script<Req, T, E>
where
    Req: Send + 'static,
    T: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    type Response = T;
    type Error = E;
    type Future = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        if !self.ready {
            let mut answers = self.shared.readiness.lock().unwrap();
            match answers.front().cloned() {
                Some(Readiness::Never) => return Poll::Pending,
                Some(Readiness::Fail(error)) => {
                    answers.pop_front();
                    return Poll::Ready(Err(error));
                }
                Some(Readiness::Ready) => {
                    answers.pop_front();
                }
                None => {}
            }
            self.ready = true;
            self.shared.polled_ready.fetch_add(1, Ordering::SeqCst);
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        assert!(self.ready, "called without being polled ready");
        self.ready = false;
        self.shared.seen.lock().unwrap().push(Seen {
            at: self.shared.start.elapsed(),
            request,
        });
        let step = self.next_step();
        self.shared.in_flight.fetch_add(1, Ordering::SeqCst);
        let guard = InFlight(Arc::clone(&self.shared));
        Box::pin(async move {
            let _guard = guard;
            play(step).await
        })
    }
}

struct InFlight<Req, T, E>(Arc<Shared<Req, T, E>>);

impl<Req, T, E> Drop for InFlight<Req, T, E> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn play<T, E>(mut step: Step<T, E>) -> Result<T, E> {
    loop {
        match step {
            Step::Ok(response) => return Ok(response),
            Step::Err(error) => return Err(error),
            Step::Hang => return std::future::pending().await,
            Step::Panic => panic!("the script says so"),
            Step::After(wait, next) => {
                sleep(wait).await;
                step = *next;
            }
        }
    }
}

/// Runs a test on a paused clock, where a macro already runs it.
pub fn paused<T>(test: impl AsyncFnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test())
}
