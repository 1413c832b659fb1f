//! Tests on a paused clock step it so that everything due has happened, and the library keeps no thread busy.
#![cfg(not(loom))]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use support::{Script, Step};
use tokio::time::advance;
use tower::{Layer, ServiceExt};
use tower_composure::{Backoff, Effect, Jitter, RetryLayer};

/// Moves the clock, and lets everything run that is due by then: `advance` alone does not promise it.
async fn step(by: Duration) {
    advance(by).await;
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn case_155_after_a_step_the_second_attempt_has_been_made_once() {
    let script = Script::<(), u32, &str>::new([Step::Err("down"), Step::Hang]);
    let (almost, rest) = (Duration::from_millis(99), Duration::from_millis(1));
    let wait = almost + rest;
    let retry = RetryLayer::builder(Effect::Read)
        .backoff(Backoff::constant(wait).jitter(Jitter::None))
        .build()
        .unwrap();
    let call = tokio::spawn(retry.layer(script.clone()).oneshot(()));
    step(Duration::ZERO).await;
    assert_eq!(script.times(), [0]);
    step(almost).await;
    assert_eq!(script.times(), [0]);
    step(rest).await;
    assert_eq!(script.times(), [0, 100]);
    step(wait).await;
    assert_eq!(script.times(), [0, 100]);
    call.abort();
}

/// A blocking task would stop the clock of every test that pauses it.
#[test]
fn case_155_nothing_of_ours_blocks_or_spawns() {
    fn look(folder: &Path, seen: &mut usize) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look(&path, seen);
                continue;
            }
            // The guide is prose, and its examples are a caller's.
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                for banned in [
                    "spawn_blocking",
                    "block_in_place",
                    "tokio::spawn",
                    "Handle::current",
                ] {
                    assert!(!line.contains(banned), "{}: {line}", path.display());
                }
            }
            *seen += 1;
        }
    }
    let mut seen = 0;
    look(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut seen,
    );
    assert!(seen > 50);
}
