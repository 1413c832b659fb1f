//! The machine under every interleaving: loom runs each model with all the orders its atomics allow.
//!
//! `RUSTFLAGS='--cfg loom -C debug-assertions' LOOM_MAX_PREEMPTIONS=3 cargo test --release --no-default-features --lib`

use std::sync::Mutex as StdMutex;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::machine::{Admission, Change, Machine, Observation, Outcome, Surroundings};
use super::settings::Settings;
use super::state::Phase;
use super::{CircuitBreaker, CircuitBreakerBuilder};

/// A fixed time, and what changed.
struct Still {
    now: u64,
    changes: StdMutex<Vec<Change>>,
}

impl Still {
    fn at(now: u64) -> Self {
        Self {
            now,
            changes: StdMutex::new(Vec::new()),
        }
    }

    fn changes(&self) -> Vec<Change> {
        self.changes.lock().unwrap().clone()
    }
}

impl Surroundings for Still {
    fn now(&self) -> u64 {
        self.now
    }

    fn random(&self) -> u64 {
        u64::MAX
    }

    fn changed(&self, change: Change) {
        self.changes.lock().unwrap().push(change);
    }
}

const OPEN_TIME: u64 = 1000;

fn told(minimum: u32, probes: u32) -> CircuitBreakerBuilder {
    CircuitBreaker::builder()
        .minimum_calls(minimum)
        .failure_rate(1.0)
        .open_time(Duration::from_micros(OPEN_TIME))
        .open_jitter(0.0)
        .probes(probes)
}

fn of(told: &CircuitBreakerBuilder) -> Arc<Machine> {
    Arc::new(Machine::new(&Settings::of(told).unwrap()))
}

fn machine(window: u32, minimum: u32, probes: u32) -> Arc<Machine> {
    of(&told(minimum, probes).window(window))
}

/// How far a machine of time looks back. As much later, the same bucket is used again.
const SPAN: u64 = 100_000;

fn machine_of_time() -> Arc<Machine> {
    of(&told(100, 1).time_window(Duration::from_micros(SPAN)))
}

fn seen(outcome: Outcome) -> Observation {
    Observation {
        outcome,
        took: None,
        hint: None,
        throttled: false,
    }
}

/// A machine of so many probes whose open time has just ended, and the time at which it has.
fn about_to_probe(probes: u32) -> (Arc<Machine>, u64) {
    let machine = machine(1, 1, probes);
    let around = Still::at(0);
    let admission = machine.admit(&around).unwrap();
    machine.record(admission, seen(Outcome::Failure), &around);
    assert_eq!(machine.advance(&around).phase, Phase::Open);
    (machine, OPEN_TIME)
}

/// Fails where `Probes::reserve` loads a place and stores into it instead of exchanging.
#[test]
fn the_switch_to_half_open_admits_as_many_as_there_are_probes() {
    loom::model(|| {
        let (machine, now) = about_to_probe(1);
        let admit = {
            let machine = Arc::clone(&machine);
            move || machine.admit(&Still::at(now)).is_ok()
        };
        let other = thread::spawn(admit.clone());
        let mine = admit();
        let theirs = other.join().unwrap();
        assert!(mine ^ theirs, "exactly one of the two is the probe");
    });
}

/// Fails where `AtomicState::change` compares and then stores.
#[test]
fn two_failures_at_once_open_it_once() {
    loom::model(|| {
        let machine = machine(2, 1, 1);
        let around = Arc::new(Still::at(0));
        let fail = {
            let (machine, around) = (Arc::clone(&machine), Arc::clone(&around));
            move |admission| machine.record(admission, seen(Outcome::Failure), &*around)
        };
        let first = machine.admit(&*around).unwrap();
        let second = machine.admit(&*around).unwrap();
        let other = thread::spawn({
            let fail = fail.clone();
            move || fail(first)
        });
        fail(second);
        other.join().unwrap();
        let changes = around.changes();
        assert_eq!(changes.len(), 1, "one transition, one event");
        assert_eq!(changes[0].to.phase, Phase::Open);
        let end = machine.remaining_open(machine.advance(&*around), 0);
        assert_eq!(end, OPEN_TIME, "the end of its period is written");
    });
}

/// Fails where `Probes::put_back` stores without comparing.
#[test]
fn a_probe_whose_lease_has_ended_does_not_give_away_the_place_of_another() {
    loom::model(|| {
        let (machine, now) = about_to_probe(1);
        let dropped = machine.admit(&Still::at(now)).unwrap();
        let late = now + machine.live().probe_lease();
        let other = thread::spawn({
            let machine = Arc::clone(&machine);
            move || machine.admit(&Still::at(late)).ok()
        });
        machine.release(dropped);
        let holder = other.join().unwrap();
        assert!(holder.is_some(), "free or expired, the place was to be had");
        assert!(machine.admit(&Still::at(late)).is_err(), "and it is taken");
    });
}

/// Fails where `Machine::release` forgets the probe.
#[test]
fn a_dropped_probe_gives_its_place_back() {
    loom::model(|| {
        let (machine, now) = about_to_probe(1);
        let dropped = machine.admit(&Still::at(now)).unwrap();
        let other = thread::spawn({
            let machine = Arc::clone(&machine);
            move || machine.admit(&Still::at(now)).is_ok()
        });
        machine.release(dropped);
        let taken = other.join().unwrap();
        assert_eq!(machine.admit(&Still::at(now)).is_ok(), !taken);
    });
}

