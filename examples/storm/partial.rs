//! 6. A partial outage: three attempts in ten fail, for a minute.

use std::time::Duration;

use tower::{Layer, ServiceExt};
use tower_composure::{BoxError, Budget, BudgetLayer, Effect, RetryLayer};

use crate::sim::{self, Failed, Seen};
use crate::table::{Chart, Line, Row, Table};

const FAILS: f64 = 0.3;
const CALLS_A_SECOND: u32 = 200;
const LENGTH: Duration = Duration::from_secs(60);
const BURST: u32 = 20;
const RATIOS: [f64; 8] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0];

pub(crate) async fn run(seed: u64) -> Result<Table, BoxError> {
    let mut table = Table {
        scenario: 6,
        name: "partial",
        title: "A partial outage: 30 % of the attempts fail, by the budget's ratio".to_owned(),
        rows: Vec::new(),
        says: vec![
            "recovered is the share of the calls whose first attempt failed and which succeeded all the same. In a \
             total outage each of\nthese ratios adds the burst and no more; in a partial one the ratio is what a retry \
             may cost."
                .to_owned(),
        ],
        chart: Chart {
            x: "ratio",
            y: "share, and requests a call",
            shade: None,
            lines: Vec::new(),
        },
    };
    for ratio in RATIOS {
        table.rows.push(row(seed, ratio).await?);
    }
    let line = |name: &str, figure: &str| Line {
        name: name.to_owned(),
        points: RATIOS
            .into_iter()
            .zip(&table.rows)
            .map(|(ratio, row)| (ratio, row.get(figure)))
            .collect(),
    };
    table.chart.lines = vec![
        line("requests a call", "amplification"),
        line("recovered share", "recovered"),
    ];
    Ok(table)
}

async fn row(seed: u64, ratio: f64) -> Result<Row, BoxError> {
    let api_seen = Seen::new();
    let log = api_seen.clone();
    // The same attempts of the same calls fail at each ratio.
    let api = sim::server(&api_seen, move |_, call| {
        let nth = u32::from(log.requests_of(call.number));
        let fails = sim::chance(seed, call.number, nth) < FAILS;
        std::future::ready(if fails {
            Err(Failed::Unavailable)
        } else {
            Ok(())
        })
    });
    let retry = RetryLayer::builder(Effect::Read).seed(seed).build()?;
    let client = BudgetLayer::new(Budget::new(ratio, BURST)?).layer(retry.layer(api));
    let make = |call| {
        let outcome = client.clone().oneshot(call);
        async move { outcome.await.is_ok() }
    };
    let (mut failed, mut recovered) = (0_u32, 0_u32);
    let calls = sim::even(CALLS_A_SECOND, LENGTH, 1);
    sim::drive(&api_seen, calls.clone(), make, |ended| {
        failed += u32::from(!ended.succeeded);
        recovered += u32::from(ended.succeeded && api_seen.requests_of(ended.call.number) > 1);
    })
    .await?;
    let count = u32::try_from(calls.clone().count())?;
    let requests = f64::from(api_seen.requests(calls.map(|call| call.number)));
    let (count, trouble) = (f64::from(count), f64::from(failed + recovered));
    Ok(Row::new(
        format!("ratio {ratio}"),
        &[
            ("amplification", requests / count),
            (
                "bound",
                1.0 + ratio * (count - f64::from(failed)) / count + f64::from(BURST) / count,
            ),
            ("recovered", f64::from(recovered) / trouble),
            ("failed", f64::from(failed) / count),
        ],
    ))
}
