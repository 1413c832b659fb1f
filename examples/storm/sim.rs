//! A simulated server and an open loop of calls, on the clock of the runtime.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tower::{Service, service_fn};
use tower_composure::BoxError;

/// How wide a bin of arrivals is.
pub(crate) const BIN: Duration = Duration::from_millis(10);

/// A call, as each of its requests carries it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) number: u32,
    /// When it starts, since the start of the run.
    pub(crate) starts: Duration,
    /// Who makes it.
    pub(crate) session: u32,
}

/// What a server answers that does not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// 503, before it acted.
    Unavailable,
    /// 429, with a wait.
    Throttled(Duration),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "unavailable",
            Self::Throttled(_) => "throttled",
        })
    }
}

impl std::error::Error for Failed {}

/// What the server saw.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    start: Instant,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    bins: Vec<u32>,
    requests_of: Vec<u8>,
}

impl Seen {
    /// Nothing, from now on.
    pub(crate) fn new() -> Self {
        Self {
            start: now(),
            log: Arc::default(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    /// One more request of this call.
    fn arrived(&self, call: Call) -> Duration {
        let at = self.elapsed();
        self.with(|log| {
            *slot(&mut log.bins, bin(at)) += 1;
            let requests = slot(&mut log.requests_of, call.number as usize);
            *requests = requests.saturating_add(1);
        });
        at
    }

    /// How many requests of this call there have been.
    pub(crate) fn requests_of(&self, number: u32) -> u8 {
        self.with(|log| log.requests_of.get(number as usize).copied().unwrap_or(0))
    }

    /// The requests of all these calls.
    pub(crate) fn requests(&self, calls: impl Iterator<Item = u32>) -> u32 {
        calls.map(|call| u32::from(self.requests_of(call))).sum()
    }

    /// Arrivals from one time up to another.
    pub(crate) fn between(&self, from: Duration, to: Duration) -> u32 {
        self.with(|log| {
            let bins = log.bins.iter().skip(bin(from));
            bins.take(bin(to).saturating_sub(bin(from))).sum()
        })
    }

    /// Arrivals in each span of so many bins, up to the last one.
    pub(crate) fn spans(&self, bins: usize) -> Vec<u32> {
        self.with(|log| {
            log.bins
                .chunks(bins)
                .map(|span| span.iter().sum())
                .collect()
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Log) -> T) -> T {
        look(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn bin(at: Duration) -> usize {
    usize::try_from(at.as_nanos() / BIN.as_nanos()).unwrap_or(0)
}

/// The entry at this place, which is made where there is none.
pub(crate) fn slot<T: Clone + Default>(of: &mut Vec<T>, place: usize) -> &mut T {
    if of.len() <= place {
        of.resize(place + 1, T::default());
    }
    &mut of[place]
}

/// A server that notes each request and answers as it is told, with the time of the arrival at hand.
pub(crate) fn server<A, F>(
    seen: &Seen,
    answer: A,
) -> impl Service<Call, Response = (), Error = Failed, Future: Send + 'static> + Clone + Send + 'static
where
    A: Fn(Duration, Call) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Failed>> + Send + 'static,
{
    let seen = seen.clone();
    service_fn(move |call| answer(seen.arrived(call), call))
}

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) call: Call,
    pub(crate) succeeded: bool,
    /// Since the start of the run.
    pub(crate) at: Duration,
}

/// Starts each call at its time, however the others are doing, and hands over each end. One task a call in flight, none
/// for what is over, so that memory does not grow with the length of a run.
pub(crate) async fn drive<S, F>(
    seen: &Seen,
    calls: impl Iterator<Item = Call>,
    mut make: S,
    mut ended: impl FnMut(Ended),
) -> Result<(), BoxError>
where
    S: FnMut(Call) -> F,
    F: Future<Output = bool> + Send + 'static,
{
    let mut running = JoinSet::new();
    for call in calls {
        if call.starts > seen.elapsed() {
            sleep_until(seen.start + call.starts).await;
            while let Some(over) = running.try_join_next() {
                ended(over?);
            }
        }
        let outcome = make(call);
        let seen = seen.clone();
        running.spawn(async move {
            let succeeded = outcome.await;
            let at = seen.elapsed();
            Ended {
                call,
                succeeded,
                at,
            }
        });
    }
    while let Some(over) = running.join_next().await {
        ended(over?);
    }
    Ok(())
}

/// An even load: so many calls a second of all sessions together, who take turns. Each starts on a tick of tokio's
/// timer, so that none is late for the time it was counted by.
pub(crate) fn even(
    a_second: u32,
    length: Duration,
    sessions: u32,
) -> impl Iterator<Item = Call> + Clone {
    (0..)
        .map(move |number| Call {
            number,
            starts: Duration::from_millis((u64::from(number) * 1000).div_ceil(a_second.into())),
            session: number % sessions,
        })
        .take_while(move |call| call.starts < length)
}

/// A number from 0 up to 1, without a state: a hash, so that it depends on no order of events. The finaliser of
/// `SplitMix64`.
pub(crate) fn chance(seed: u64, a: u32, b: u32) -> f64 {
    let bits = [u64::from(a), u64::from(b)]
        .into_iter()
        .fold(mix(seed), |state, word| mix(state ^ word));
    f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

pub(crate) fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The time.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place where the example reads its virtual clock; the benchmarks include it, and forbid nothing"
)]
fn now() -> Instant {
    Instant::now()
}
