use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::shape::{self, Failure, Reading};
use super::{ToolCall, ToolMarks, codes};
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::policy::Policy;
use crate::verdict::{Hint, Verdict};

/// Classifies the maps that tools answer with. See the [module](crate::tool).
///
/// It works over requests of any type and any error that is `'static`; errors are what their types say, as for an
/// [`Effect`] used as a policy and, with the feature `http`, as for an `HttpPolicy`. Where the request is a
/// [`ToolCall`], its key is the request's key.
///
/// Cheap to clone: clones share one table.
///
/// ```
/// use tower_composure::tool::ToolMarks;
/// use tower_composure::{Stack, ToolPolicy, Verdict};
///
/// let policy = ToolPolicy::marked(ToolMarks::new().read("balance"))
///     .code("LEDGER_CLOSED", Verdict::Rejected);
/// let stack = Stack::builder(policy).dependency("ledger").build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Clone)]
pub struct ToolPolicy<F = Unmarked> {
    effect: F,
    rules: Arc<Rules>,
}

#[derive(Clone, Default)]
struct Rules {
    codes: Vec<(String, Verdict)>,
    shapes: Vec<Shape>,
    #[cfg(feature = "http")]
    errors: crate::http::HttpPolicy,
}

type Shape = Arc<dyn Fn(&Map<String, Value>) -> Option<Reading<'_>> + Send + Sync>;

/// Every tool is a [`Write`](Effect::Write): nobody has said otherwise.
///
/// ```
/// use tower_composure::ToolPolicy;
/// use tower_composure::tool::Unmarked;
///
/// let policy: ToolPolicy<Unmarked> = ToolPolicy::new();
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Unmarked;

impl ToolPolicy {
    /// The table of the [module](crate::tool); every tool is a write.
    ///
    /// ```
    /// use tower_composure::tool::ToolResponse;
    /// use tower_composure::{Effect, Policy, ToolCall, ToolPolicy};
    ///
    /// let policy: &dyn Policy<ToolCall, ToolResponse, std::io::Error> = &ToolPolicy::new();
    /// assert_eq!(policy.effect(&ToolCall::new("charge")), Effect::Write);
    /// ```
    pub fn new() -> Self {
        Self::with_effect(Unmarked)
    }
}

