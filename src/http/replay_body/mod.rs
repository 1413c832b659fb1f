//! Request bodies that are streamed and can still be sent again.
//!
//! A body that is read while it is sent is gone when the attempt fails. A [`ReplayBody`] lets the first attempt stream
//! as it would without it, and keeps what has passed, up to a bound, for the next one. Every attempt sends the same
//! bytes, in the same frames, with the same trailers and the same length (RFC 9110 §8.6): a replay sends what was kept
//! and then goes on with the original stream from wherever the attempt before it stopped.
//!
//! A replay that cannot be whole is not made. Where more than the bound has passed, or the stream has failed, the
//! attempt that is under way goes on untouched, and the call ends with its outcome and
//! [`StopReason::NotReplayable`](crate::StopReason::NotReplayable).
//!
//! # When to use
//!
//! For bodies that cannot be cloned: uploads, a proxy's incoming bodies, anything boxed.
//!
//! # When not to
//!
//! For bodies that can: `Full<Bytes>`, `Empty` and `String` are `Clone`, the first two for the price of a reference
//! count, and a retry over them needs none of this.
//!
//! # Where in the stack
//!
//! [`ReplayBodyLayer`] anywhere above the retry, and [`ReplayRequest`] as the retry's replay strategy. A [`ReplayBody`]
//! is not `Clone` on purpose: with the default strategy, which clones, a retry could not see that a body is lost, so
//! that combination does not compile.
//!
//! # One reader
//!
//! The stream has one reader, the newest attempt. An attempt that has ended for us may not have for the client: a
//! server can answer before it has read the request, and hyper goes on sending. A replay that begins meanwhile waits
//! until the attempt before it lets go of the stream, which that does when it is dropped, when it has read everything,
//! or when the stream makes it wait; in this last case it ends with an error, and its connection with it. What bounds the
//! replay's wait is the attempt's deadline.
//!
//! There is one lock for each body, taken when an attempt begins to read, when the stream makes it wait, and when it
//! lets go; none for a frame. The body that is streamed is in a `Box`, so that it can move from attempt to attempt
//! although it may be bound to its place once it was polled. A body that is empty from the start needs neither.
//!
//! # Cancellation
//!
//! Dropping an attempt's body hands the stream to the next one, with everything that was kept. Where no copy is left,
//! nothing is kept.
//!
//! # Errors
//!
//! `BoxError`: the stream's own error, or a [`ReplayBodyError`] where the body cannot be sent whole. That is never an
//! early end: a client that sees it aborts the request.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use axum::body::Body; // of a stream, so it cannot be cloned
//! use http::{Request, Response, StatusCode};
//! use http_body_util::BodyExt;
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::http::{ReplayBody, ReplayBodyLayer, ReplayRequest};
//! use tower_composure::{Attempt, BoxError, HttpPolicy, RetryLayer};
//!
//! let retry = RetryLayer::builder(HttpPolicy::new()).replay(ReplayRequest).build().unwrap();
//! let service = ServiceBuilder::new()
//!     .layer(ReplayBodyLayer::new()) // keeps up to 64 KiB
//!     .layer(retry)
//!     .service_fn(|request: Request<ReplayBody<Body>>| async move {
//!         let attempt = Attempt::current().unwrap().number();
//!         let sent = request.into_body().collect().await?.to_bytes();
//!         assert_eq!(sent, "an upload");
//!         let status = if attempt == 1 { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
//!         Ok::<_, BoxError>(Response::builder().status(status).body(()).unwrap())
//!     });
//! let upload = Request::put("/").body(Body::from("an upload")).unwrap();
//! assert_eq!(service.oneshot(upload).await.unwrap().status(), StatusCode::OK);
//! # }
//! ```
//!
//! Configured:
//!
//! ```
//! use tower_composure::http::{ReplayBodyLayer, ReplayRequest};
//! use tower_composure::{HttpPolicy, Stack};
//!
//! let stack = (
//!     ReplayBodyLayer::new().max_bytes(1024 * 1024),
//!     Stack::builder(HttpPolicy::new()).replay(ReplayRequest).build()?,
//! );
//! # let _ = stack;
//! # Ok::<(), tower_composure::ConfigError>(())
//! ```

mod body;
mod error;
mod layer;
mod replay;
#[warn(
    clippy::arithmetic_side_effects,
    reason = "whatever a body sends must not panic"
)]
mod shared;

pub use body::ReplayBody;
pub use error::ReplayBodyError;
pub use layer::{ReplayBodyLayer, ReplayBodyService};
pub use replay::ReplayRequest;
