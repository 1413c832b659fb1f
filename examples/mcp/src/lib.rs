//! MCP tools as tower services.
//!
//! [`McpTools`] wraps the `Peer` of an rmcp client as a service of [`ToolCall`](tower_composure::ToolCall)s, so that the
//! layers of `tower-composure` stack over it. [`Reconnecting`] is the same over a connection that is made again once it
//! has been lost, such as that to a child process. [`Shop`] is a server for both.
//!
//! What MCP means to the layers:
//!
//! - A result with `isError` is a failure inside of `Ok`; [`shape::mcp`](tower_composure::tool::shape::mcp) reads it. An
//!   error of the protocol is a map with a code of ours.
//! - A connection that is lost leaves the outcome of a call unknown: a read is repeated, a write is not, unless it
//!   carries a key that the server honours. MCP has no field for one, and each request has a new id, so the key goes
//!   into `_meta`, under a name that client and server agree on: [`KEY_FIELD`].
//! - `readOnlyHint` and `idempotentHint` say what a tool does, and the specification calls them untrusted.
//!   [`annotated`] believes them; call it for servers that you trust. Without it every tool is a write.
//! - A call that is dropped, by a deadline for instance, tells the server with `notifications/cancelled`. rmcp does that.

mod annotations;
mod client;
mod reconnect;
mod server;

pub use annotations::annotated;
pub use client::{KEY_FIELD, McpTools};
pub use reconnect::Reconnecting;
pub use server::{Fault, Shop};
