//! 2. An overload that outlives its cause: a server of 300 requests/s under 280 calls/s stops for 10 s.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tower::retry::budget::TpsBudget;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{BoxError, Budget, CircuitBreaker, DeadlineLayer, Effect, Stack};

use crate::sim::{self, Call, Failed, Seen, slot};
use crate::table::{Chart, Line, Row, Table};
use crate::tower_policy::TowerPolicy;

const CAPACITY: u32 = 300;
const LOAD: u32 = 280;
/// What the server lets wait: two seconds of work, and a client waits for one.
const QUEUE: u32 = 600;
const PATIENCE: Duration = Duration::from_secs(1);
const HICCUP: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(20));
const LENGTH: Duration = Duration::from_secs(80);
/// The longest that a call of the preset may take.
const CALL: Duration = Duration::from_secs(8);
/// Recovered is where so many of the calls of each of the next ten seconds succeed.
const WELL: f64 = 0.95;

pub(crate) async fn run(seed: u64) -> Result<Table, BoxError> {
    let mut table = Table {
        scenario: 2,
        name: "overload",
        title: format!(
            "An overload: {CAPACITY} requests/s of capacity, {LOAD} calls/s, and a hiccup of 10 s"
        ),
        rows: Vec::new(),
        says: Vec::new(),
        chart: Chart {
            x: "seconds",
            y: "calls a second that succeed",
            shade: Some((HICCUP.0.as_secs_f64(), HICCUP.1.as_secs_f64())),
            lines: Vec::new(),
        },
    };
    let attempt = DeadlineLayer::attempt(PATIENCE);
    add(&mut table, "no retry", |queue| attempt.layer(queue)).await?;
    let tower = |budget| TowerPolicy::new(seed, budget);
    let retry = |policy| ServiceBuilder::new().retry(policy).timeout(PATIENCE);
    let layers = retry(tower(None)?);
    add(&mut table, "tower retry", |queue| layers.service(queue)).await?;
    let layers = retry(tower(Some(TpsBudget::new(
        Duration::from_secs(10),
        2,
        0.1,
    )))?);
    let name = "tower retry + TpsBudget(10 s, 2/s, 0.1)";
    add(&mut table, name, |queue| layers.service(queue)).await?;

    let stack = || {
        let stack = Stack::builder(Effect::Read).seed(seed);
        stack.attempt_deadline(PATIENCE)
    };
    let layer = stack().no_breaker().no_budget().build()?;
    add(&mut table, UNBOUNDED, |queue| layer.layer(queue)).await?;
    let layer = stack().no_breaker().budget(Budget::new(0.1, 20)?).build()?;
    add(&mut table, BOUNDED, |queue| layer.layer(queue)).await?;
    let breaker = CircuitBreaker::builder()
        .seed(seed)
        .probe_lease(CALL)
        .build()?;
    let layer = stack().breaker(breaker).build()?;
    add(&mut table, STACK, |queue| layer.layer(queue)).await?;

    table.says = explain(&table);
    Ok(table)
}

pub(crate) const UNBOUNDED: &str = "composure, no budget";
pub(crate) const BOUNDED: &str = "composure, no breaker";
pub(crate) const STACK: &str = "composure";

fn explain(table: &Table) -> Vec<String> {
    let recovered = |row| {
        let seconds = table.get(row, "recovered_after_s");
        if seconds.is_infinite() {
            "never recovers".to_owned()
        } else {
            format!("recovers {seconds:.0} s after the hiccup")
        }
    };
    vec![
        format!(
            "The queue holds 2 s of work and clients wait for {PATIENCE:?}, so a full queue is work that nobody waits for. \
             Loads are requests a second."
        ),
        format!(
            "Without a budget the retries keep it full: {:.0} requests/s, and it {}.",
            table.get(UNBOUNDED, "load_after"),
            recovered(UNBOUNDED),
        ),
        format!(
            "With the budget it {}: the load falls to that of the calls, which the server can bear.",
            recovered(BOUNDED),
        ),
        format!(
            "With the breaker too it {}: the queue empties while nobody calls.",
            recovered(STACK)
        ),
    ]
}

