//! Who calls, gives up, and changes things meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::sleep;
use tower::{BoxError, Service, ServiceExt};
use tower_composure::circuit_breaker::CircuitBreakerBuilder;
use tower_composure::{CircuitBreaker, CircuitState, RetryMode, RetrySwitch};

use crate::service::{Ask, next};

const CALLERS: u64 = 64;
const MS: Duration = Duration::from_millis(1);

/// The wakers that somebody holds: a timer in the wheel, a place in a queue. Where nobody waits any more there are none.
#[derive(Clone, Default)]
pub struct Ears(Arc<AtomicU64>);

struct Ear {
    task: Waker,
    all: Ears,
}

impl Ears {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn waker(&self, task: &Waker) -> Waker {
        self.0.fetch_add(1, Ordering::SeqCst);
        Waker::from(Arc::new(Ear {
            task: task.clone(),
            all: self.clone(),
        }))
    }
}

impl Wake for Ear {
    fn wake(self: Arc<Self>) {
        self.task.wake_by_ref();
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.all.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How long a caller waits.
#[derive(Clone, Copy)]
enum Patience {
    /// For as long as it takes.
    Endless,
    /// So many polls, each after something has happened.
    Polls(u64),
    /// So many polls, one after the other whatever happens.
    Hasty(u64),
}

/// Polls a future for as long as it is worth it, and then drops it.
async fn give_up<F: Future>(future: F, mut patience: Patience, ears: Ears) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut ear = None;
    poll_fn(move |cx| {
        match &mut patience {
            Patience::Endless => {}
            Patience::Polls(0) | Patience::Hasty(0) => return Poll::Ready(None),
            Patience::Polls(left) | Patience::Hasty(left) => *left -= 1,
        }
        if matches!(patience, Patience::Hasty(_)) {
            cx.waker().wake_by_ref();
        }
        let ear = ear.get_or_insert_with(|| ears.waker(cx.waker()));
        future
            .as_mut()
            .poll(&mut Context::from_waker(ear))
            .map(Some)
    })
    .await
}

/// Calls one stack whose waits are short, and now and then another one whose waits nobody waits for.
async fn caller<S, L>(mut short: S, mut long: L, calls: u64, mut seed: u64, ears: Ears)
where
    S: Service<Ask, Response = (), Error = BoxError, Future: Send + 'static>,
    L: Service<Ask, Response = (), Error = BoxError, Future: Send + 'static>,
{
    for _ in 0..calls {
        let number = next(&mut seed);
        let polls = (number >> 3) % 6;
        let (ask, ears) = (Ask(number), ears.clone());
        // On a task of its own, which a panic ends.
        let call = if number & 3 == 3 {
            let called = long.ready().await.unwrap().call(ask);
            tokio::spawn(give_up(called, Patience::Hasty(polls), ears))
        } else {
            let patience = if number & 4 == 0 {
                Patience::Endless
            } else {
                Patience::Polls(polls)
            };
            let called = short.ready().await.unwrap().call(ask);
            tokio::spawn(give_up(called, patience, ears))
        };
        let _ = call.await;
    }
}

/// All callers make their calls at once.
pub async fn all_call<S, L>(short: &S, long: &L, calls: u64, seed: u64, ears: &Ears)
where
    S: Service<Ask, Response = (), Error = BoxError, Future: Send + 'static>
        + Clone
        + Send
        + 'static,
    L: Service<Ask, Response = (), Error = BoxError, Future: Send + 'static>
        + Clone
        + Send
        + 'static,
{
    let callers = (0..CALLERS).map(|number| {
        let share = calls / CALLERS + u64::from(number < calls % CALLERS);
        let (short, long) = (short.clone(), long.clone());
        tokio::spawn(caller(short, long, share, seed + number, ears.clone()))
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

/// Changes everything that can be changed while it runs.
pub async fn operator(breaker: CircuitBreaker, switch: RetrySwitch, mut seed: u64) {
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

pub fn settings() -> CircuitBreakerBuilder {
    CircuitBreaker::builder()
        .window(50)
        .minimum_calls(20)
        .failure_rate(0.3)
        .open_time(MS)
        .max_open_time(4 * MS)
        .probe_lease(Duration::from_secs(3600))
        .seed(1)
}
