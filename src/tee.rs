//! Several observers in the place of one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::Attempt;
use crate::circuit_breaker::Transition;
use crate::deadline::DeadlineExceeded;
use crate::observer::{AttemptFinished, Observer, RetryScheduled};
use crate::report::{CallReport, StopReason};

/// Tells one of several observers. The panic of one is not the silence of the next.
fn apart(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}

/// Every event that there is, given to a macro that writes the methods.
macro_rules! events {
    ($write:ident) => {
        $write! {
            attempt_started(attempt: &Attempt);
            attempt_finished(finished: &AttemptFinished);
            retry_scheduled(retry: &RetryScheduled);
            retry_refused(attempt: &Attempt, reason: StopReason);
            call_finished(report: &CallReport);
            budget_deposited(balance: f64);
            budget_withdrawn(balance: f64);
            budget_exhausted(balance: f64);
            breaker_transition(transition: &Transition);
            breaker_rejected(remaining: Duration);
            breaker_probe();
            deadline_exceeded(exceeded: &DeadlineExceeded);
            key_minted();
            key_kept();
        }
    };
}

macro_rules! to_both {
    ($($event:ident($($fact:ident: $type:ty),*);)*) => {$(
        fn $event(&self, name: &str, $($fact: $type),*) {
            apart(|| self.0.$event(name, $($fact),*));
            apart(|| self.1.$event(name, $($fact),*));
        }
    )*};
}

macro_rules! to_each {
    ($($event:ident($($fact:ident: $type:ty),*);)*) => {$(
        fn $event(&self, name: &str, $($fact: $type),*) {
            for observer in self {
                apart(|| observer.$event(name, $($fact),*));
            }
        }
    )*};
}

macro_rules! to_that {
    ($($event:ident($($fact:ident: $type:ty),*);)*) => {$(
        fn $event(&self, name: &str, $($fact: $type),*) {
            (**self).$event(name, $($fact),*);
        }
    )*};
}

/// Both are told, the first one first. A panic of one is caught, and the other is told all the same.
///
/// ```
/// use std::sync::Arc;
/// use tower_composure::{Effect, Observer, Stack};
///
/// struct Logs;
/// impl Observer for Logs {}
/// struct Counts;
/// impl Observer for Counts {}
///
/// let stack = Stack::builder(Effect::Read).observer(Arc::new((Logs, Counts))).build();
/// # assert!(stack.is_ok());
/// ```
impl<A: Observer, B: Observer> Observer for (A, B) {
    events!(to_both);
}

/// All are told, in their order. A panic of one is caught, and the others are told all the same.
impl<O: Observer> Observer for Vec<O> {
    events!(to_each);
}

/// The one that it holds is told; `Vec<Arc<dyn Observer>>` is any number of any kind.
impl<O: Observer + ?Sized> Observer for Arc<O> {
    events!(to_that);
}
