//! Where an operator listens.

use crate::circuit_breaker::Transition;
use crate::report::CallReport;

/// Receives what the layers decide. Every method has a default that does nothing.
///
/// It is called in the middle of a poll: keep it short, and do not block. A panic in it is caught and dropped, so that
/// it cannot break a call.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tower_composure::{CallReport, Observer};
///
/// #[derive(Default)]
/// struct Attempts(AtomicU64);
///
/// impl Observer for Attempts {
///     fn call_finished(&self, _dependency: &str, report: &CallReport) {
///         self.0.fetch_add(report.attempts().into(), Ordering::Relaxed);
///     }
/// }
/// ```
pub trait Observer: Send + Sync {
    /// A call has ended and its outcome is about to go up. Once a call, from the retry layer that ran it. A dropped
    /// call does not come here.
    ///
    /// `dependency` is the name that the stack or the layer was given, `""` where it was given none.
    fn call_finished(&self, dependency: &str, report: &CallReport) {
        let _ = (dependency, report);
    }

    /// A breaker has changed its state. Once a transition, from whoever caused it: the call whose outcome opened or
    /// closed it, the first one to look after its time was up, or the one who forced it. `breaker` is its name.
    fn breaker_transition(&self, breaker: &str, transition: &Transition) {
        let _ = (breaker, transition);
    }
}