/// Fails where `Machine::record` does not compare generations, and where the window or the streak ignores tags: the
/// generation may change after the look at it.
#[test]
fn a_result_of_an_older_generation_counts_nowhere() {
    loom::model(|| {
        let machine = machine(3, 3, 1);
        let around = Arc::new(Still::at(0));
        let stale = machine.admit(&*around).unwrap();
        let other = thread::spawn({
            let (machine, around) = (Arc::clone(&machine), Arc::clone(&around));
            move || machine.record(stale, seen(Outcome::Failure), &*around)
        });
        machine.force(Phase::Closed, &*around);
        let fresh = machine.admit(&*around).unwrap();
        machine.record(fresh, seen(Outcome::Success), &*around);
        other.join().unwrap();
        let state = machine.advance(&*around);
        assert_eq!(state.phase, Phase::Closed);
        let (counts, streak) = machine.counts(state, &*around);
        assert_eq!((counts.total, counts.failures, streak), (1, 0, 0));
    });
}

/// Fails where `Moment::set` overwrites the end of a newer period: the breaker would stay open for ever.
#[test]
fn the_end_of_an_open_period_is_not_lost_to_an_older_one() {
    loom::model(|| {
        let machine = machine(1, 1, 1);
        let around = Arc::new(Still::at(0));
        let fail = {
            let (machine, around) = (Arc::clone(&machine), Arc::clone(&around));
            move || {
                if let Ok(admission) = machine.admit(&*around) {
                    machine.record(admission, seen(Outcome::Failure), &*around);
                }
            }
        };
        let other = thread::spawn(fail.clone());
        machine.force(Phase::Closed, &*around);
        fail();
        other.join().unwrap();
        let state = machine.advance(&*around);
        if state.phase == Phase::Open {
            assert_eq!(machine.remaining_open(state, OPEN_TIME), 0);
        }
    });
}

/// Fails where `CountWindow::record` adds to the counts without taking back what it replaced.
#[test]
fn the_window_holds_what_its_ring_holds() {
    loom::model(|| {
        let machine = machine(2, 2, 1);
        let around = Arc::new(Still::at(0));
        machine.force(Phase::ForcedClosed, &*around);
        let record = {
            let (machine, around) = (Arc::clone(&machine), Arc::clone(&around));
            move |outcome| {
                let admission: Admission = machine.admit(&*around).unwrap();
                machine.record(admission, seen(outcome), &*around);
            }
        };
        record(Outcome::Failure);
        let other = thread::spawn({
            let record = record.clone();
            move || record(Outcome::Failure)
        });
        record(Outcome::Success);
        other.join().unwrap();
        let counts = |machine: &Machine| machine.counts(machine.advance(&*around), &*around).0;
        let held = counts(&machine);
        assert_eq!(held.total, 2);
        assert_eq!(held.failures, 1, "the first failure was pushed out");
        record(Outcome::Success);
        record(Outcome::Success);
        assert_eq!(counts(&machine).failures, 0);
    });
}

/// Fails where `Probes::tally` only loads: the last outcome and the smaller number of probes would miss each other, and
/// nothing would be left to end the probing.
#[test]
fn fewer_probes_beside_the_last_outcome_still_decide() {
    loom::model(|| {
        let (machine, now) = about_to_probe(2);
        let probe = machine.admit(&Still::at(now)).unwrap();
        let other = thread::spawn({
            let machine = Arc::clone(&machine);
            move || machine.record(probe, seen(Outcome::Success), &Still::at(now))
        });
        let fewer = Settings::of(&told(1, 1).window(1)).unwrap();
        machine.retune(&fewer, &Still::at(now));
        other.join().unwrap();
        assert_eq!(machine.advance(&Still::at(now)).phase, Phase::Closed);
    });
}

fn fail_at(machine: &Machine, now: u64) {
    let around = Still::at(now);
    let admission = machine.admit(&around).unwrap();
    machine.record(admission, seen(Outcome::Failure), &around);
}

/// Fails where `Counter::add` stores what it made of what it had loaded.
#[test]
fn a_bucket_that_is_used_again_loses_nothing() {
    loom::model(|| {
        let machine = machine_of_time();
        fail_at(&machine, 0);
        let other = thread::spawn({
            let machine = Arc::clone(&machine);
            move || fail_at(&machine, SPAN)
        });
        fail_at(&machine, SPAN);
        other.join().unwrap();
        let around = Still::at(SPAN);
        let counts = machine.counts(machine.advance(&around), &around).0;
        assert_eq!((counts.total, counts.failures), (2, 2));
    });
}

/// Fails where `Counter::add` starts a bucket anew for any other time than its own.
#[test]
fn an_older_clock_empties_no_bucket() {
    loom::model(|| {
        let machine = machine_of_time();
        let other = thread::spawn({
            let machine = Arc::clone(&machine);
            move || fail_at(&machine, 0)
        });
        fail_at(&machine, SPAN);
        other.join().unwrap();
        let around = Still::at(SPAN);
        let counts = machine.counts(machine.advance(&around), &around).0;
        assert_eq!((counts.total, counts.failures), (1, 1));
    });
}
