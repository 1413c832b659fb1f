//! Events of what the layers decide, through [`tracing`](https://docs.rs/tracing).
//!
//! [`TracingObserver`] is an [`Observer`](crate::Observer), given once to a stack. Its events have the target
//! `tower_composure`, a fixed message and these fields beside `dependency`:
//!
//! | message | level | fields |
//! |---|---|---|
//! | `attempt started` | TRACE | `attempt`, `effect`, `keyed` |
//! | `attempt finished` | DEBUG | `attempt`, `verdict`, `elapsed_seconds` |
//! | `retry scheduled` | DEBUG | `attempt` (the one that failed), `delay_seconds`, `delayed_by` |
//! | `retry refused` | DEBUG | `attempt`, `reason` |
//! | `call finished` | DEBUG; WARN where its outcome is unknown | `outcome`, `attempts`, `backoff_seconds`, `elapsed_seconds`, `outcome_unknown`, `reason` where a retry was refused |
//! | `budget deposit` | TRACE | `balance` |
//! | `budget withdrawal` | DEBUG | `balance` |
//! | `budget exhausted` | DEBUG | `balance` |
//! | `breaker transition` | WARN where it opens, INFO otherwise | `from`, `to`, `generation` |
//! | `breaker rejected a call` | DEBUG | `remaining_seconds` |
//! | `breaker probe` | DEBUG | |
//! | `deadline exceeded` | DEBUG | `limit`, `before_call` |
//! | `idempotency key minted`, `idempotency key kept` | TRACE | |
//!
//! What comes once a call is no louder than DEBUG, so that an outage of the dependency is not a flood of logs as well.
//! The exception is a call whose outcome is unknown: each of them is one for a person. No field holds a URL, a header, a
//! key, an argument or the text of an error.
//!
//! # Spans
//!
//! The events belong to the span that the call runs in. Where that span has declared fields of
//! [OpenTelemetry's](https://opentelemetry.io/docs/specs/semconv/http/http-spans/) (`http.request.resend_count = Empty`),
//! they are recorded: `http.request.resend_count` is the number of retries made so far, and `error.type` the outcome of a
//! call that failed, which is the verdict or `cancelled`.
//!
//! There is no span for an attempt: to hold one, a layer would have to be wrapped around the inner service, and one that
//! does so exists. Give the layer that makes spans below the stack the number of the attempt:
//!
//! ```
//! use tower_composure::Attempt;
//!
//! fn span_of_an_attempt() -> tracing::Span {
//!     let resends = Attempt::current().map_or(0, |attempt| attempt.number() - 1);
//!     let count = (resends > 0).then_some(resends);
//!     tracing::info_span!("attempt", http.request.resend_count = count, error.type = tracing::field::Empty)
//! }
//! # span_of_an_attempt();
//! ```
//!
//! # Where in the stack
//!
//! Beside it: [`StackBuilder::observer`](crate::stack::StackBuilder::observer) hands it to all layers, and each layer that
//! stands alone has a setter of that name. A breaker that is given to a stack brings its own.
//!
//! # Cancellation, errors
//!
//! A call that is dropped ends with the outcome `cancelled`. There are no errors.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use tower_composure::tracing::TracingObserver;
//! use tower_composure::{Effect, Stack};
//!
//! let stack = Stack::builder(Effect::Read)
//!     .dependency("payments")
//!     .observer(Arc::new(TracingObserver::new()))
//!     .build();
//! # assert!(stack.is_ok());
//! ```

mod observer;

pub use observer::TracingObserver;
