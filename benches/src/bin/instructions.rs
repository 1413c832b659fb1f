//! Makes `COUNT` calls of the service that `CASE` names, for callgrind to count.

use composure_benches::call;
use composure_benches::cases::{self, Run};
use tower::Service;

struct Calls(u64);

impl Run for Calls {
    #[inline(never)]
    fn run<R, S: Service<R>>(&mut self, mut service: S, request: impl Fn(u64) -> R) {
        for number in 0..self.0 {
            call(&mut service, request(number));
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (Some(case), Some(count)) = (arguments.get(1), arguments.get(2)) else {
        eprintln!("usage: instructions CASE COUNT");
        std::process::exit(2);
    };
    let count = count.parse().expect("a number of calls");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    cases::run(case, &mut Calls(count));
}
