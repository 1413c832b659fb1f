//! Tower middleware that keeps a caller calm when a dependency fails.
//!
//! Layers that classify an outcome before they retry it, spread retries with full jitter, stop at a deadline, share one
//! retry budget for each dependency, fail fast behind a circuit breaker, and give every write one idempotency key. They
//! wrap any `Service`, read one [`Verdict`], and so cannot disagree.
//!
//! # The map
//!
//! - Shared words: [`Effect`] and [`Verdict`], asked of a [`policy`]; the [`context`] that crosses layers; [`Attempt`],
//!   [`CallReport`] and [`StopReason`]; [`Observer`]; [`ConfigError`].
//! - One room a layer: [`retry`], [`budget`], [`deadline`], [`circuit_breaker`], [`idempotency_key`]. In each of them
//!   `layer` configures, `service` admits, `future` carries, and a pure core beside them decides.
//! - [`stack`]: all of them in the one order that works.
#![cfg_attr(
    all(feature = "http", feature = "tool"),
    doc = "- [`guide`]: what to decide, in which order, and why. Begin with its [checklist](guide::checklist)."
)]
#![cfg_attr(feature = "http", doc = "- [`mod@http`]: the policy for HTTP.")]
#![cfg_attr(
    feature = "http",
    doc = "- [`wire`]: attempts and deadlines as headers."
)]
#![cfg_attr(feature = "grpc", doc = "- [`grpc`]: the policy for gRPC.")]
#![cfg_attr(
    feature = "tool",
    doc = "- [`tool`]: tools of a language model, which answer in JSON maps."
)]
#![cfg_attr(
    feature = "keyed",
    doc = "- [`keyed`]: a budget and a breaker for each of many dependencies."
)]
#![cfg_attr(
    feature = "fault",
    doc = "- [`fault`]: faults on a schedule, for tests and drills."
)]
#![cfg_attr(
    feature = "metrics",
    doc = "- [`mod@metrics`]: counters, gauges and histograms of every decision."
)]
#![cfg_attr(
    feature = "tracing",
    doc = "- [`mod@tracing`]: events, and fields on the span of a call."
)]
//!
//! # The order
//!
//! ```text
//! CircuitBreakerLayer            an open breaker costs no attempt, no wait and no token
//!   DeadlineLayer::call            the whole call: attempts, waits and readiness in between
//!     IdempotencyKeyLayer            one key a call, the same on every attempt
//!       BudgetLayer                    lends the shared budget to the retry below it
//!         RetryLayer                     classifies, decides, waits
//!           DeadlineLayer::attempt         each attempt; never longer than what is left of the call
//!             the service
//! ```
//!
//! # Panics
//!
//! None on a setting, a request or an answer: a setting that cannot work is a [`ConfigError`] when it is built. Waits are
//! tokio's, so a call that waits needs a tokio runtime with its timer on.
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_composure::BoxError> {
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{Effect, Stack};
//!
//! let service = ServiceBuilder::new()
//!     .layer(Stack::builder(Effect::Read).build()?)
//!     .service_fn(|id: u64| async move { Ok::<_, std::io::Error>(id * 2) });
//! assert_eq!(service.oneshot(21).await?, 42);
//! # Ok(()) }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unreachable,
    reason = "whatever a peer sends must not panic"
)]

mod attempt;
mod clock;
mod effect;
mod error;
mod lanes;
mod observer;
mod rare;
mod ready;
mod report;
mod rng;
mod see;
mod sync;
mod tee;
mod verdict;

pub mod budget;
pub mod circuit_breaker;
pub mod context;
pub mod deadline;
#[cfg(feature = "fault")]
pub mod fault;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
// Its pages link to what the default features have.
#[cfg(all(feature = "http", feature = "tool"))]
pub mod guide;
pub mod idempotency_key;
#[cfg(feature = "keyed")]
pub mod keyed;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod policy;
pub mod retry;
pub mod stack;
#[cfg(feature = "tool")]
pub mod tool;
#[cfg(feature = "tracing")]
pub mod tracing;
#[cfg(feature = "http")]
pub mod wire;

pub use attempt::Attempt;
pub use budget::{Budget, BudgetLayer};
pub use circuit_breaker::{BreakerOpen, CircuitBreaker, CircuitBreakerLayer, CircuitState, Count};
pub use context::CallContext;
pub use deadline::{Deadline, DeadlineExceeded, DeadlineLayer};
pub use effect::Effect;
pub use error::{BoxError, ConfigError};
#[cfg(feature = "grpc")]
pub use grpc::GrpcPolicy;
#[cfg(feature = "http")]
pub use http::HttpPolicy;
pub use idempotency_key::IdempotencyKey;
#[cfg(feature = "http")]
pub use idempotency_key::{IdempotencyKeyLayer, KeyFormat};
#[cfg(feature = "metrics")]
pub use metrics::MetricsObserver;
pub use observer::{AttemptFinished, DelayedBy, Observer, RetryScheduled};
pub use policy::{Policy, policy_fn};
pub use report::{CallReport, StopReason};
pub use retry::{Backoff, Jitter, RetryLayer, RetryMode, RetrySwitch};
pub use stack::Stack;
#[cfg(feature = "tool")]
pub use tool::{EnvelopeLayer, ToolCall, ToolKeyLayer, ToolPolicy};
#[cfg(feature = "tracing")]
pub use tracing::TracingObserver;
pub use verdict::{Hint, Verdict};
#[cfg(feature = "http")]
pub use wire::{AttemptHeaderLayer, DeadlineFromHeaderLayer, DeadlineHeaderLayer};

/// The README's examples compile.
#[cfg(all(doctest, feature = "reqwest", feature = "tool"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
