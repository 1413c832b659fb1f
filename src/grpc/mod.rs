//! gRPC: what a code means, and how long a server pushes back.
//!
//! [`GrpcPolicy`] classifies what a channel answers, below the generated client: `http::Response`s whose status is in
//! `grpc-status`, and the types of errors. It works over tonic's `Channel` and over any other service of
//! `http::Request`s.
//!
//! # What is retried
//!
//! By method: gRPC is all POST, so unless somebody says otherwise every call is a write, and is retried only on proof
//! that it had no effect. [`GrpcPolicy::effect_fn`] says it by path, an [`Effect`](crate::Effect) in the extensions of
//! one request (tonic keeps those of its `Request`) for that request.
//!
//! By code:
//!
//! | code | verdict |
//! |---|---|
//! | `OK` | `Success` |
//! | `UNAVAILABLE`, `DEADLINE_EXCEEDED`, `ABORTED`, `CANCELLED` | `Unknown`: the request may have been carried out |
//! | `RESOURCE_EXHAUSTED` | `Throttled` |
//! | `UNKNOWN`, `INTERNAL`, `DATA_LOSS` and numbers nobody has defined | `Fault`: a repeat will not help |
//! | `INVALID_ARGUMENT`, `NOT_FOUND`, `ALREADY_EXISTS`, `PERMISSION_DENIED`, `UNAUTHENTICATED`, `FAILED_PRECONDITION`, `OUT_OF_RANGE`, `UNIMPLEMENTED` | `Rejected` |
//!
//! [`GrpcPolicy::code`] changes it. Whose server answers `UNAVAILABLE` before it does anything, and who has no proxy in
//! between that answers so when it has lost the server's answer, sets it to `Refused`; then writes are retried too. Whose
//! server can run out of something half way sets `RESOURCE_EXHAUSTED` to `Unknown`.
//!
//! By HTTP status, where an answer other than 200 has no `grpc-status` (gRPC, "HTTP to gRPC Status Code Mapping"): 400
//! is `INTERNAL`, 401 `UNAUTHENTICATED`, 403 `PERMISSION_DENIED`, 404 `UNIMPLEMENTED`; 429, 502, 503 and 504 are
//! `UNAVAILABLE`, with the wait of their `Retry-After` if they have one; everything else is `UNKNOWN`. Their verdicts
//! are those of the table above: what was set for the server's codes is not said of who answered in its place.
//!
//! By error, as [`HttpPolicy`](crate::HttpPolicy) does it: a connection that was never made is `Refused`, everything
//! else `Unknown`.
//!
//! # When a call is committed
//!
//! When the headers of an answer are there and the status is not among them, the call has succeeded as far as this
//! crate is concerned, as in gRFC A6 ("When Retries are Valid"): what the trailers then say is the caller's. So only
//! *trailers-only* answers are retried, which is what servers send when a method fails before its first message. Some
//! send headers and trailers apart, with nothing in between; a [`PeekStatusLayer`] below the retry finds those. It looks
//! at the body once, when the headers arrive, and waits for nothing: a body whose first frame is not there yet, or is
//! data, goes on as it is.
//!
//! # Pushback
//!
//! `grpc-retry-pushback-ms` (gRFC A6, "Pushback"): the retry comes after exactly that long, with no backoff and no jitter; a
//! value that is negative, or that cannot be read, asks for no retry. It never makes a code retryable that is not.
//! Unlike A6 has it, the backoff does not start anew after a pushback.
//!
//! # What else A6 has
//!
//! Attempts: gRPC's own clients cap them at 5. A stream that the server refused is an ordinary retry here: it counts as
//! an attempt, waits, and takes a token. `grpc-previous-rpc-attempts` and `grpc-timeout` are sent by the layers of
//! [`wire`](crate::wire).
//!
//! # Over tonic
//!
//! A generated client takes the stack in the place of its channel. Two things to know:
//!
//! - The body of its requests is a stream and cannot be cloned, so the stack needs a
//!   [replay strategy](crate::retry::Replay), or bodies that are collected above it, as in the example `grpc_client`.
//! - A `Channel` reads `grpc-timeout` too and ends the attempt by itself, about when the deadline does. A
//!   [`DeadlineHeaderLayer`](crate::DeadlineHeaderLayer) leaves that to the deadline.
//!
//! # When to use
//!
//! Around a channel, below the generated client.
//!
//! # When not to
//!
//! For what speaks JSON over HTTP in front of a gRPC server, which answers in statuses:
//! [`HttpPolicy`](crate::HttpPolicy). For a stream of messages that has begun: it is the caller's, and nothing repeats it.
//!
//! # Where in the stack
//!
//! The policy: in the [`Stack`](crate::Stack), or in the retry and the breaker. [`PeekStatusLayer`]: below the retry.
//!
//! # Cancellation
//!
//! Dropping the future of a [`PeekStatusService`] drops the inner one.
//!
//! # Errors
//!
//! None of its own.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use tower::{BoxError, ServiceBuilder};
//! use tower_composure::grpc::{Code, PeekStatusLayer};
//! use tower_composure::{
//!     AttemptHeaderLayer, DeadlineHeaderLayer, Effect, GrpcPolicy, Stack, Verdict,
//! };
//!
//! let policy = GrpcPolicy::new()
//!     .code(Code::Unavailable, Verdict::REFUSED) // it answers so while it starts, before it does anything
//!     .effect_fn(|path| match path {
//!         "/payments.Payments/Look" => Effect::Read,
//!         _ => Effect::Write,
//!     });
//! let layers = ServiceBuilder::new()
//!     .layer(Stack::builder(policy).call_deadline(Duration::from_secs(2)).build()?)
//!     .layer(AttemptHeaderLayer::grpc())
//!     .layer(DeadlineHeaderLayer::grpc())
//!     .layer(PeekStatusLayer::new());
//! # type Body = http_body_util::Empty<&'static [u8]>;
//! # let channel = tower::service_fn(|_: http::Request<()>| async { Ok::<_, BoxError>(http::Response::new(Body::new())) });
//! # let _ = tower::util::BoxCloneService::new(layers.service(channel));
//! # Ok::<(), BoxError>(())
//! ```

mod code;
mod policy;
mod response;
#[warn(
    clippy::arithmetic_side_effects,
    reason = "whatever a server sends must not panic"
)]
mod status;
mod trailers;

pub use code::Code;
pub use policy::GrpcPolicy;
pub use response::error_response;
pub use trailers::{PeekStatusFuture, PeekStatusLayer, PeekStatusService, Peeked};
