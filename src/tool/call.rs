use std::fmt;

use serde_json::{Map, Value};

use crate::idempotency_key::IdempotencyKey;

/// What a tool answers with: a JSON map for the model to read.
pub type ToolResponse = Map<String, Value>;

/// One call of a tool, as a model asked for it.
///
/// Its `Debug` shows the name alone: arguments are the customer's.
///
/// ```
/// use tower_composure::tool::ToolCall;
///
/// let call = ToolCall::new("charge")
///     .arg("order", 7)
///     .invocation_id("turn-3")
///     .function_call_id("call-1");
/// assert_eq!(call.args["order"], 7);
/// assert_eq!(format!("{call:?}"), r#"ToolCall { name: "charge", .. }"#);
/// ```
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub args: Map<String, Value>,
    /// The turn that this call belongs to. A driver that replays a whole turn uses it again.
    pub invocation_id: Option<String>,
    /// This call within its turn. A model that asks again for the same uses another one.
    pub function_call_id: Option<String>,
    /// The idempotency key: the caller's own, or what a [`ToolKeyLayer`](super::ToolKeyLayer) has made.
    pub key: Option<IdempotencyKey>,
}

impl ToolCall {
    /// A call of this tool, with no arguments, ids or key.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds an argument, or replaces it.
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.args.insert(name.into(), value.into());
        self
    }

    /// All arguments, in place of those it has.
    #[must_use]
    pub fn args(mut self, args: Map<String, Value>) -> Self {
        self.args = args;
        self
    }

    /// The turn that this call belongs to.
    #[must_use]
    pub fn invocation_id(mut self, id: impl Into<String>) -> Self {
        self.invocation_id = Some(id.into());
        self
    }

    /// This call within its turn.
    #[must_use]
    pub fn function_call_id(mut self, id: impl Into<String>) -> Self {
        self.function_call_id = Some(id.into());
        self
    }

    /// An idempotency key of the caller's own. No layer replaces it.
    #[must_use]
    pub fn key(mut self, key: IdempotencyKey) -> Self {
        self.key = Some(key);
        self
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
