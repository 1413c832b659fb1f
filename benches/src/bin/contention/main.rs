//! Million operations a second of one and of two threads on one shared object, all peers in one run, and the goals that
//! ours is held against. The figures are medians; an argument gives the number of rounds.

mod patterns;
mod report;
mod runner;
mod volume;

const ROUNDS: usize = 301;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(ROUNDS, |text| text.parse().expect("a number of rounds"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    report::load("start");
    let cases = patterns::cases();
    let rates = runner::run(&cases, rounds, runtime.handle());
    report::table(&cases, &rates);
    report::goals(&cases, &rates);
    volume::check(false);
    volume::check(true);
    report::load("end");
}
