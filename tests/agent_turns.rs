//! The example `agent_turns`: its claims, on a shorter run.

#![cfg(all(not(loom), feature = "http", feature = "tool", feature = "fault"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

use clap::Parser;

use crate::args::Args;
use crate::report::{OfTool, Report};

#[path = "../examples/agent_turns/api.rs"]
mod api;
#[path = "../examples/agent_turns/args.rs"]
mod args;
#[path = "../examples/agent_turns/model.rs"]
mod model;
#[path = "../examples/agent_turns/report.rs"]
mod report;
#[path = "../examples/agent_turns/tools.rs"]
mod tools;

async fn report(arguments: &[&str]) -> Report {
    let arguments = [&["agent_turns"], arguments].concat();
    let args = Args::try_parse_from(arguments).unwrap();
    model::run(&args).await.unwrap()
}

fn refused(tool: &OfTool, reason: &str) -> u32 {
    tool.refused.get(reason).copied().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn no_order_is_charged_twice_and_no_receipt_sent_twice() {
    for seed in ["1", "2", "3"] {
        let report = report(&["--sessions", "60", "--seed", seed]).await;
        let figures = report.to_string();
        assert_eq!(report.charged_twice, 0, "{figures}");
        assert_eq!(report.receipts_twice, 0, "{figures}");
        assert!(report.charged > 170 && report.charged <= 180, "{figures}");
        assert!(report.replayed > 0, "{figures}");

        let find = &report.tools["find_charge"];
        let charge = &report.tools["charge"];
        let receipt = &report.tools["send_receipt"];
        assert_eq!(
            [find.effect, charge.effect, receipt.effect],
            ["read", "idempotent_write", "write"]
        );
        for (name, tool) in &report.tools {
            assert_eq!(tool.calls, tool.told.values().sum::<u32>(), "{name}");
            let retries = tool.attempts + refused(tool, "breaker_rejected") - tool.calls;
            assert_eq!(tool.retried, retries, "{name}");
        }
        // Reads and keyed writes are never stopped for their safety; an unkeyed write is, and only then.
        assert_eq!(refused(find, "outcome_unknown"), 0, "{figures}");
        assert_eq!(refused(charge, "outcome_unknown"), 0, "{figures}");
        let told = receipt.told.get("OUTCOME_UNKNOWN check_state");
        assert_eq!(
            refused(receipt, "outcome_unknown"),
            told.copied().unwrap_or(0)
        );
        // A write is retried where the 503 says that nothing was done.
        for tool in [find, charge, receipt] {
            assert!(tool.retried > 0, "{figures}");
        }
        // The breaker keeps the outage from most of the calls, and tells the model when to come back.
        assert!(refused(find, "breaker_rejected") > 0, "{figures}");
        assert!(find.told["UNAVAILABLE retry_later"] > 0, "{figures}");
        // One budget over both tools of the shop: retries are at most a tenth of the successes and the burst.
        let ok = find.told["ok"] + charge.told["ok"];
        assert!(find.retried + charge.retried <= 20 + ok / 10, "{figures}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_json_has_the_figures() {
    let first = report(&["--sessions", "20"]).await;
    let json = serde_json::to_value(&first).unwrap();
    assert_eq!(json["charged_twice"], 0);
    assert_eq!(json["tools"]["charge"]["effect"], "idempotent_write");
    for field in ["calls", "attempts", "retried"] {
        assert!(json["tools"]["charge"][field].is_u64(), "{field}");
    }
    assert!(json["tools"]["charge"]["told"]["ok"].is_u64());
}

#[test]
fn equal_seeds_make_equal_runs() {
    // Each in a runtime of its own: the clock that a run begins with is part of it.
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(report(&["--sessions", "20", "--seed", seed]))
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn wrong_arguments_are_refused_with_exit_code_2() {
    for wrong in [["--sessions", "0"], ["--seed", "x"], ["--speed", "2"]] {
        let error = Args::try_parse_from(["agent_turns", wrong[0], wrong[1]]).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{wrong:?}");
    }
}
