//! What the model is told of a call that did not succeed.
//!
//! A model that reads "connection reset by peer" calls again, and a charge that may have been made is made twice. An
//! [`EnvelopeLayer`] turns every way in which a call can end without success into one map that says what happened and
//! what the model can do. A success goes up as it is.
//!
//! # When to use
//!
//! Outermost, over the tools of an agent.
//!
//! # When not to
//!
//! Where a program and not a model reads the answers. Without this layer nothing is changed: the last map or the error
//! comes up as the tool gave it.
//!
//! # Where in the stack
//!
//! Above everything else. It reads the [`CallReport`](crate::CallReport) of the retry below, and
//! [`BreakerOpen`](crate::BreakerOpen) and [`DeadlineExceeded`](crate::DeadlineExceeded) by their types. Layers that
//! look at the error itself, for a log, belong directly below it.
//!
//! # The fields
//!
//! | field | it says |
//! |---|---|
//! | `status` | `"error"` |
//! | `error.code` | what failed, in a word from the table of the [module above](crate::tool) or from the policy's own |
//! | `error.message` | the action in a sentence of ours |
//! | `retryable` | whether the model may call again |
//! | `action` | see below |
//! | `reason` | how the call ended: the name of a [`StopReason`](crate::StopReason), or `rejected`, `fault`, `not_ready`, `not_retried` |
//! | `attempts` | how often the tool was called; 0 where it was not |
//! | `retry_after` | with `retry_later`: whole seconds |
//! | `check_with` | with `check_state`: the tool to ask, where [one was named](EnvelopeLayer::check_with) |
//!
//! | ending | `error.code` | `action` |
//! |---|---|---|
//! | attempts, budget or anything else that stops a retry, after a failure without effect or of a read | `UNAVAILABLE`, `RATE_LIMITED`, `DEADLINE_EXCEEDED` | `retry_later`, after the wait that the tool asked for |
//! | an open breaker | `UNAVAILABLE` | `retry_later`, when it is no longer open |
//! | a deadline, of a read or before the call | `DEADLINE_EXCEEDED` | `retry_later` |
//! | **any attempt of a write may have had its effect**, whatever came after it | `OUTCOME_UNKNOWN` | `check_state` |
//! | `INVALID_ARGUMENT`, `OUT_OF_RANGE`, `NOT_FOUND` | that code | `fix_arguments` |
//! | any other rejection | its code, or `REJECTED` | `do_not_retry` |
//! | a map in which somebody else has told the model what to do ([`Handled`](crate::tool::shape::Reading::Handled)) | none: it comes up as it is, unless the outcome is unknown | |
//! | a fault | `INTERNAL` | `do_not_retry` |
//! | the tool says that it is not retryable, a breaker is forced open | as above | `do_not_retry` |
//!
//! No text, URL or argument of what is below goes into it.
//!
//! # Cancellation
//!
//! Dropping the future drops the inner one.
//!
//! # Errors
//!
//! `Infallible`: a failed readiness too is told by the next call.
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::tool::{EnvelopeLayer, ToolCall, ToolMarks, tool_fn};
//! use tower_composure::{Stack, ToolPolicy};
//!
//! let policy = ToolPolicy::marked(ToolMarks::new().write("charge"));
//! let tool = ServiceBuilder::new()
//!     .layer(EnvelopeLayer::new(policy.clone()).check_with("charge", "find_charge"))
//!     .layer(Stack::builder(policy).build()?)
//!     .service(tool_fn(|_| async { Err::<serde_json::Value, _>(std::io::Error::other("reset by 10.0.0.7")) }));
//! let told = tool.oneshot(ToolCall::new("charge").arg("card", "4242")).await?;
//! assert_eq!(serde_json::Value::Object(told), json!({
//!     "status": "error",
//!     "error": {
//!         "code": "OUTCOME_UNKNOWN",
//!         "message": "It may have been done or not. Do not call again; find out first whether it was done.",
//!     },
//!     "retryable": false,
//!     "action": "check_state",
//!     "check_with": "find_charge",
//!     "reason": "outcome_unknown",
//!     "attempts": 1,
//! }));
//! # Ok(()) }
//! ```
//!
//! # The schema
//!
//! [`SCHEMA`], as it is:
#![doc = concat!("```json\n", include_str!("envelope.schema.json"), "```")]

mod ending;
mod future;
mod layer;
mod service;

pub use future::EnvelopeFuture;
pub use layer::EnvelopeLayer;
pub use service::EnvelopeService;

/// The JSON Schema (draft 2020-12) of the envelope.
pub const SCHEMA: &str = include_str!("envelope.schema.json");
