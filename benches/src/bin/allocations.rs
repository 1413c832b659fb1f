//! Counts the allocations of a call of each service that is named: one line a case, allocations and bytes.

use std::alloc::System;

use composure_benches::call;
use composure_benches::cases::{self, Run};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tower::Service;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: u64 = 1000;

#[derive(Default)]
struct Counts {
    allocations: u64,
    bytes: u64,
}

impl Run for Counts {
    fn run<R, S: Service<R>>(&mut self, mut service: S, request: impl Fn(u64) -> R) {
        // The first calls register the thread's locals and fill the breakers' windows.
        (0..200).for_each(|number| call(&mut service, request(number)));
        let region = Region::new(ALLOCATOR);
        (0..CALLS).for_each(|number| call(&mut service, request(number)));
        let change = region.change();
        self.allocations = (change.allocations + change.reallocations) as u64;
        self.bytes = change.bytes_allocated as u64;
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    for case in std::env::args().skip(1) {
        let mut counts = Counts::default();
        cases::run(&case, &mut counts);
        let each = |count: u64| count as f64 / CALLS as f64;
        println!("{case} {} {}", each(counts.allocations), each(counts.bytes));
    }
}
