//! 3. A fleet: many processes, each with a budget of its own, through one outage.

use std::time::Duration;

use tower::{Layer, Service, ServiceExt};
use tower_composure::{BoxError, Budget, BudgetLayer, Effect, RetryLayer};

use crate::sim::{self, Call, Failed, Seen};
use crate::table::{Chart, Line, Row, Table};

/// Of all processes together.
const CALLS_A_SECOND: u32 = 10_000;
const OUTAGE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(35));
const LENGTH: Duration = Duration::from_secs(40);
const RATIO: f64 = 0.1;
const BURST: u32 = 20;

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) calls_a_second: u32,
    pub(crate) most_processes: u32,
    pub(crate) seed: u64,
}

impl Fleet {
    pub(crate) const fn new(most_processes: u32, seed: u64) -> Self {
        Self {
            calls_a_second: CALLS_A_SECOND,
            most_processes,
            seed,
        }
    }

    pub(crate) async fn run(self) -> Result<Table, BoxError> {
        let mut table = Table {
            scenario: 3,
            name: "fleet",
            title: format!(
                "A fleet: {} calls/s of all processes together, an outage of 30 s, a budget a process",
                self.calls_a_second
            ),
            rows: Vec::new(),
            says: Vec::new(),
            chart: Chart {
                x: "processes, as a power of ten",
                y: "requests a call in the outage",
                shade: None,
                lines: Vec::new(),
            },
        };
        let smaller = std::iter::successors(Some(10_u32), |size| size.checked_mul(10));
        let mut sizes: Vec<u32> = smaller
            .take_while(|size| *size < self.most_processes)
            .collect();
        sizes.push(self.most_processes);
        for processes in sizes {
            self.add(&mut table, processes, BURST).await?;
        }
        self.add(&mut table, self.most_processes, self.small_burst())
            .await?;
        self.explain(&mut table);
        Ok(table)
    }

    /// The burst that adds to an outage no more than the ratio does: a tenth of the calls that one process makes in it.
    fn small_burst(self) -> u32 {
        let outage = OUTAGE.1.saturating_sub(OUTAGE.0);
        let calls = f64::from(self.calls_a_second) * outage.as_secs_f64();
        let tokens = RATIO * calls / f64::from(self.most_processes);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped"
        )]
        let burst = tokens.clamp(1.0, f64::from(BURST)) as u32;
        burst
    }

    async fn add(self, table: &mut Table, processes: u32, burst: u32) -> Result<(), BoxError> {
        let seen = Seen::new();
        let api = sim::server(&seen, |at, _| {
            let down = (OUTAGE.0..OUTAGE.1).contains(&at);
            std::future::ready(if down {
                Err(Failed::Unavailable)
            } else {
                Ok(())
            })
        });
        let clients = (0..processes)
            .map(|process| self.process(api.clone(), process, burst))
            .collect::<Result<Vec<_>, _>>()?;
        let make = |call: Call| {
            let outcome = clients[call.session as usize].clone().oneshot(call);
            async move { outcome.await.is_ok() }
        };
        let calls = sim::even(self.calls_a_second, LENGTH, processes);
        sim::drive(&seen, calls.clone(), make, |_| ()).await?;

        let down = |call: &Call| (OUTAGE.0..OUTAGE.1).contains(&call.starts);
        let outage = calls.filter(down).map(|call| call.number);
        let count = f64::from(u32::try_from(outage.clone().count())?);
        let tokens = f64::from(burst) * f64::from(processes);
        let second = Duration::from_secs(1);
        let first = seen.between(OUTAGE.0, OUTAGE.0 + second);
        table.rows.push(Row::new(
            format!("{processes} processes, burst {burst}"),
            &[
                ("processes", f64::from(processes)),
                ("calls", count),
                ("requests", f64::from(seen.requests(outage.clone()))),
                ("amplification", f64::from(seen.requests(outage)) / count),
                ("bound", 1.0 + RATIO + tokens / count),
                (
                    "first_second",
                    f64::from(first) / f64::from(self.calls_a_second),
                ),
            ],
        ));
        Ok(())
    }

    /// The retry of one process, with its own budget.
    fn process<S>(
        self,
        api: S,
        process: u32,
        burst: u32,
    ) -> Result<impl Service<Call, Error = Failed, Future: Send + 'static> + Clone + use<S>, BoxError>
    where
        S: Service<Call, Response = (), Error = Failed, Future: Send + 'static>
            + Clone
            + Send
            + 'static,
    {
        let retry = RetryLayer::builder(Effect::Read)
            .seed(self.seed.wrapping_add(u64::from(process)))
            .build()?;
        let budget = BudgetLayer::new(Budget::new(RATIO, burst)?);
        Ok(budget.layer(retry.layer(api)))
    }

    fn explain(self, table: &mut Table) {
        let shown = table.rows.len().saturating_sub(1);
        let line = |name: &str, figure: &str| Line {
            name: name.to_owned(),
            points: table
                .rows
                .iter()
                .take(shown)
                .map(|row| (row.get("processes").log10(), row.get(figure)))
                .collect(),
        };
        table.chart.lines = vec![
            line("measured", "amplification"),
            line("1 + ratio + burst x processes / calls", "bound"),
        ];
        let [.., most, small] = table.rows.as_slice() else {
            return;
        };
        table.says = vec![
            "The ratio needs no coordination: if each process adds at most a tenth, the fleet does. Only the burst \
             multiplies.\nIt matters where a process makes few calls: burst x processes against the calls of an outage."
                .to_owned(),
            format!(
                "Set burst to ratio x the calls that one process makes while the outage lasts: here {}, and {:.3} \
                 instead of {:.3} requests a call.",
                self.small_burst(),
                small.get("amplification"),
                most.get("amplification"),
            ),
        ];
    }
}
