use std::fmt;

use serde_json::{Map, Value};

use crate::idempotency_key::IdempotencyKey;

/// What a tool answers with: a JSON map for the model to read.
///
/// ```
/// use serde_json::json;
/// use tower_composure::tool::ToolResponse;
///
/// let answer = ToolResponse::from_iter([("status".to_owned(), json!("ok"))]);
/// assert_eq!(answer["status"], "ok");
/// ```
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
    ///
    /// ```
    /// use tower_composure::ToolCall;
    ///
    /// assert_eq!(ToolCall::new("charge").name, "charge");
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds an argument, or replaces it.
    ///
    /// ```
    /// use tower_composure::ToolCall;
    ///
    /// assert_eq!(ToolCall::new("charge").arg("order", 7).args["order"], 7);
    /// ```
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.args.insert(name.into(), value.into());
        self
    }

    /// All arguments, in place of those it has.
    ///
    /// ```
    /// use tower_composure::ToolCall;
    ///
    /// let asked = ToolCall::new("quote").arg("order", 7);
    /// let call = ToolCall::new("charge").args(asked.args);
    /// assert_eq!(call.args["order"], 7);
    /// ```
    #[must_use]
    pub fn args(mut self, args: Map<String, Value>) -> Self {
        self.args = args;
        self
    }

    /// The turn that this call belongs to.
    ///
    /// ```
    /// use tower_composure::ToolCall;
    ///
    /// let call = ToolCall::new("charge").invocation_id("turn-3").function_call_id("call_1");
    /// assert_eq!(call.invocation_id.as_deref(), Some("turn-3"));
    /// ```
    #[must_use]
    pub fn invocation_id(mut self, id: impl Into<String>) -> Self {
        self.invocation_id = Some(id.into());
        self
    }

    /// This call within its turn.
    ///
    /// ```
    /// use tower_composure::ToolCall;
    ///
    /// let call = ToolCall::new("charge").invocation_id("turn-3").function_call_id("call_1");
    /// assert_eq!(call.function_call_id.as_deref(), Some("call_1"));
    /// ```
    #[must_use]
    pub fn function_call_id(mut self, id: impl Into<String>) -> Self {
        self.function_call_id = Some(id.into());
        self
    }

    /// An idempotency key of the caller's own. No layer replaces it.
    ///
    /// ```
    /// use tower_composure::{IdempotencyKey, ToolCall};
    ///
    /// let call = ToolCall::new("charge").key(IdempotencyKey::new("order-7")?);
    /// assert_eq!(call.key.unwrap().as_str(), "order-7");
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
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
