//! How a call ended, and what the model is told of it. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::effect::Effect;
use crate::report::{CallReport, StopReason};
use crate::tool::codes;
use crate::tool::shape::{Failure, Reading};
use crate::tool::{ToolPolicy, ToolResponse};
use crate::verdict::Verdict;

/// A call that did not succeed: the facts that the layers below have left.
pub(super) struct Ending<'a> {
    pub(super) how: How<'a>,
    pub(super) verdict: Verdict,
    /// Of the last attempt.
    pub(super) effect: Effect,
    pub(super) report: Option<CallReport>,
}

/// What came up.
#[derive(Debug, Clone, Copy)]
pub(super) enum How<'a> {
    /// A map that says it failed.
    Map(Option<&'a str>),
    /// A map in which somebody tells the model already what to do.
    Handled,
    /// A breaker that refused, and how long it stays open.
    BreakerOpen(Duration),
    /// A deadline, and whether the tool had been called.
    Deadline { called: bool },
    /// The tool did not become ready, so it was not called.
    NotReady,
    /// Any other error.
    Error,
}

/// What the model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    RetryLater(Duration),
    DoNotRetry,
    FixArguments,
    CheckState,
}

/// What the envelope is told in advance.
pub(super) struct Settings<'a> {
    pub(super) retry_after: Duration,
    pub(super) check_with: Option<&'a Arc<str>>,
}

impl<'a> How<'a> {
    pub(super) fn of_map<F>(policy: &ToolPolicy<F>, map: &'a Map<String, Value>) -> Self {
        Self::Map(match policy.read(map) {
            Reading::Failed(Failure { code, .. }) => code,
            Reading::Success | Reading::Handled => None,
        })
    }
}

impl Ending<'_> {
    /// The envelope.
    pub(super) fn envelope<F>(
        &self,
        policy: &ToolPolicy<F>,
        settings: &Settings<'_>,
    ) -> ToolResponse {
        let action = self.action(settings.retry_after);
        let mut map = codes::failure(self.code(policy, action));
        if let Some(error) = map.get_mut("error").and_then(Value::as_object_mut) {
            error.insert("message".to_owned(), message(action).into());
        }
        let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
        put("retryable", matches!(action, Action::RetryLater(_)).into());
        put("action", action.as_str().into());
        put("reason", self.reason().into());
        put("attempts", self.attempts().into());
        match action {
            Action::RetryLater(wait) => {
                put("retry_after", whole_seconds(wait).into());
            }
            Action::CheckState => {
                if let Some(tool) = settings.check_with {
                    put("check_with", Value::from(&**tool));
                }
            }
            Action::DoNotRetry | Action::FixArguments => {}
        }
        map
    }

    /// Whether there is something to tell: somebody else's guidance is as good, unless it does not know that the outcome
    /// is unknown.
    pub(super) fn needs_envelope(&self) -> bool {
        !matches!(self.how, How::Handled) || self.is_unknown()
    }

    /// Whether the call may have changed something. Once any attempt may have, no later outcome takes that back.
    fn is_unknown(&self) -> bool {
        let before = self.report.is_some_and(|report| report.outcome_unknown());
        before || self.was_called() && self.verdict.is_unknown() && self.effect.is_write()
    }

    /// Whether this outcome is one of a tool that was called.
    const fn was_called(&self) -> bool {
        match self.how {
            How::Map(_) | How::Handled | How::Error => true,
            How::Deadline { called } => called,
            How::BreakerOpen(_) | How::NotReady => false,
        }
    }

    fn action(&self, retry_after: Duration) -> Action {
        if self.is_unknown() {
            return Action::CheckState;
        }
        let wait = match self.how {
            How::BreakerOpen(remaining) => remaining,
            How::NotReady | How::Deadline { .. } => Duration::ZERO,
            How::Map(_) | How::Error if self.verdict.is_retryable() => self
                .verdict
                .hint()
                .map_or(Duration::ZERO, crate::verdict::Hint::wait),
            How::Map(Some("INVALID_ARGUMENT" | "OUT_OF_RANGE" | "NOT_FOUND"))
                if self.verdict == Verdict::Rejected =>
            {
                return Action::FixArguments;
            }
            How::Map(_) | How::Handled | How::Error => return Action::DoNotRetry,
        };
        match wait {
            // Until somebody says otherwise: there is no time to name.
            Duration::MAX => Action::DoNotRetry,
            Duration::ZERO => Action::RetryLater(retry_after),
            wait => Action::RetryLater(wait),
        }
    }

    fn code<'c, F>(&self, policy: &'c ToolPolicy<F>, action: Action) -> &'c str {
        if action == Action::CheckState {
            return codes::OUTCOME_UNKNOWN;
        }
        match (self.how, self.verdict) {
            (How::BreakerOpen(_) | How::NotReady, _) => "UNAVAILABLE",
            (How::Deadline { .. }, _)
            | (How::Map(Some("DEADLINE_EXCEEDED")), Verdict::Unknown { .. }) => "DEADLINE_EXCEEDED",
            (_, Verdict::Throttled { .. }) => "RATE_LIMITED",
            (_, Verdict::Unknown { .. } | Verdict::Refused { .. }) => "UNAVAILABLE",
            // Never the tool's own text, only the words that it shares with us or with the policy's author.
            (How::Map(Some(code)), Verdict::Rejected) => policy
                .known_code(code)
                .or_else(|| codes::rejection(code))
                .unwrap_or(codes::REJECTED),
            (How::Map(Some(code)), _) => policy.known_code(code).unwrap_or("INTERNAL"),
            (_, Verdict::Rejected) => codes::REJECTED,
            _ => "INTERNAL",
        }
    }

    fn reason(&self) -> &'static str {
        let stop = self.report.and_then(|report| report.stop_reason());
        match (self.how, self.verdict) {
            (How::BreakerOpen(_), _) => StopReason::BreakerOpen.as_str(),
            (How::Deadline { .. }, _) => StopReason::Deadline.as_str(),
            (How::NotReady, _) => "not_ready",
            (_, Verdict::Rejected) => "rejected",
            (_, Verdict::Fault | Verdict::Success) => "fault",
            _ => stop.map_or("not_retried", StopReason::as_str),
        }
    }

    fn attempts(&self) -> u32 {
        let called = match self.how {
            How::Map(Some(codes::UNKNOWN_TOOL)) => false,
            _ => self.was_called(),
        };
        self.report
            .map_or(u32::from(called), |report| report.attempts())
    }
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::RetryLater(_) => "retry_later",
            Self::DoNotRetry => "do_not_retry",
            Self::FixArguments => "fix_arguments",
            Self::CheckState => "check_state",
        }
    }
}

const fn message(action: Action) -> &'static str {
    match action {
        Action::RetryLater(_) => "It was not done. Try again after retry_after seconds.",
        Action::DoNotRetry => "It failed, and calling again will not help.",
        Action::FixArguments => "The arguments were refused. Correct them before you call again.",
        Action::CheckState => {
            "It may have been done or not. Do not call again; find out first whether it was done."
        }
    }
}

/// The whole seconds after which a call is not too early, at least one.
fn whole_seconds(wait: Duration) -> u64 {
    let up = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(up).max(1)
}
