use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use super::handles::Handles;
use super::names;
use crate::attempt::Attempt;
use crate::budget::Budget;
use crate::circuit_breaker::{CircuitBreaker, Transition};
use crate::deadline::DeadlineExceeded;
use crate::observer::{AttemptFinished, Observer, RetryScheduled};
use crate::report::{CallReport, StopReason};

/// Names that get metrics of their own.
const MOST: usize = 100;

/// Where all further ones are counted together.
const OTHER: &str = "(other)";

/// Counts and measures what the layers decide, through the `metrics` facade. See the [module](crate::metrics).
///
/// One of it serves any number of stacks. Make it after the recorder has been installed: handles are those of the
/// recorder that was there when a dependency was first heard of.
///
/// Cost: an event is a few atomic operations of the recorder. The handles of a dependency are made once, with the first
/// event or with [`register`](Self::register); finding them compares names, takes no lock and allocates nothing.
///
/// ```
/// use std::sync::Arc;
/// use tower_composure::{Effect, MetricsObserver, Stack};
///
/// let stack = Stack::builder(Effect::Read).dependency("prices").observer(Arc::new(MetricsObserver::new())).build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub struct MetricsObserver {
    first: Link,
}

/// A list that only grows.
type Link = OnceLock<Box<Node>>;

struct Node {
    handles: Handles,
    next: Link,
}

impl MetricsObserver {
    /// Describes the metrics to the recorder that is installed.
    ///
    /// ```
    /// use tower_composure::MetricsObserver;
    ///
    /// let metrics = MetricsObserver::new(); // after the recorder has been installed
    /// ```
    #[expect(
        clippy::new_without_default,
        reason = "it speaks to the recorder, which no default should"
    )]
    pub fn new() -> Self {
        names::describe();
        Self { first: Link::new() }
    }

    /// Makes the metrics of a dependency now, at zero, so that they are there before its first call.
    ///
    /// ```
    /// use tower_composure::MetricsObserver;
    ///
    /// MetricsObserver::new().register("payments");
    /// ```
    pub fn register(&self, dependency: &str) {
        self.of(dependency);
    }

    /// Shows what a budget holds now. Events show it when it changes; what they cannot show is how it starts, and
    /// what a trickle adds while nobody calls. Call it when the stack is made, or before each scrape.
    ///
    /// ```
    /// use tower_composure::{Budget, MetricsObserver};
    ///
    /// let budget = Budget::default();
    /// MetricsObserver::new().observe_budget("payments", &budget);
    /// ```
    pub fn observe_budget(&self, dependency: &str, budget: &Budget) {
        self.of(dependency).show_tokens(budget.balance());
    }

    /// Shows the state that a breaker is in now, under its own name. Events show each transition; what they cannot show
    /// is how it starts. Call it when the breaker is made or takes the place of another one, or before each scrape.
    ///
    /// ```
    /// use tower_composure::{CircuitBreaker, MetricsObserver};
    ///
    /// let breaker = CircuitBreaker::builder().name("payments").build()?;
    /// MetricsObserver::new().observe_breaker(&breaker);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn observe_breaker(&self, breaker: &CircuitBreaker) {
        let seen = breaker.metrics();
        let handles = self.of(breaker.name());
        handles.show_state(seen.generation(), seen.state());
    }

    /// The handles for this name.
    fn of(&self, name: &str) -> &Handles {
        let mut link = &self.first;
        for _ in 0..MOST {
            // Where another thread was first it may have put another name there.
            let node = link.get_or_init(|| Node::new(name));
            if node.handles.name() == name {
                return &node.handles;
            }
            link = &node.next;
        }
        &link.get_or_init(|| Node::new(OTHER)).handles
    }
}

impl Node {
    fn new(name: &str) -> Box<Self> {
        Box::new(Self {
            handles: Handles::register(name),
            next: Link::new(),
        })
    }
}

impl Observer for MetricsObserver {
    fn attempt_started(&self, dependency: &str, _attempt: &Attempt) {
        self.of(dependency).attempts.increment(1);
    }

    fn attempt_finished(&self, dependency: &str, finished: &AttemptFinished) {
        let durations = &self.of(dependency).attempt_duration;
        durations.of(finished.verdict()).record(finished.elapsed());
    }

    fn retry_scheduled(&self, dependency: &str, retry: &RetryScheduled) {
        let handles = self.of(dependency);
        handles.retries.of(retry.delayed_by()).increment(1);
        handles.retry_delay.record(retry.delay());
    }

    fn retry_refused(&self, dependency: &str, _attempt: &Attempt, reason: StopReason) {
        self.of(dependency).refused.of(reason).increment(1);
    }

    fn call_finished(&self, dependency: &str, report: &CallReport) {
        let handles = self.of(dependency);
        handles.calls.of(report).increment(1);
        handles.call_attempts.record(report.attempts());
        handles.call_backoff.record(report.backoff());
        if let Some(elapsed) = report.elapsed() {
            handles.call_duration.record(elapsed);
        }
        if report.outcome_unknown() {
            handles.outcome_unknown.increment(1);
        }
    }

    fn budget_deposited(&self, dependency: &str, balance: f64) {
        let handles = self.of(dependency);
        handles.deposits.increment(1);
        handles.show_tokens(balance);
    }

    fn budget_withdrawn(&self, dependency: &str, balance: f64) {
        let handles = self.of(dependency);
        handles.withdrawals.increment(1);
        handles.show_tokens(balance);
    }

    fn budget_exhausted(&self, dependency: &str, balance: f64) {
        let handles = self.of(dependency);
        handles.exhausted.increment(1);
        handles.show_tokens(balance);
    }

    fn breaker_transition(&self, breaker: &str, transition: &Transition) {
        let handles = self.of(breaker);
        handles.transitions.of(transition.to()).increment(1);
        handles.show_transition(transition.generation(), transition.to());
    }

    fn breaker_rejected(&self, breaker: &str, _remaining: Duration) {
        self.of(breaker).rejected.increment(1);
    }

    fn breaker_probe(&self, breaker: &str) {
        self.of(breaker).probes.increment(1);
    }

    fn deadline_exceeded(&self, dependency: &str, exceeded: &DeadlineExceeded) {
        let handles = self.of(dependency);
        let passed = if exceeded.is_call() {
            &handles.call_deadlines
        } else {
            &handles.attempt_deadlines
        };
        passed.increment(1);
    }

    fn key_minted(&self, dependency: &str) {
        self.of(dependency).minted.increment(1);
    }

    fn key_kept(&self, dependency: &str) {
        self.of(dependency).kept.increment(1);
    }
}

impl fmt::Debug for MetricsObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsObserver").finish_non_exhaustive()
    }
}
