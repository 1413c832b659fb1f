//! 4. Three layers that retry, each of them three attempts, over a dependency that is down.

use std::time::Duration;

use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{BoxError, ConfigError, Effect, RetryLayer};

use crate::sim::{self, Call, Failed, Seen};
use crate::table::{Chart, Line, Row, Table};
use crate::tower_policy::TowerPolicy;

const ATTEMPTS: u32 = 3;
const CALLS_A_SECOND: u32 = 40;
const LENGTH: Duration = Duration::from_secs(10);

pub(crate) async fn run(seed: u64) -> Result<Table, BoxError> {
    let mut table = Table {
        scenario: 4,
        name: "layers",
        title: format!(
            "Three layers that retry, {ATTEMPTS} attempts each, over a dependency that is down"
        ),
        rows: Vec::new(),
        says: Vec::new(),
        chart: Chart {
            x: "seconds",
            y: "requests a second",
            shade: None,
            lines: Vec::new(),
        },
    };
    let policy = TowerPolicy::new(seed, None)?.attempts(ATTEMPTS);
    let stacked = ServiceBuilder::new()
        .retry(policy.clone())
        .retry(policy.clone())
        .retry(policy);
    add(&mut table, "tower retry", |api| stacked.service(api)).await?;
    let layer = |nested, nth: u64| -> Result<_, ConfigError> {
        let retry = RetryLayer::builder(Effect::Read).max_attempts(ATTEMPTS);
        retry.nested(nested).seed(seed.wrapping_add(nth)).build()
    };
    for (name, nested) in [("composure, nested(true)", true), ("composure", false)] {
        let [a, b, c] = [layer(nested, 0)?, layer(nested, 1)?, layer(nested, 2)?];
        add(&mut table, name, |api| a.layer(b.layer(c.layer(api)))).await?;
    }
    table.says = vec![
        "A retry layer in the scope of another one makes one attempt, so that a call makes as many as its outermost \
         owner allows."
            .to_owned(),
    ];
    Ok(table)
}

async fn add<S>(
    table: &mut Table,
    name: &str,
    client: impl FnOnce(Down) -> S,
) -> Result<(), BoxError>
where
    S: Service<Call, Future: Send> + Clone + Send + 'static,
{
    let seen = Seen::new();
    let answer = |_, _| std::future::ready(Err(Failed::Unavailable));
    let client = client(Down::new(sim::server(&seen, answer)));
    let make = |call| {
        let outcome = client.clone().oneshot(call);
        async move { outcome.await.is_ok() }
    };
    let (mut last, mut failed) = (Duration::ZERO, 0_u32);
    let calls = sim::even(CALLS_A_SECOND, LENGTH, 1);
    sim::drive(&seen, calls.clone(), make, |ended| {
        last = last.max(ended.at.saturating_sub(ended.call.starts));
        failed += u32::from(!ended.succeeded);
    })
    .await?;
    let requests = f64::from(seen.requests(calls.map(|call| call.number)));
    table.rows.push(Row::new(
        name,
        &[
            ("calls", f64::from(failed)),
            ("requests", requests),
            ("requests_a_call", requests / f64::from(failed)),
            ("longest_call_s", last.as_secs_f64()),
        ],
    ));
    table
        .chart
        .lines
        .push(Line::of_spans(name, 1.0, &seen.spans(100)));
    Ok(())
}

type Down = tower::util::BoxCloneService<Call, (), Failed>;