impl ToolPolicy<ToolMarks> {
    /// The table of the [module](crate::tool); each tool is what its mark says, and an unmarked one is a write.
    ///
    /// ```
    /// use tower_composure::ToolPolicy;
    /// use tower_composure::tool::ToolMarks;
    ///
    /// let policy = ToolPolicy::marked(ToolMarks::new().read("balance").idempotent_write("charge"));
    /// ```
    pub fn marked(marks: ToolMarks) -> Self {
        Self::with_effect(marks)
    }
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> ToolPolicy<F> {
    fn with_effect(effect: F) -> Self {
        Self {
            effect,
            rules: Arc::default(),
        }
    }

    /// What each request does.
    ///
    /// ```
    /// use tower_composure::{Effect, ToolCall, ToolPolicy};
    ///
    /// let policy = ToolPolicy::new().effect_fn(|call: &ToolCall| {
    ///     if call.name.starts_with("get_") { Effect::Read } else { Effect::Write }
    /// });
    /// ```
    #[must_use]
    pub fn effect_fn<Req, G>(self, effect: G) -> ToolPolicy<G>
    where
        G: Fn(&Req) -> Effect,
    {
        ToolPolicy {
            effect,
            rules: self.rules,
        }
    }

    /// What a code means for these tools: `UNAVAILABLE` is [`Verdict::REFUSED`] where their author says that they
    /// answer it before they do anything. A hint in the map still counts.
    ///
    /// ```
    /// use tower_composure::{ToolPolicy, Verdict};
    ///
    /// let policy = ToolPolicy::new().code("UNAVAILABLE", Verdict::REFUSED);
    /// ```
    #[must_use]
    pub fn code(mut self, code: impl Into<String>, verdict: Verdict) -> Self {
        let code = code.into();
        let codes = &mut Arc::make_mut(&mut self.rules).codes;
        codes.retain(|(known, _)| *known != code);
        codes.push((code, verdict));
        self
    }

    /// Another way in which a map says that it failed: one of [`shape`]'s, or a closure. It
    /// returns `None` for a map that is not of its form.
    ///
    /// ```
    /// use tower_composure::ToolPolicy;
    /// use tower_composure::tool::shape;
    ///
    /// let policy = ToolPolicy::new().shape(shape::mcp);
    /// ```
    #[must_use]
    pub fn shape<R>(mut self, read: R) -> Self
    where
        R: Fn(&Map<String, Value>) -> Option<Reading<'_>> + Send + Sync + 'static,
    {
        let shapes = &mut Arc::make_mut(&mut self.rules).shapes;
        shapes.push(Arc::new(read));
        self
    }

    /// What a map says.
    pub(super) fn read<'a>(&self, map: &'a Map<String, Value>) -> Reading<'a> {
        let mut shapes = self.rules.shapes.iter();
        let read = shapes.find_map(|shape| shape(map));
        read.unwrap_or_else(|| shape::own(map))
    }

    fn of_failure(&self, failure: Failure<'_>) -> Verdict {
        let verdict = failure
            .code
            .map_or(Verdict::Fault, |code| self.of_code(code));
        let verdict = match failure.retryable {
            // It is not retried, and counts for the breaker as what it is.
            Some(false) => return verdict.with_hint(Some(Hint::never())),
            Some(true) if verdict == Verdict::Fault => Verdict::UNKNOWN,
            _ => verdict,
        };
        verdict.with_hint(failure.wait.map(Hint::after))
    }

    fn of_code(&self, code: &str) -> Verdict {
        let known = self.rules.codes.iter().find(|(known, _)| known == code);
        known.map_or_else(|| codes::verdict(code), |(_, verdict)| *verdict)
    }

    /// A code as the author of the policy wrote it, where it is one of those.
    pub(super) fn known_code(&self, code: &str) -> Option<&str> {
        let known = self.rules.codes.iter().find(|(known, _)| known == code);
        known.map(|(known, _)| known.as_str())
    }

    #[cfg(feature = "http")]
    fn of_error<E: 'static>(&self, attempt: Attempt, error: &E) -> Verdict {
        use ::http::{Request, Response};

        let by_type: &dyn Policy<Request<()>, Response<()>, E> = &self.rules.errors;
        by_type.classify(&attempt, Err(error))
    }

    #[cfg(not(feature = "http"))]
    #[expect(clippy::unused_self, reason = "with `http` it is used")]
    fn of_error<E: 'static>(&self, attempt: Attempt, error: &E) -> Verdict {
        let by_type: &dyn Policy<(), (), E> = &attempt.effect();
        by_type.classify(&attempt, Err(error))
    }
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

impl<Req: 'static, E: 'static, F: Marks<Req>> Policy<Req, Map<String, Value>, E> for ToolPolicy<F> {
    fn effect(&self, request: &Req) -> Effect {
        self.effect.effect(request)
    }

    fn keyed(&self, request: &Req) -> bool {
        let request: &dyn Any = request;
        let call = request.downcast_ref::<ToolCall>();
        call.is_some_and(|call| call.key.is_some())
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&Map<String, Value>, &E>) -> Verdict {
        match outcome.map(|map| self.read(map)) {
            Ok(Reading::Success) => Verdict::Success,
            Ok(Reading::Handled) => Verdict::Rejected,
            Ok(Reading::Failed(failure)) => self.of_failure(failure),
            Err(error) => self.of_error(*attempt, error),
        }
    }
}

impl<F> fmt::Debug for ToolPolicy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolPolicy")
            .field("codes", &self.rules.codes)
            .field("shapes", &self.rules.shapes.len())
            .finish_non_exhaustive()
    }
}
