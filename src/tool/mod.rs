//! Tools of a language model: failures that arrive as JSON maps inside `Ok`.
//!
//! A tool rarely fails with an `Err`. It answers with a map for the model to read, and whoever looks at errors only sees
//! a hundred percent of successes. [`ToolPolicy`] classifies the map.
//!
//! # What a map says
//!
//! A map is a failure where its `status` is `"error"`, or where it has no `status` and an `error`. Everything else is a
//! success. Of a failure, `error.code` says what it means:
//!
//! | code | verdict |
//! |---|---|
//! | `UNAVAILABLE`, `DEADLINE_EXCEEDED`, `ABORTED`, `CANCELLED` | `Unknown`: the tool may have done what was asked |
//! | `RATE_LIMITED`, `THROTTLED`, `RESOURCE_EXHAUSTED` | `Throttled` |
//! | `QUOTA_EXCEEDED`, `INSUFFICIENT_QUOTA`, `BILLING_…` in any case | `Rejected`: final, whatever it came with |
//! | `INVALID_ARGUMENT`, `NOT_FOUND`, `ALREADY_EXISTS`, `PERMISSION_DENIED`, `UNAUTHENTICATED`, `FAILED_PRECONDITION`, `OUT_OF_RANGE`, `UNIMPLEMENTED` | `Rejected` |
//! | `INTERNAL`, any other code, no code, or a code that is no text | `Fault`: it hides its cause, so it is never retried |
//!
//! `error.retryable` beats the code, but never the safety of a write: `false` makes it final, and `true` makes a `Fault`
//! `Unknown`, which is retried for reads and idempotent writes alone. A wait is read from `error.retryDelay` (a protobuf
//! duration such as `"45.8s"`, also inside of `error.details`) and from `error.retry_after` (seconds); the longest
//! counts, as a floor. A malformed map is never a panic.
//!
//! # Which effect
//!
//! An unmarked tool is a [`Write`](crate::Effect::Write). Mark reads and idempotent writes with
//! [`ToolPolicy::effect_fn`].
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use std::convert::Infallible;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use serde_json::{Map, Value, json};
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{Effect, RetryLayer, ToolPolicy};
//!
//! fn map(value: Value) -> Map<String, Value> {
//!     value.as_object().cloned().unwrap_or_default()
//! }
//!
//! static CALLS: AtomicU32 = AtomicU32::new(0);
//! let policy = ToolPolicy::new().effect_fn(|tool: &&str| match *tool {
//!     "balance" => Effect::Read,
//!     _ => Effect::Write,
//! });
//! let tool = ServiceBuilder::new().layer(RetryLayer::new(policy)).service_fn(|_: &str| async {
//!     Ok::<_, Infallible>(map(match CALLS.fetch_add(1, Ordering::Relaxed) {
//!         0 => json!({"status": "error", "error": {"code": "UNAVAILABLE"}}),
//!         _ => json!({"status": "ok", "balance": 7}),
//!     }))
//! });
//! assert_eq!(tool.oneshot("balance").await.unwrap()["balance"], 7);
//! # }
//! ```

mod hint;
mod policy;

pub use policy::{ToolPolicy, Unmarked};
