use rmcp::model::Tool;
use tower_composure::Effect;
use tower_composure::tool::ToolMarks;

/// What the tools of a server do, as the server says. Only for servers that you trust: one that calls a payment a read
/// has it made again.
pub fn annotated(tools: &[Tool]) -> ToolMarks {
    tools.iter().fold(ToolMarks::new(), |marks, tool| {
        marks.mark(tool.name.as_ref(), effect(tool))
    })
}

/// Both hints are false where they are absent.
fn effect(tool: &Tool) -> Effect {
    let annotations = tool.annotations.as_ref();
    if annotations.and_then(|hints| hints.read_only_hint) == Some(true) {
        Effect::Read
    } else if annotations.and_then(|hints| hints.idempotent_hint) == Some(true) {
        Effect::IdempotentWrite
    } else {
        Effect::Write
    }
}
