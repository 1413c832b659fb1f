//! A dependency whose outcomes say what they mean, and the settings that make a stack eager.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it"
)]

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tower::BoxError;
use tower_composure::stack::StackBuilder;
use tower_composure::{
    Attempt, Backoff, BreakerOpen, Budget, CircuitBreaker, DeadlineExceeded, Effect, Policy, Stack,
    Verdict,
};

use crate::support::{Script, Step};

const MS: Duration = Duration::from_millis(1);

/// An outcome that says what it means, as an error.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed(pub Verdict);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Error for Failed {}

/// Reads the verdict that an outcome carries; any other error is `Unknown`, as a policy should have it.
#[derive(Debug, Clone, Copy)]
pub struct Says(pub Effect);

impl Policy<u32, Verdict, BoxError> for Says {
    fn effect(&self, _: &u32) -> Effect {
        self.0
    }

    fn classify(&self, _: &Attempt, outcome: Result<&Verdict, &BoxError>) -> Verdict {
        match outcome {
            Ok(verdict) => *verdict,
            Err(error) => error
                .downcast_ref::<Failed>()
                .map_or(Verdict::UNKNOWN, |failed| failed.0),
        }
    }
}

pub type Dependency = Script<u32, Verdict, Failed>;

pub fn step(verdict: Verdict, as_error: bool) -> Step<Verdict, Failed> {
    if as_error {
        Step::Err(Failed(verdict))
    } else {
        Step::Ok(verdict)
    }
}

pub fn always(verdict: Verdict) -> Dependency {
    Script::new([Step::Ok(verdict)])
}

/// Two attempts at once, one after the other.
pub fn eager(effect: Effect) -> StackBuilder<Says> {
    Stack::builder(Says(effect))
        .max_attempts(2)
        .backoff(Backoff::none())
}

/// Opens on its first failure, for exactly 5 s.
pub fn touchy() -> CircuitBreaker {
    CircuitBreaker::builder()
        .window(10)
        .minimum_calls(1)
        .open_time(5000 * MS)
        .open_jitter(0.0)
        .probes(1)
        .build()
        .unwrap()
}

/// A budget of which one token is gone, so that a deposit shows.
pub fn budget() -> Budget {
    let budget = Budget::new(0.1, 20).unwrap();
    budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
    assert_balance(&budget, 19.0);
    budget
}

#[track_caller]
pub fn assert_balance(budget: &Budget, tokens: f64) {
    assert!(
        (budget.balance() - tokens).abs() < 1e-9,
        "{} tokens instead of {tokens}",
        budget.balance()
    );
}

pub fn breaker_open(error: &BoxError) -> &BreakerOpen {
    BreakerOpen::find(&**error).expect("a BreakerOpen")
}

pub fn exceeded(error: &BoxError) -> &DeadlineExceeded {
    DeadlineExceeded::find(&**error).expect("a DeadlineExceeded")
}

/// Outcomes in the window, and the failures among them.
pub fn recorded(breaker: &CircuitBreaker) -> (u32, u32) {
    let metrics = breaker.metrics();
    (metrics.recorded(), metrics.failures())
}
