//! Time of a call that is ready at once, of the stacks side by side.

use std::time::Duration;

use composure_benches::call;
use composure_benches::cases::{self, Run, TIMED};
use criterion::{
    BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use tower::Service;

struct Timed<'a, 'b> {
    group: &'a mut BenchmarkGroup<'b, WallTime>,
    name: &'static str,
}

impl Run for Timed<'_, '_> {
    fn run<R, S: Service<R>>(&mut self, mut service: S, request: impl Fn(u64) -> R) {
        let mut number = 0;
        self.group.bench_function(self.name, |bencher| {
            bencher.iter(|| {
                number += 1;
                call(&mut service, request(number));
            });
        });
    }
}

fn stacks(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let mut group = criterion.benchmark_group("stacks");
    group.sample_size(50);
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(2));
    for name in TIMED {
        let group = &mut group;
        cases::run(name, &mut Timed { group, name });
    }
}

criterion_group!(benches, stacks);
criterion_main!(benches);
