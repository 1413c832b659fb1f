//! The example `payment_deploy`, end to end on loopback: its server and its four clients through a short deploy.

#![cfg(all(not(loom), feature = "http"))]

use std::time::Duration;

use clap::Parser;
use indicatif::ProgressBar;

use crate::args::Args;
use crate::client::Kind;
use crate::report::{Report, Run};
use crate::scenario::Scenario;

#[path = "../examples/payment_deploy/args.rs"]
mod args;
#[path = "../examples/payment_deploy/chart.rs"]
#[expect(
    dead_code,
    reason = "the test draws into memory, the example into a file"
)]
mod chart;
#[path = "../examples/payment_deploy/client.rs"]
mod client;
#[path = "../examples/payment_deploy/load.rs"]
mod load;
#[path = "../examples/payment_deploy/report.rs"]
mod report;
#[path = "../examples/payment_deploy/scenario.rs"]
mod scenario;
#[path = "../examples/payment_deploy/server.rs"]
mod server;
#[path = "../examples/payment_deploy/watch.rs"]
mod watch;

const RATIO: f64 = 0.1;
const BURST: f64 = 20.0;

/// A short deploy, and more lost answers, so that some are lost in a short time too.
fn short() -> Scenario {
    Scenario {
        before: Duration::from_secs(2),
        outage: Duration::from_secs(6),
        after: Duration::from_secs(4),
        lost_per_mille: 60,
        ..Scenario::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_four_clients_do_what_the_example_claims() {
    let scenario = short();
    let mut runs = Vec::new();
    for kind in Kind::ALL {
        let hidden = ProgressBar::hidden();
        runs.push(load::run(kind, &scenario, &hidden).await.unwrap());
    }
    let report = Report { runs };
    let figures = report.to_string();
    println!("{figures}");

    let [none, naive, retry, composure] = report.runs.as_slice() else {
        panic!("four runs");
    };
    for run in &report.runs {
        assert_eq!((run.calls, run.outage_calls), (480, 240), "{}", run.name);
    }
    assert_eq!(none.requests, none.calls);
    assert_eq!((none.charged_twice, none.replayed), (0, 0));

    assert!(naive.amplification > 3.0, "{figures}");
    assert!(naive.charged_twice > 0, "{figures}");
    assert_eq!(naive.replayed, 0);

    assert_eq!(retry.charged_twice, 0);
    assert!(
        retry.amplification <= 1.0 + RATIO + BURST / 240.0,
        "{figures}"
    );
    assert!(retry.refused_by("budget_exhausted") > 0, "{figures}");
    assert!(retry.replayed > 0, "{figures}");
    assert!(retry.succeeded > none.succeeded, "{figures}");

    assert_eq!(composure.charged_twice, 0);
    assert!(composure.refused_by("breaker_rejected") > 0, "{figures}");
    assert!(
        composure.outage_requests < retry.outage_requests,
        "{figures}"
    );

    the_figures_add_up(&report.runs);
    the_output_is_complete(&scenario, &report);
}

fn the_figures_add_up(runs: &[Run]) {
    for run in runs {
        let binned: u32 = run.bins.iter().sum();
        assert_eq!(usize::try_from(binned).ok(), Some(run.requests));
        assert!(run.succeeded <= run.calls && run.replayed <= run.succeeded);
        assert!(run.p50_ms <= run.p99_ms);
    }
}

fn the_output_is_complete(scenario: &Scenario, report: &Report) {
    let table = report.to_string();
    let json = serde_json::to_value(report).ok();
    let svg = chart::svg(scenario, report).ok();
    assert!(table.contains("trades successes for load"));
    for (nth, kind) in Kind::ALL.iter().enumerate() {
        assert!(table.lines().any(|line| line.starts_with(kind.name())));
        let name = json.as_ref().map(|json| &json["runs"][nth]["name"]);
        assert_eq!(name.and_then(|name| name.as_str()), Some(kind.name()));
        assert!(svg.as_ref().is_some_and(|svg| svg.contains(kind.name())));
    }
}

#[test]
fn sessions_share_the_load_evenly_and_each_order_is_placed_once() {
    for sessions in [1, 7, 200, 5000] {
        let scenario = Scenario {
            sessions,
            ..Scenario::default()
        };
        let calls: Vec<_> = scenario.plan().collect();
        assert_eq!(calls.len(), 2400);
        assert_eq!(calls.iter().filter(|call| call.in_outage).count(), 1200);
        assert!(calls.is_sorted_by(|a, b| a.order < b.order && a.starts <= b.starts));
    }
}

#[test]
fn a_session_calls_once_an_interval() {
    let scenario = short();
    let calls: Vec<_> = scenario.plan().collect();
    // 200 sessions at 400 calls/s: each calls every half second.
    let gap = calls[200].starts.saturating_sub(calls[0].starts);
    assert!(gap.abs_diff(Duration::from_millis(500)) < Duration::from_micros(1));
}

#[test]
fn another_seed_is_another_load() {
    let starts = |seed| {
        let scenario = Scenario { seed, ..short() };
        scenario.plan().map(|call| call.starts).collect::<Vec<_>>()
    };
    assert_eq!(starts(1), starts(1));
    assert_ne!(starts(1), starts(2));
}

#[test]
fn arguments_have_the_defaults_of_the_deploy() {
    let args = Args::try_parse_from(["payment_deploy"]).unwrap();
    assert!(!args.json);
    let scenario = args.scenario();
    assert_eq!((scenario.sessions, scenario.scale), (200, 10));
    assert!(!scenario.retry_after);

    let full = Args::try_parse_from(["payment_deploy", "--full", "--seed", "7"]).unwrap();
    assert_eq!(full.scenario().seed, 7);
    assert_eq!(full.scenario().scale, 1);
    assert!(full.scenario().retry_after);
}

#[test]
fn wrong_arguments_are_refused_with_exit_code_2() {
    for (wrong, message) in [
        (["--sessions", "0"], "0 is not in 1..=100000"),
        (["--seed", "x"], "invalid digit"),
        (["--speed", "2"], "unexpected argument '--speed'"),
    ] {
        let error = Args::try_parse_from(["payment_deploy", wrong[0], wrong[1]]).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{wrong:?}");
        assert!(error.to_string().contains(message), "{error}");
    }
}
