//! The example `storm`: the claims of each of its scenarios, on small sizes where size costs time.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]
#![expect(clippy::float_cmp, reason = "counts, and quotients of the same counts")]

use clap::Parser;

use crate::args::Args;
use crate::deploy::Deploy;
use crate::fleet::Fleet;
use crate::table::Table;

#[path = "../examples/storm/args.rs"]
mod args;
#[path = "../examples/storm/chart.rs"]
#[expect(
    dead_code,
    reason = "the test draws into memory, the example into a file"
)]
mod chart;
#[path = "../examples/storm/deploy.rs"]
mod deploy;
#[path = "../examples/storm/fleet.rs"]
mod fleet;
#[path = "../examples/storm/layers.rs"]
mod layers;
#[path = "../examples/storm/overload.rs"]
mod overload;
#[path = "../examples/storm/partial.rs"]
mod partial;
#[path = "../examples/storm/sim.rs"]
mod sim;
#[path = "../examples/storm/table.rs"]
mod table;
#[path = "../examples/storm/throttled.rs"]
mod throttled;
#[path = "../examples/storm/tower_policy.rs"]
mod tower_policy;

const SEEDS: [u64; 3] = [1, 2, 42];

/// Of any scenario: each row has a line in the table and in the JSON, and each line of the chart is drawn.
fn the_output_is_complete(table: &Table) {
    let text = table.to_string();
    let json = table.json();
    assert_eq!(json["scenario"], table.scenario);
    assert_eq!(json["rows"].as_array().unwrap().len(), table.rows.len());
    for (row, json) in table.rows.iter().zip(json["rows"].as_array().unwrap()) {
        assert!(text.lines().any(|line| line.starts_with(&row.name)));
        assert_eq!(json["row"], row.name.as_str());
        assert_eq!(json.as_object().unwrap().len(), row.figures.len() + 1);
        assert!(row.figures.iter().all(|(_, value)| !value.is_nan()));
    }
    let svg = chart::svg(table).unwrap();
    for line in &table.chart.lines {
        assert!(svg.contains(&line.name), "{}", line.name);
    }
    assert!(!table.says.is_empty() && !text.contains("NaN"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_deploy_gets_its_calls_and_the_burst() {
    for seed in SEEDS {
        let deploy = Deploy { sessions: 50, seed };
        let table = deploy::run(deploy).await.unwrap();
        the_output_is_complete(&table);
        let get = |row, figure| table.get(row, figure);
        assert_eq!(get("no retry", "calls"), 1500.0, "{table}");
        assert_eq!(get("no retry", "amplification"), 1.0, "{table}");
        assert!(get("tower retry", "amplification") > 3.5, "{table}");
        assert!(
            get("composure, no budget", "amplification") > 3.5,
            "{table}"
        );

        // 20 tokens, and not one success to earn another.
        assert_eq!(get(deploy::RETRY, "requests"), 1520.0, "{table}");
        assert!(get(deploy::RETRY, "3s_after") < 1.1, "{table}");
        assert!(get(deploy::STACK, "requests") < 300.0, "{table}");
        let lost = get(deploy::STACK, "failed") - get(deploy::RETRY, "failed");
        assert!((0.0..=1000.0).contains(&lost), "{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overload_ends_only_where_a_budget_bounds_the_retries() {
    let table = overload::run(42).await.unwrap();
    the_output_is_complete(&table);
    let recovered = |row| table.get(row, "recovered_after_s");
    let last = |row| table.get(row, "succeed_in_last_30s");
    for row in ["tower retry", overload::UNBOUNDED] {
        assert!(recovered(row).is_infinite(), "{table}");
        assert!(last(row) < 0.2, "{table}");
        assert!(table.get(row, "load_after") > 700.0, "{table}");
    }
    for row in ["no retry", overload::BOUNDED, overload::STACK] {
        assert!(recovered(row) <= 30.0, "{table}");
        assert_eq!(last(row), 1.0, "{table}");
    }
    assert!(recovered(overload::STACK) <= recovered(overload::BOUNDED));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_adds_the_ratio_and_each_burst() {
    let fleet = Fleet {
        calls_a_second: 200,
        ..Fleet::new(200, 42)
    };
    let table = fleet.run().await.unwrap();
    the_output_is_complete(&table);
    let names: Vec<_> = table.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "10 processes, burst 20",
            "100 processes, burst 20",
            "200 processes, burst 20",
            "200 processes, burst 3"
        ]
    );
    for row in &table.rows {
        assert!(row.get("amplification") <= row.get("bound"), "{table}");
        assert_eq!(row.get("calls"), 6000.0);
    }
    // All of the burst is spent, and nothing else.
    assert_eq!(table.rows[0].get("requests"), 6000.0 + 200.0, "{table}");
    assert_eq!(table.rows[1].get("requests"), 6000.0 + 2000.0, "{table}");
    assert_eq!(table.rows[3].get("requests"), 6000.0 + 600.0, "{table}");
}

#[tokio::test(start_paused = true)]
async fn three_layers_of_three_attempts_are_three_requests() {
    let table = layers::run(42).await.unwrap();
    the_output_is_complete(&table);
    let a_call = |row| table.get(row, "requests_a_call");
    assert_eq!(a_call("tower retry"), 27.0, "{table}");
    assert_eq!(a_call("composure, nested(true)"), 27.0, "{table}");
    assert_eq!(a_call("composure"), 3.0, "{table}");
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_a_floor_and_its_jitter_spreads() {
    for seed in SEEDS {
        let table = throttled::run(seed).await.unwrap();
        the_output_is_complete(&table);
        let get = |row, figure| table.get(row, figure);
        assert!(get(throttled::BLIND, "before_hint") > 1000.0, "{table}");
        for row in [throttled::EXACT, throttled::JITTERED] {
            assert_eq!(get(row, "before_hint"), 0.0, "{table}");
        }
        assert_eq!(get(throttled::EXACT, "peak_10ms"), 1000.0, "{table}");
        assert_eq!(get(throttled::EXACT, "succeeded"), 300.0, "{table}");
        assert!(get(throttled::JITTERED, "peak_10ms") < 30.0, "{table}");
        assert!(get(throttled::JITTERED, "first_100ms") < 130.0, "{table}");
        assert!(get(throttled::JITTERED, "succeeded") > 990.0, "{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_ratio_is_what_recovery_costs() {
    let table = partial::run(42).await.unwrap();
    the_output_is_complete(&table);
    for row in &table.rows {
        assert!(row.get("amplification") <= row.get("bound"), "{table}");
    }
    for pair in table.rows.windows(2) {
        assert!(pair[0].get("recovered") <= pair[1].get("recovered") + 0.01);
        assert!(pair[0].get("amplification") <= pair[1].get("amplification") + 0.01);
    }
    let get = |row, figure| table.get(row, figure);
    assert!(get("ratio 0", "amplification") < 1.01, "{table}");
    assert!(get("ratio 0", "recovered") < 0.02, "{table}");
    // A tenth of the successes, against three calls in ten that need a retry.
    assert!(
        (0.15..0.25).contains(&get("ratio 0.1", "recovered")),
        "{table}"
    );
    assert!(get("ratio 1", "recovered") > 0.95, "{table}");
}

#[tokio::test(start_paused = true)]
async fn a_seed_gives_the_same_figures_each_time() {
    let json = async |seed| {
        let deploy = Deploy { sessions: 20, seed };
        let deploy = deploy::run(deploy).await.unwrap().json();
        let throttled = throttled::run(seed).await.unwrap().json();
        format!("{deploy}{throttled}")
    };
    assert_eq!(json(7).await, json(7).await);
    assert_ne!(json(7).await, json(8).await);
}

#[test]
fn arguments_have_the_defaults_of_the_document() {
    let args = Args::try_parse_from(["storm"]).unwrap();
    assert_eq!((args.sessions, args.processes), (200, 10_000));
    assert_eq!(args.scenarios(), [1, 2, 3, 4, 5, 6]);
    assert!(!args.json);
    let args = ["storm", "--scenario", "3", "--seed", "7", "--json"];
    let args = Args::try_parse_from(args).unwrap();
    assert_eq!((args.scenarios(), args.seed), (vec![3], 7));
}

#[test]
fn wrong_arguments_are_refused_with_exit_code_2() {
    for (wrong, message) in [
        (["--sessions", "0"], "0 is not in 1..=10000"),
        (["--processes", "1000000"], "1000000 is not in 1..=100000"),
        (["--scenario", "7"], "7 is not in 1..=6"),
        (["--speed", "2"], "unexpected argument '--speed'"),
    ] {
        let error = Args::try_parse_from(["storm", wrong[0], wrong[1]]).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{wrong:?}");
        assert!(error.to_string().contains(message), "{error}");
    }
}
