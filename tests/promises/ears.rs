//! An observer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tower_composure::circuit_breaker::Transition;
use tower_composure::{
    Attempt, AttemptFinished, CallReport, DeadlineExceeded, Observer, RetryScheduled, StopReason,
};

use super::service::SCRIPTED;

/// Hears everything, and panics now and then.
#[derive(Default)]
pub struct Ears {
    heard: Mutex<Vec<String>>,
    panics_every: Option<u32>,
    count: AtomicU32,
}

impl Ears {
    pub fn new(panics_every: Option<u32>) -> Self {
        Self {
            panics_every,
            ..Self::default()
        }
    }

    pub fn heard(&self) -> Vec<String> {
        // The lock is poisoned where it has panicked.
        let heard = self.heard.lock();
        heard.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hear(&self, event: String) {
        let heard = self.heard.lock();
        heard.unwrap_or_else(PoisonError::into_inner).push(event);
        let count = self.count.fetch_add(1, Ordering::SeqCst);
        let panics = self.panics_every.is_some_and(|every| count % every == 0);
        assert!(!panics, "{SCRIPTED}, in an observer");
    }
}

impl Observer for Ears {
    fn attempt_started(&self, name: &str, attempt: &Attempt) {
        self.hear(format!("{name} {attempt:?}"));
    }
    fn attempt_finished(&self, name: &str, finished: &AttemptFinished) {
        self.hear(format!("{name} {finished:?}"));
    }
    fn retry_scheduled(&self, name: &str, retry: &RetryScheduled) {
        self.hear(format!("{name} {retry:?}"));
    }
    fn retry_refused(&self, name: &str, attempt: &Attempt, reason: StopReason) {
        self.hear(format!("{name} {attempt:?} {reason:?}"));
    }
    fn call_finished(&self, name: &str, report: &CallReport) {
        self.hear(format!("{name} {report:?}"));
    }
    fn budget_deposited(&self, name: &str, balance: f64) {
        self.hear(format!("{name} deposited {balance}"));
    }
    fn budget_withdrawn(&self, name: &str, balance: f64) {
        self.hear(format!("{name} withdrawn {balance}"));
    }
    fn budget_exhausted(&self, name: &str, balance: f64) {
        self.hear(format!("{name} exhausted {balance}"));
    }
    fn breaker_transition(&self, name: &str, transition: &Transition) {
        self.hear(format!("{name} {transition:?}"));
    }
    fn breaker_rejected(&self, name: &str, remaining: Duration) {
        self.hear(format!("{name} rejected {remaining:?}"));
    }
    fn breaker_probe(&self, name: &str) {
        self.hear(format!("{name} probe"));
    }
    fn deadline_exceeded(&self, name: &str, exceeded: &DeadlineExceeded) {
        self.hear(format!("{name} {exceeded:?} {exceeded}"));
    }
    fn key_minted(&self, name: &str) {
        self.hear(format!("{name} minted"));
    }
    fn key_kept(&self, name: &str) {
        self.hear(format!("{name} kept"));
    }
}
