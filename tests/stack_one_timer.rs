//! What a call through the preset allocates when its answer does not come at once: one timer, for both of its deadlines.
#![cfg(not(loom))]

use std::alloc::System;
use std::future::pending;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio_test::{assert_pending, assert_ready, task};
use tower::{BoxError, Layer, ServiceExt, service_fn};
use tower_composure::{Effect, Stack};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SECOND: Duration = Duration::from_secs(1);

// One test, since the allocator counts for the whole process.
#[tokio::test(start_paused = true)]
async fn a_pending_call_makes_one_timer() {
    let stack = Stack::builder(Effect::Write)
        .attempt_deadline(3 * SECOND)
        .call_deadline(8 * SECOND);
    let hanging = service_fn(|()| pending::<Result<(), BoxError>>());
    let service = stack.build().unwrap().layer(hanging);
    // The first call registers what threads keep.
    assert_pending!(task::spawn(service.clone().oneshot(())).poll());

    let mut call = task::spawn(service.oneshot(()));
    let region = Region::new(ALLOCATOR);
    assert_pending!(call.poll());
    assert_eq!(region.change().allocations, 1);
    // Polled again for whatever reason, before and at the attempt's deadline, which ends the call: a write is not repeated.
    tokio::time::advance(SECOND).await;
    assert_pending!(call.poll());
    assert!(!call.is_woken());
    tokio::time::advance(2 * SECOND).await;
    assert!(call.is_woken());
    assert!(assert_ready!(call.poll()).is_err());
}
