//! 1. The deploy: 30 s of 503 while 200 sessions call once a second.

use std::time::Duration;

use tokio::time::sleep;
use tower::retry::budget::TpsBudget;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{BoxError, Budget, CircuitBreaker, Effect, Stack};

use crate::sim::{self, Call, Failed, Seen};
use crate::table::{Chart, Line, Row, Table};
use crate::tower_policy::TowerPolicy;

const OUTAGE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(40));
const LENGTH: Duration = Duration::from_secs(60);
const LATENCY: Duration = Duration::from_millis(20);

/// The load of all rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deploy {
    pub(crate) sessions: u32,
    pub(crate) seed: u64,
}

/// This crate and tower.
pub(crate) async fn run(deploy: Deploy) -> Result<Table, BoxError> {
    let mut table = deploy.table();
    deploy.add(&mut table, "no retry", |api| api).await?;

    let tower = |budget: Option<TpsBudget>| TowerPolicy::new(deploy.seed, budget);
    let policy = tower(None)?;
    let retry = |api| ServiceBuilder::new().retry(policy).service(api);
    deploy.add(&mut table, "tower retry", retry).await?;
    let policy = tower(Some(TpsBudget::new(Duration::from_secs(10), 2, 0.1)))?;
    let retry = |api| ServiceBuilder::new().retry(policy).service(api);
    let name = "tower retry + TpsBudget(10 s, 2/s, 0.1)";
    deploy.add(&mut table, name, retry).await?;

    let stack = || Stack::builder(Effect::Read).seed(deploy.seed);
    let layer = stack().no_breaker().no_budget().build()?;
    let name = "composure, no budget";
    deploy.add(&mut table, name, |api| layer.layer(api)).await?;
    let layer = stack().no_breaker().budget(Budget::new(0.1, 20)?).build()?;
    deploy
        .add(&mut table, RETRY, |api| layer.layer(api))
        .await?;
    let breaker = CircuitBreaker::builder()
        .seed(deploy.seed)
        .probe_lease(Duration::from_secs(8))
        .build()?;
    let layer = stack().breaker(breaker).build()?;
    deploy
        .add(&mut table, STACK, |api| layer.layer(api))
        .await?;

    explain(&mut table);
    Ok(table)
}

pub(crate) const RETRY: &str = "composure, no breaker";
pub(crate) const STACK: &str = "composure";

impl Deploy {
    pub(crate) fn table(self) -> Table {
        Table {
            scenario: 1,
            name: "deploy",
            title: format!(
                "A deploy: {} sessions, a call a second each, and 30 s of 503",
                self.sessions
            ),
            rows: Vec::new(),
            says: Vec::new(),
            chart: Chart {
                x: "seconds",
                y: "requests a second",
                shade: Some((OUTAGE.0.as_secs_f64(), OUTAGE.1.as_secs_f64())),
                lines: Vec::new(),
            },
        }
    }

    fn calls(self) -> impl Iterator<Item = Call> + Clone {
        sim::even(self.sessions, LENGTH, self.sessions)
    }

    /// One client through the deploy.
    pub(crate) async fn add<S>(
        self,
        table: &mut Table,
        name: &str,
        client: impl FnOnce(Api) -> S,
    ) -> Result<(), BoxError>
    where
        S: Service<Call, Future: Send> + Clone + Send + 'static,
    {
        let seen = Seen::new();
        let client = client(api(&seen));
        let (mut failed, mut recovered) = (0_u32, 0_u32);
        let make = |call| {
            let outcome = client.clone().oneshot(call);
            async move { outcome.await.is_ok() }
        };
        sim::drive(&seen, self.calls(), make, |ended| {
            failed += u32::from(!ended.succeeded);
            recovered += u32::from(ended.succeeded && seen.requests_of(ended.call.number) > 1);
        })
        .await?;

        let in_outage = |call: &Call| (OUTAGE.0..OUTAGE.1).contains(&call.starts);
        let outage = self.calls().filter(in_outage).map(|call| call.number);
        let calls = u32::try_from(outage.clone().count())?;
        let normal = f64::from(self.sessions);
        let second = Duration::from_secs(1);
        let first = seen.between(OUTAGE.0, OUTAGE.0 + second);
        let after = seen.between(OUTAGE.1, OUTAGE.1 + second * 3);
        let peak = seen.spans(10).into_iter().max().unwrap_or(0);
        table.rows.push(Row::new(
            name,
            &[
                ("calls", f64::from(calls)),
                ("requests", f64::from(seen.requests(outage.clone()))),
                (
                    "amplification",
                    f64::from(seen.requests(outage)) / f64::from(calls),
                ),
                ("first_second", f64::from(first) / normal),
                ("peak_100ms", f64::from(peak) / (normal / 10.0)),
                ("3s_after", f64::from(after) / (normal * 3.0)),
                ("recovered", f64::from(recovered)),
                ("failed", f64::from(failed)),
            ],
        ));
        let line = Line::of_spans(name, 0.5, &doubled(&seen.spans(50)));
        table.chart.lines.push(line);
        Ok(())
    }
}

fn explain(table: &mut Table) {
    table.says = vec![
        "calls and requests are those of the outage; first second, peak and 3s after are the load at these times, \
         relative to a normal one."
            .to_owned(),
        format!(
            "Without a budget an outage gets {:.1} requests a call, with it {:.3}: the burst of 20 and no more.",
            table.get("composure, no budget", "amplification"),
            table.get(RETRY, "amplification"),
        ),
        format!(
            "The breaker keeps calls away: {} requests. It stays open for a while after the API is back, which \
             fails {} calls more.",
            table.get(STACK, "requests"),
            table.get(STACK, "failed") - table.get(RETRY, "failed"),
        ),
        "tower-resilience in the same table: cargo run --release --bin storm_peers, in benches/.".to_owned(),
    ];
}

/// Half a second of requests, a second.
fn doubled(spans: &[u32]) -> Vec<u32> {
    spans.iter().map(|count| count * 2).collect()
}

/// The API: a type, so that clients can be made by a closure.
pub(crate) type Api = tower::util::BoxCloneService<Call, (), Failed>;

fn api(seen: &Seen) -> Api {
    let answer = |at: Duration, _| async move {
        sleep(LATENCY).await;
        if (OUTAGE.0..OUTAGE.1).contains(&at) {
            return Err(Failed::Unavailable);
        }
        Ok(())
    };
    Api::new(sim::server(seen, answer))
}
