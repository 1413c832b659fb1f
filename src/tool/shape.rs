//! How a map says that it failed: this crate's own form, and those of frameworks.
//!
//! [`ToolPolicy`](super::ToolPolicy) reads the [own](mod@crate::tool) form of a map. A framework that has another one is
//! added with [`ToolPolicy::shape`](super::ToolPolicy::shape); the shapes are asked in turn, the own form last.
//!
//! | shape | it reads |
//! |---|---|
//! | [`adk`] | `{"error": …, "error_code": "…"}` (the skill tool set), `{"status": "error", "error_message": …}`, and the answer of the reflect-and-retry plugin, which is neither a success nor a failure of the tool. `{"error": "text"}` is read by the own form already: it hides its cause |
//! | [`mcp`] | `{"isError": …}`, the result of an MCP `tools/call`, with a code where `structuredContent` has an `error.code` |
//! | [`google_rpc`] | `{"error": {"code": 503, "status": "UNAVAILABLE", "details": […]}}`, what Google's APIs answer over HTTP |
//!
//! ```
//! use tower_composure::{ToolPolicy, tool::shape::{self, Failure, Reading}};
//!
//! let policy = ToolPolicy::new()
//!     .shape(shape::mcp)
//!     .shape(|map| {
//!         let code = map.get("errno")?.as_str()?;
//!         Some(Reading::Failed(Failure::new().code(code)))
//!     });
//! # let _ = policy;
//! ```

use std::time::Duration;

use serde_json::{Map, Value};

use super::hint;

/// What a shape reads in a map.
///
/// ```
/// use tower_composure::tool::shape::Reading;
/// use tower_composure::{ToolPolicy, tool::ToolResponse};
///
/// fn ours(map: &ToolResponse) -> Option<Reading<'_>> {
///     (map.get("ok")? == true).then_some(Reading::Success)
/// }
///
/// let policy = ToolPolicy::new().shape(ours);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading<'a> {
    /// The tool did what was asked.
    Success,
    /// The tool failed.
    Failed(Failure<'a>),
    /// Somebody has dealt with a failure already and tells the model what to do: this is final, and says nothing of the
    /// tool.
    Handled,
}

/// What a map says of its failure. With no code it hides its cause.
///
/// Its `Debug` does not show the code, which may be any text.
///
/// ```
/// use tower_composure::tool::shape::{Failure, Reading};
///
/// let reading = Reading::Failed(Failure::new().code("UNAVAILABLE").retryable(true));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Failure<'a> {
    pub(super) code: Option<&'a str>,
    pub(super) retryable: Option<bool>,
    pub(super) wait: Option<Duration>,
}

impl<'a> Failure<'a> {
    /// It says nothing more.
    ///
    /// ```
    /// use tower_composure::tool::shape::{Failure, Reading};
    ///
    /// let hides_its_cause = Reading::Failed(Failure::new());
    /// ```
    pub const fn new() -> Self {
        Self {
            code: None,
            retryable: None,
            wait: None,
        }
    }

    /// The code, which is looked up in the policy's table.
    ///
    /// ```
    /// use tower_composure::tool::shape::Failure;
    ///
    /// let failure = Failure::new().code("NOT_FOUND");
    /// ```
    #[must_use]
    pub const fn code(mut self, code: &'a str) -> Self {
        self.code = Some(code);
        self
    }

    /// Whether it says that it may be retried.
    ///
    /// ```
    /// use tower_composure::tool::shape::Failure;
    ///
    /// let failure = Failure::new().retryable(false);
    /// ```
    #[must_use]
    pub const fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = Some(retryable);
        self
    }

    /// How long it asks to wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::tool::shape::Failure;
    ///
    /// let failure = Failure::new().code("RATE_LIMITED").wait(Duration::from_secs(30));
    /// ```
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// With a code, a flag and a wait where these maps have them; the longest wait counts, and `false` beats `true`.
    fn of(code: Option<&'a Value>, maps: &[&Map<String, Value>]) -> Self {
        let mut failure = Self {
            code: code.and_then(Value::as_str),
            ..Self::new()
        };
        for map in maps {
            if let Some(flag) = map.get("retryable").and_then(Value::as_bool) {
                failure.retryable = Some(flag && failure.retryable != Some(false));
            }
            failure.wait = failure.wait.max(hint::wait(map));
        }
        failure
    }
}

impl std::fmt::Debug for Failure<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failure")
            .field("code", &self.code.is_some())
            .field("retryable", &self.retryable)
            .field("wait", &self.wait)
            .finish()
    }
}

/// This crate's own form. It reads every map.
pub(super) fn own(map: &Map<String, Value>) -> Reading<'_> {
    let failed = match map.get("status") {
        Some(status) => status.as_str() == Some("error"),
        None => map.contains_key("error"),
    };
    if !failed {
        return Reading::Success;
    }
    Reading::Failed(match map.get("error").and_then(Value::as_object) {
        Some(error) => Failure::of(error.get("code"), &[error, map]),
        None => Failure::of(None, &[map]),
    })
}

/// The Agent Development Kit.
///
/// ```
/// use serde_json::json;
/// use tower_composure::tool::shape::{Reading, adk};
///
/// let map = json!({"status": "error", "error_message": "no such order"});
/// assert!(matches!(adk(map.as_object().unwrap()), Some(Reading::Failed(_))));
/// ```
pub fn adk(map: &Map<String, Value>) -> Option<Reading<'_>> {
    let handled = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN";
    if map.get("response_type").and_then(Value::as_str) == Some(handled) {
        return Some(Reading::Handled);
    }
    let says_so = map.get("status").and_then(Value::as_str) == Some("error");
    let by_code = map.contains_key("error") && map.contains_key("error_code");
    (by_code || says_so && map.contains_key("error_message"))
        .then(|| Reading::Failed(Failure::of(map.get("error_code"), &[map])))
}

/// The result of an MCP `tools/call`.
///
/// ```
/// use serde_json::json;
/// use tower_composure::tool::shape::{Reading, mcp};
///
/// let map = json!({"content": [], "isError": true});
/// assert!(matches!(mcp(map.as_object().unwrap()), Some(Reading::Failed(_))));
/// ```
pub fn mcp(map: &Map<String, Value>) -> Option<Reading<'_>> {
    if !map.get("isError")?.as_bool()? {
        // The server says that it worked; what it says of its own accord in the structured content still counts.
        let content = map.get("structuredContent").and_then(Value::as_object);
        return Some(content.map_or(Reading::Success, own));
    }
    let error = map
        .get("structuredContent")
        .and_then(|content| content.get("error"))
        .and_then(Value::as_object);
    Some(Reading::Failed(match error {
        Some(error) => Failure::of(error.get("code"), &[error]),
        None => Failure::new(),
    }))
}

/// `google.rpc.Status` as JSON, whose `code` is a number and whose `status` is the name of the code.
///
/// ```
/// use serde_json::json;
/// use tower_composure::tool::shape::{Reading, google_rpc};
///
/// let map = json!({"error": {"code": 503, "status": "UNAVAILABLE"}});
/// assert!(matches!(google_rpc(map.as_object().unwrap()), Some(Reading::Failed(_))));
/// ```
pub fn google_rpc(map: &Map<String, Value>) -> Option<Reading<'_>> {
    let error = map.get("error")?.as_object()?;
    error.get("code")?.as_number()?;
    let status = error.get("status").filter(|status| status.is_string())?;
    Some(Reading::Failed(Failure::of(Some(status), &[error])))
}
