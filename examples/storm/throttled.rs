//! 5. A rate limiter tells 1,000 clients the same `Retry-After`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, BoxError, Budget, BudgetLayer, Effect, Hint, RetryLayer, Verdict, policy_fn,
};

use crate::sim::{self, Call, Failed, Seen};
use crate::table::{Chart, Line, Row, Table};
use crate::tower_policy::TowerPolicy;

const CLIENTS: u32 = 1000;
const HINT: Duration = Duration::from_secs(5);
/// What a client hears that comes too early again.
const AGAIN: Duration = Duration::from_secs(1);
/// What the limiter lets through, once it lets anything through: 100 requests in each 100 ms.
const WINDOW: Duration = Duration::from_millis(100);
const A_WINDOW: u32 = 100;

pub(crate) async fn run(seed: u64) -> Result<Table, BoxError> {
    let mut table = Table {
        scenario: 5,
        name: "throttled",
        title: format!(
            "A rate limiter: 429 with Retry-After {} to {CLIENTS} clients at once",
            HINT.as_secs()
        ),
        rows: Vec::new(),
        says: Vec::new(),
        chart: Chart {
            x: "seconds",
            y: "requests per 100 ms",
            shade: Some((0.0, HINT.as_secs_f64())),
            lines: Vec::new(),
        },
    };
    // One client is one process: each has its own chance and its own budget.
    add(&mut table, BLIND, |api, client| {
        let policy = TowerPolicy::new(seed.wrapping_add(client), None)?;
        Ok(Client::new(
            ServiceBuilder::new().retry(policy).service(api),
        ))
    })
    .await?;
    let ours = |hint: fn(Duration) -> Hint| {
        move |api: Client, client| {
            let policy = policy_fn(
                move |_: &Attempt, outcome: Result<&(), &Failed>| match outcome {
                    Ok(()) => Verdict::Success,
                    Err(Failed::Throttled(wait)) => Verdict::THROTTLED.with_hint(Some(hint(*wait))),
                    Err(Failed::Unavailable) => Verdict::REFUSED,
                },
            )
            .with_effect(Effect::Read);
            let retry = RetryLayer::builder(policy)
                .seed(seed.wrapping_add(client))
                .build()?;
            let budget = BudgetLayer::new(Budget::new(0.1, 20)?);
            Ok(Client::new(budget.layer(retry.layer(api))))
        }
    };
    add(&mut table, EXACT, ours(Hint::exactly)).await?;
    add(&mut table, JITTERED, ours(Hint::after)).await?;
    table.says = vec![
        "Nobody of ours comes before the hint. Taken exactly, all come in the same instant and most are turned away \
         again;"
            .to_owned(),
        format!(
            "with up to a quarter of the hint on top, the fullest 10 ms have {} requests instead of {}, and {} calls \
             succeed instead of {}.",
            table.get(JITTERED, "peak_10ms"),
            table.get(EXACT, "peak_10ms"),
            table.get(JITTERED, "succeeded"),
            table.get(EXACT, "succeeded"),
        ),
    ];
    Ok(table)
}

pub(crate) const BLIND: &str = "tower retry, which reads no hint";
pub(crate) const EXACT: &str = "the hint taken exactly";
pub(crate) const JITTERED: &str = "composure: the hint and its jitter";

type Client = tower::util::BoxCloneService<Call, (), Failed>;

async fn add(
    table: &mut Table,
    name: &str,
    client: impl Fn(Client, u64) -> Result<Client, BoxError>,
) -> Result<(), BoxError> {
    let seen = Seen::new();
    let limiter = limiter(&seen);
    let clients = (0..CLIENTS)
        .map(|nth| client(limiter.clone(), u64::from(nth)))
        .collect::<Result<Vec<_>, _>>()?;
    let make = |call: Call| {
        let outcome = clients[call.session as usize].clone().oneshot(call);
        async move { outcome.await.is_ok() }
    };
    let calls = (0..CLIENTS).map(|client| Call {
        number: client,
        starts: Duration::ZERO,
        session: client,
    });
    let (mut succeeded, mut last) = (0_u32, Duration::ZERO);
    sim::drive(&seen, calls, make, |ended| {
        succeeded += u32::from(ended.succeeded);
        last = last.max(ended.at);
    })
    .await?;
    let end = last + Duration::from_secs(1);
    // After the first bin, in which all of them are told.
    let (told, allowed) = (sim::BIN, HINT);
    let peak = seen.spans(1).into_iter().skip(1).max().unwrap_or(0);
    let after = seen.between(allowed, end);
    table.rows.push(Row::new(
        name,
        &[
            ("before_hint", f64::from(seen.between(told, allowed))),
            ("peak_10ms", f64::from(peak)),
            (
                "first_100ms",
                f64::from(seen.between(allowed, allowed + WINDOW)),
            ),
            ("after_hint", f64::from(after)),
            ("succeeded", f64::from(succeeded)),
            ("failed", f64::from(CLIENTS - succeeded)),
            ("last_end_s", last.as_secs_f64()),
        ],
    ));
    let line = Line::of_spans(name, 0.1, &seen.spans(10));
    table.chart.lines.push(line);
    Ok(())
}

fn limiter(seen: &Seen) -> Client {
    // The window, and what it has let through.
    let let_through = Arc::new(Mutex::new((0_u128, 0_u32)));
    Client::new(sim::server(seen, move |at, _| {
        let mut state = let_through.lock().unwrap_or_else(PoisonError::into_inner);
        let window = at.as_nanos() / WINDOW.as_nanos();
        if state.0 != window {
            *state = (window, 0);
        }
        std::future::ready(if at < HINT {
            Err(Failed::Throttled(HINT.saturating_sub(at)))
        } else if state.1 < A_WINDOW {
            state.1 += 1;
            Ok(())
        } else {
            Err(Failed::Throttled(AGAIN))
        })
    }))
}
