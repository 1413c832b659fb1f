use std::collections::HashMap;
use std::sync::Arc;

use super::ToolCall;
use super::policy::Marks;
use crate::effect::Effect;

/// What each tool does, by name. A tool that is not listed is a [`Write`](Effect::Write).
///
/// Make one list and give it to policy, key layer and envelope alike, so that they cannot disagree. Cheap to clone.
///
/// ```
/// use tower_composure::{Effect, tool::ToolMarks};
///
/// let marks = ToolMarks::new().read("balance").idempotent_write("charge");
/// assert_eq!(marks.effect("balance"), Effect::Read);
/// assert_eq!(marks.effect("never heard of"), Effect::Write);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ToolMarks {
    tools: Arc<HashMap<String, Effect>>,
}

impl ToolMarks {
    /// No tool is marked.
    ///
    /// ```
    /// use tower_composure::Effect;
    /// use tower_composure::tool::ToolMarks;
    ///
    /// assert_eq!(ToolMarks::new().effect("charge"), Effect::Write);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// This tool changes nothing.
    ///
    /// ```
    /// use tower_composure::Effect;
    /// use tower_composure::tool::ToolMarks;
    ///
    /// assert_eq!(ToolMarks::new().read("balance").effect("balance"), Effect::Read);
    /// ```
    #[must_use]
    pub fn read(self, tool: impl Into<String>) -> Self {
        self.mark(tool, Effect::Read)
    }

    /// This tool changes something, but a repeat changes nothing more: by its nature, or because it sends its key to a
    /// server that honours keys and a [`ToolKeyLayer`](super::ToolKeyLayer) makes one.
    ///
    /// ```
    /// use tower_composure::Effect;
    /// use tower_composure::tool::ToolMarks;
    ///
    /// assert_eq!(ToolMarks::new().idempotent_write("charge").effect("charge"), Effect::IdempotentWrite);
    /// ```
    #[must_use]
    pub fn idempotent_write(self, tool: impl Into<String>) -> Self {
        self.mark(tool, Effect::IdempotentWrite)
    }

    /// This tool changes something each time, which is also what an unmarked one does.
    ///
    /// ```
    /// use tower_composure::Effect;
    /// use tower_composure::tool::ToolMarks;
    ///
    /// assert_eq!(ToolMarks::new().write("send_mail").effect("send_mail"), Effect::Write);
    /// ```
    #[must_use]
    pub fn write(self, tool: impl Into<String>) -> Self {
        self.mark(tool, Effect::Write)
    }

    /// Marks a tool; the last mark counts.
    ///
    /// ```
    /// use tower_composure::Effect;
    /// use tower_composure::tool::ToolMarks;
    ///
    /// let marks = ["balance", "history"].into_iter().fold(ToolMarks::new(), |marks, tool| marks.mark(tool, Effect::Read));
    /// assert_eq!(marks.effect("history"), Effect::Read);
    /// ```
    #[must_use]
    pub fn mark(mut self, tool: impl Into<String>, effect: Effect) -> Self {
        Arc::make_mut(&mut self.tools).insert(tool.into(), effect);
        self
    }

    /// What a tool does.
    ///
    /// ```
    /// use tower_composure::Effect;
    /// use tower_composure::tool::ToolMarks;
    ///
    /// assert_eq!(ToolMarks::new().read("balance").effect("a tool that nobody marked"), Effect::Write);
    /// ```
    pub fn effect(&self, tool: &str) -> Effect {
        self.tools.get(tool).copied().unwrap_or(Effect::Write)
    }
}

impl Marks<ToolCall> for ToolMarks {
    fn effect(&self, call: &ToolCall) -> Effect {
        Self::effect(self, &call.name)
    }
}
