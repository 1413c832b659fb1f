//! The load: an open loop, in which a slow answer delays nobody else.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::Full;
use indicatif::ProgressBar;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tower::ServiceExt;
use tower_composure::{BoxError, BreakerOpen};

use crate::client::Kind;
use crate::report::Run;
use crate::scenario::{Scenario, now};
use crate::server::{Charge, Server};
use crate::watch::Watch;

/// How long before the first call a run gets ready.
const LEAD: Duration = Duration::from_millis(50);

/// How a call ended, as its session saw it.
pub(crate) struct Ended {
    pub(crate) succeeded: bool,
    pub(crate) replayed: bool,
    /// From the planned start, so that a late start does not look fast.
    pub(crate) latency: Duration,
}

/// One client through one deploy, with an API of its own.
pub(crate) async fn run(
    kind: Kind,
    scenario: &Scenario,
    progress: &ProgressBar,
) -> Result<Run, BoxError> {
    let start = now() + LEAD;
    let server = Server::start(scenario, start).await?;
    let watch = Arc::new(Watch::default());
    let client = kind.client(scenario, Arc::clone(&watch))?;

    let mut calls = JoinSet::new();
    for call in scenario.plan() {
        let client = client.clone();
        let watch = Arc::clone(&watch);
        let uri = format!("http://{}/orders/{}/charges", server.address, call.order);
        let request = Request::post(uri).body(Full::<Bytes>::default())?;
        let planned = start + call.starts;
        calls.spawn(async move {
            sleep_until(planned).await;
            let outcome = client.oneshot(request).await;
            let charge = charge(outcome, &watch);
            Ended {
                succeeded: charge.is_some(),
                replayed: charge.is_some_and(|charge| charge.replayed),
                latency: now().saturating_duration_since(planned),
            }
        });
    }
    let mut ended = Vec::new();
    while let Some(call) = calls.join_next().await {
        ended.push(call?);
        progress.inc(1);
    }

    // Its idle connections would keep the server from stopping.
    drop(client);
    let ledger = server.stop().await?;
    let in_outage: HashSet<_> = scenario
        .plan()
        .filter(|call| call.in_outage)
        .map(|call| call.order)
        .collect();
    let course = watch.so_far();
    let mut run = Run::new(kind, scenario, &ended, &in_outage, &ledger);
    run.watched(course, start);
    Ok(run)
}

/// The charge, where the call succeeded.
fn charge(outcome: Result<Response<Bytes>, BoxError>, watch: &Watch) -> Option<Charge> {
    match outcome {
        Ok(response) if response.status().is_success() => {
            serde_json::from_slice(response.body()).ok()
        }
        Ok(_) => None,
        Err(error) => {
            if BreakerOpen::find(&*error).is_some() {
                watch.refused("breaker_rejected");
            }
            None
        }
    }
}