async fn add<S>(
    table: &mut Table,
    name: &str,
    client: impl FnOnce(Queue) -> S,
) -> Result<(), BoxError>
where
    S: Service<Call, Future: Send> + Clone + Send + 'static,
{
    let seen = Seen::new();
    let client = client(queue(&seen));
    let (mut started, mut succeeded) = (Vec::<u32>::new(), Vec::<u32>::new());
    let make = |call| {
        let outcome = client.clone().oneshot(call);
        async move { outcome.await.is_ok() }
    };
    // The load goes on for a while, so that the last calls that count meet it too.
    let calls = sim::even(LOAD, LENGTH + CALL, LOAD);
    sim::drive(&seen, calls, make, |ended| {
        let second = usize::try_from(ended.call.starts.as_secs()).unwrap_or(0);
        *slot(&mut started, second) += 1;
        *slot(&mut succeeded, second) += u32::from(ended.succeeded);
    })
    .await?;

    let seconds = usize::try_from(LENGTH.as_secs())?;
    started.truncate(seconds);
    succeeded.truncate(seconds);
    let (after, end) = (HICCUP.1 + Duration::from_secs(5), LENGTH);
    let span = end.saturating_sub(after).as_secs_f64();
    let last: u32 = succeeded.iter().rev().take(30).sum();
    let of: u32 = started.iter().rev().take(30).sum();
    table.rows.push(Row::new(
        name,
        &[
            (
                "load_in_hiccup",
                f64::from(seen.between(HICCUP.0, HICCUP.1)) / 10.0,
            ),
            ("load_after", f64::from(seen.between(after, end)) / span),
            ("recovered_after_s", recovered(&started, &succeeded)),
            ("succeed_in_last_30s", f64::from(last) / f64::from(of)),
        ],
    ));
    let line = Line::of_spans(name, 1.0, &succeeded);
    table.chart.lines.push(line);
    Ok(())
}

/// Seconds from the end of the hiccup until all is well for ten seconds; infinity where it never is.
fn recovered(started: &[u32], succeeded: &[u32]) -> f64 {
    let end = usize::try_from(HICCUP.1.as_secs()).unwrap_or(0);
    let well: Vec<bool> = started
        .iter()
        .zip(succeeded)
        .skip(end)
        .map(|(started, succeeded)| f64::from(*succeeded) >= WELL * f64::from(*started))
        .collect();
    let first = well
        .windows(10)
        .position(|ten| ten.iter().all(|well| *well));
    let seconds = first.and_then(|second| u32::try_from(second).ok());
    seconds.map_or(f64::INFINITY, f64::from)
}

/// A server that works one request off after the other, including those whose clients have left, and refuses what finds
/// the queue full.
type Queue = tower::util::BoxCloneService<Call, (), Failed>;

fn queue(seen: &Seen) -> Queue {
    // When the work that is there is done.
    let done = Arc::new(Mutex::new(Duration::ZERO));
    Queue::new(sim::server(seen, move |at, _| enqueue(&done, at)))
}

fn enqueue(
    done: &Mutex<Duration>,
    at: Duration,
) -> impl Future<Output = Result<(), Failed>> + use<> {
    let each = Duration::from_secs(1) / CAPACITY;
    let stalled = (HICCUP.0..HICCUP.1).contains(&at);
    // While it stalls the work of all who wait begins at the end of the hiccup.
    let works_from = if stalled { HICCUP.1 } else { at };
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    let begins = works_from.max(*done);
    let admitted = begins.saturating_sub(works_from) < each * QUEUE;
    if admitted {
        *done = begins + each;
    }
    let wait = done.saturating_sub(at);
    async move {
        if !admitted {
            return Err(Failed::Unavailable);
        }
        sleep(wait).await;
        Ok(())
    }
}
