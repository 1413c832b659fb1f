//! Tools of a language model: failures that arrive as JSON maps inside `Ok`.
//!
//! A tool rarely fails with an `Err`. It answers with a map for the model to read, and whoever looks at errors only sees
//! a hundred percent of successes. [`ToolPolicy`] classifies the map.
//!
//! # The words
//!
//! | name | what it is |
//! |---|---|
//! | [`ToolCall`] | a call as a model asks for it: `name`, `args`, `invocation_id`, `function_call_id`, `key` |
//! | [`ToolResponse`] | the JSON map that a tool answers with |
//! | [`tool_fn()`], [`ToolSet`] | a tool from an async function; tools behind one service, routed by name |
//! | [`ToolMarks`] | which tool is a read, an idempotent write or a write |
//! | [`ToolPolicy`] | what an error or a map means; [`shape`] for the maps of frameworks |
//! | [`ToolKeyLayer`] | one idempotency key a call |
//! | [`EnvelopeLayer`] | what the model is told; its fields and their schema are in [`envelope`] |
#![cfg_attr(
    feature = "http",
    doc = "| [`HttpOperation`] | a tool from an HTTP client |"
)]
//!
//! # What a map says
//!
//! A map is a failure where its `status` is `"error"`, or where it has no `status` and an `error`. Everything else is a
//! success. Of a failure, `error.code` says what it means:
//!
//! | code | verdict |
//! |---|---|
//! | `UNAVAILABLE`, `DEADLINE_EXCEEDED`, `ABORTED`, `CANCELLED`, `OUTCOME_UNKNOWN` | `Unknown`: the tool may have done what was asked |
//! | `RATE_LIMITED`, `THROTTLED`, `RESOURCE_EXHAUSTED` | `Throttled` |
//! | `QUOTA_EXCEEDED`, `INSUFFICIENT_QUOTA`, `BILLING_…` in any case | `Rejected`: final, whatever it came with |
//! | `INVALID_ARGUMENT`, `NOT_FOUND`, `ALREADY_EXISTS`, `PERMISSION_DENIED`, `UNAUTHENTICATED`, `FAILED_PRECONDITION`, `OUT_OF_RANGE`, `UNIMPLEMENTED`, `UNKNOWN_TOOL`, `REJECTED` | `Rejected` |
//! | `INTERNAL`, any other code, no code, or a code that is no text | `Fault`: it hides its cause, so it is never retried |
//!
//! `retryable`, in the error or beside it, beats the code, but never the safety of a write: `false` makes it final, and `true` makes a `Fault`
//! `Unknown`, which is retried for reads and idempotent writes alone. A wait is read from `error.retryDelay` (a protobuf
//! duration such as `"45.8s"`, also inside of `error.details`) and from `error.retry_after` (seconds), also beside the error; the longest
//! counts, as a floor. A malformed map is never a panic.
//!
//! # Which effect
//!
//! An unmarked tool is a [`Write`](crate::Effect::Write). Mark reads and idempotent writes with [`ToolMarks`], or by a
//! closure with [`ToolPolicy::effect_fn`].
//!
//! # The stack of a tool
//!
//! ```text
//! EnvelopeLayer                the model's view of every ending
//!   ToolKeyLayer                 one key a call, in scope for all that the tool does
//!     ToolSet                      routes by name
//!       Stack                        breaker, deadlines, budget, retry: one for each dependency
//!         the tool
//! ```
//!
//! Each layer works over any service of [`ToolCall`]s, and alone.
//!
//! # Cancellation, errors
//!
//! Dropping a call drops the tool's future. A policy and a [`ToolSet`] have no errors of their own; an [`EnvelopeLayer`] has
//! none at all, since it tells them to the model.
//!
//! # One owner of retries
//!
//! An agent loop that calls again, a decorator around a tool and the HTTP client in it, each with three attempts, are 27
//! requests for one call. Put a [`RetryLayer`](crate::RetryLayer) into each of them and they are three: the outermost
//! one that can act owns the call, and those in its scope make one attempt. What is not of this crate has to be switched
//! off by hand: hyper-util's `retry_canceled_requests`, a framework's own plugin. A model that asks again for the same is
//! another call; a key [from the arguments](ToolKeyLayer::from_arguments) makes it the same order.
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
//! use std::convert::Infallible;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt, util::BoxCloneSyncService};
//! use tower_composure::tool::{EnvelopeLayer, ToolCall, ToolKeyLayer, ToolMarks, ToolSet, tool_fn};
//! use tower_composure::{Stack, ToolPolicy};
//!
//! let marks = ToolMarks::new().read("balance").idempotent_write("charge");
//! let policy = ToolPolicy::marked(marks.clone());
//!
//! static CALLS: AtomicU32 = AtomicU32::new(0);
//! let balance = ServiceBuilder::new().layer(Stack::builder(policy.clone()).build()?).service(tool_fn(|_| async {
//!     Ok::<_, Infallible>(match CALLS.fetch_add(1, Ordering::Relaxed) {
//!         0 => json!({"status": "error", "error": {"code": "UNAVAILABLE"}}),
//!         _ => json!({"status": "ok", "balance": 7}),
//!     })
//! }));
//! let tools = ServiceBuilder::new()
//!     .layer(EnvelopeLayer::new(policy))
//!     .layer(ToolKeyLayer::new().marks(marks))
//!     .service(ToolSet::builder().tool("balance", BoxCloneSyncService::new(balance)).build()?);
//! assert_eq!(tools.oneshot(ToolCall::new("balance")).await?["balance"], 7);
//! # Ok(()) }
//! ```

mod call;
mod codes;
mod derive;
pub mod envelope;
mod hint;
mod key;
mod marks;
#[cfg(feature = "http")]
pub mod operation;
mod policy;
mod set;
pub mod shape;
mod tool_fn;

pub use call::{ToolCall, ToolResponse};
pub use envelope::EnvelopeLayer;
pub use key::{ToolKeyFuture, ToolKeyLayer, ToolKeyService};
pub use marks::ToolMarks;
#[cfg(feature = "http")]
pub use operation::HttpOperation;
pub use policy::{ToolPolicy, Unmarked};
pub use set::{ToolSet, ToolSetBuilder, ToolSetFuture};
pub use tool_fn::{IntoToolResponse, ToolFn, ToolFnFuture, tool_fn};
