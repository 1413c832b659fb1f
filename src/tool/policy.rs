use std::fmt;

use serde_json::{Map, Value};

use super::hint;
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::policy::Policy;
use crate::verdict::{Hint, Verdict};

/// Classifies the maps that tools answer with. See the [module](crate::tool).
///
/// It works over requests of any type and any error that is `'static`; errors are what their types say, as for an
/// [`Effect`] used as a policy.
#[derive(Clone)]
pub struct ToolPolicy<F = Unmarked> {
    effect: F,
    codes: Vec<(String, Verdict)>,
}

/// Every tool is a [`Write`](Effect::Write): nobody has said otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unmarked;

impl ToolPolicy {
    /// The table of the [module](crate::tool); every tool is a write.
    pub const fn new() -> Self {
        Self {
            effect: Unmarked,
            codes: Vec::new(),
        }
    }
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> ToolPolicy<F> {
    /// What each request does.
    #[must_use]
    pub fn effect_fn<Req, G>(self, effect: G) -> ToolPolicy<G>
    where
        G: Fn(&Req) -> Effect,
    {
        ToolPolicy {
            effect,
            codes: self.codes,
        }
    }

    /// What a code means for these tools: `UNAVAILABLE` is [`Verdict::REFUSED`] where their author says that they
    /// answer it before they do anything. A hint in the map still counts.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>, verdict: Verdict) -> Self {
        let code = code.into();
        self.codes.retain(|(known, _)| *known != code);
        self.codes.push((code, verdict));
        self
    }

    fn of_map(&self, map: &Map<String, Value>) -> Verdict {
        let failed = match map.get("status") {
            Some(status) => status.as_str() == Some("error"),
            None => map.contains_key("error"),
        };
        if !failed {
            return Verdict::Success;
        }
        let Some(error) = map.get("error").and_then(Value::as_object) else {
            return Verdict::Fault;
        };
        let code = error.get("code").and_then(Value::as_str);
        let verdict = code.map_or(Verdict::Fault, |code| self.of_code(code));
        let verdict = match error.get("retryable").and_then(Value::as_bool) {
            // It is not retried, and counts for the breaker as what it is.
            Some(false) => return verdict.with_hint(Some(Hint::never())),
            Some(true) if verdict == Verdict::Fault => Verdict::UNKNOWN,
            _ => verdict,
        };
        verdict.with_hint(hint::wait(error).map(Hint::after))
    }

    fn of_code(&self, code: &str) -> Verdict {
        if let Some((_, verdict)) = self.codes.iter().find(|(known, _)| known == code) {
            return *verdict;
        }
        match code {
            "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "ABORTED" | "CANCELLED" => Verdict::UNKNOWN,
            "RATE_LIMITED" | "THROTTLED" | "RESOURCE_EXHAUSTED" => Verdict::THROTTLED,
            "INVALID_ARGUMENT"
            | "NOT_FOUND"
            | "ALREADY_EXISTS"
            | "PERMISSION_DENIED"
            | "UNAUTHENTICATED"
            | "FAILED_PRECONDITION"
            | "OUT_OF_RANGE"
            | "UNIMPLEMENTED" => Verdict::Rejected,
            _ if is_about_money(code) => Verdict::Rejected,
            _ => Verdict::Fault,
        }
    }
}

/// A quota that is used up or an account that is not paid looks like throttling, and no wait ends it.
fn is_about_money(code: &str) -> bool {
    let code = code.to_ascii_uppercase();
    matches!(code.as_str(), "QUOTA_EXCEEDED" | "INSUFFICIENT_QUOTA") || code.starts_with("BILLING_")
}

/// What marks the effect of a request.
pub(super) trait Marks<Req> {
    fn effect(&self, request: &Req) -> Effect;
}

impl<Req> Marks<Req> for Unmarked {
    fn effect(&self, _: &Req) -> Effect {
        Effect::Write
    }
}

impl<Req, G: Fn(&Req) -> Effect> Marks<Req> for G {
    fn effect(&self, request: &Req) -> Effect {
        self(request)
    }
}

impl<Req, E: 'static, F: Marks<Req>> Policy<Req, Map<String, Value>, E> for ToolPolicy<F> {
    fn effect(&self, request: &Req) -> Effect {
        self.effect.effect(request)
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&Map<String, Value>, &E>) -> Verdict {
        match outcome {
            Ok(map) => self.of_map(map),
            Err(error) => {
                let by_error: &dyn Policy<Req, (), E> = &attempt.effect();
                by_error.classify(attempt, Err(error))
            }
        }
    }
}

impl<F> fmt::Debug for ToolPolicy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolPolicy")
            .field("codes", &self.codes)
            .finish_non_exhaustive()
    }
}
