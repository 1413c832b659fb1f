//! What goes on the wire: the number of an attempt and the time that is left, as headers.
//!
//! The call context ends where a process ends. Three opt-in layers carry it on:
//!
//! - [`AttemptHeaderLayer`] tells the server which attempt a request is, so that it can tell load from retries, and
//!   shed retries first.
//! - [`DeadlineHeaderLayer`] tells it how much time is left, so that it does not work for a caller who has gone.
//! - [`DeadlineFromHeaderLayer`], in the server, puts that time into scope again, where its own stack obeys it and sends
//!   what is then left to the next one.
//!
//! The third thing that crosses, the idempotency key, has a [layer of its own](crate::idempotency_key).
//!
//! # The headers
//!
//! | layer | header | first attempt | second attempt | who defined it |
//! |---|---|---|---|---|
//! | [`AttemptHeaderLayer::envoy`] | `x-envoy-attempt-count` | `1` | `2` | Envoy, "Router" |
//! | [`AttemptHeaderLayer::grpc`] | `grpc-previous-rpc-attempts` | absent | `1` | gRFC A6, "Exposed Retry Metadata" |
//! | [`AttemptHeaderLayer::stainless`] | `x-stainless-retry-count` | `0` | `1` | SDKs made by Stainless |
//! | [`AttemptHeaderLayer::new`] | yours | by its [`Numbering`] | by its [`Numbering`] | |
//! | [`DeadlineHeaderLayer::grpc`] | `grpc-timeout` | what is left | what is left then | gRPC over HTTP/2, "Requests" |
//! | [`DeadlineHeaderLayer::millis`] | yours | what is left | what is left then | |
//!
//! Each attempt gets values of its own, in the place of whatever its request had there, and exactly one of each.
//! Without a retry layer above, the request has no attempt number, and what it had stays, so that a proxy which does
//! not retry passes on what it was told. The number is that of the retry which owns the call.
//!
//! # The time that is left
//!
//! It is rounded down, so that a server never believes in more than there is (`grpc-timeout` to one part in
//! 100,000, milliseconds to the millisecond). It is counted from when the request is sent and from when it is
//! received, so a server's deadline lies later than its caller's by the time that the request was on its way.
//!
//! A shorter time that the caller put into the header stays; a longer or malformed one is replaced. Without a deadline
//! in scope the header is left as it is: a proxy that wants what has passed to be subtracted reads it first, with a
//! [`DeadlineFromHeaderLayer`].
//!
//! A timeout of zero is not legal (gRPC over HTTP/2, "Requests"), and some proxies take it for "none". Where less than
//! the smallest unit is left (1 ns, 1 ms) the attempt is as good as over: it is not sent, and fails with a
//! [`DeadlineExceeded`](crate::DeadlineExceeded) whose
//! [`is_before_call`](crate::DeadlineExceeded::is_before_call) is true.
//!
//! Some clients read the header too, and end the request by themselves when the time is up (tonic's channel with
//! `TimeoutExpired`). So an error in the last millisecond before a deadline is left to the layer that set the deadline,
//! and the caller gets a `DeadlineExceeded` and not, every other time, the client's own error.
//!
//! # Reading it
//!
//! Strictly: what is malformed is as if it were absent, and then the request has the
//! [default limit](DeadlineFromHeaderLayer::default_limit), which is none as in gRPC. Of several fields the shortest
//! valid one counts, zero is a time that is already up, and no request has more than
//! [the longest](DeadlineFromHeaderLayer::max_limit). A nearer deadline already in scope stays.
//!
//! The layer only opens the scope. It keeps the error type of the service, and ends no call: for that put a
//! [`DeadlineLayer`](crate::DeadlineLayer) below it, which then ends at the nearer of its own limit and the caller's.
//!
//! # When to use
//!
//! Attempt numbers wherever the server looks at them. Deadlines between services of one's own.
//!
//! # When not to
//!
//! Don't send deadlines or attempts to third parties that did not ask for them. Don't read deadlines from strangers
//! without a default limit: a request without a header has all the time in the world.
//!
//! # Where in the stack
//!
//! The sending layers inside the retry and the attempt's deadline, directly around the client; a signer that covers the
//! headers below them. The reading layer outermost in a server, above a `DeadlineLayer`.
//!
//! # Cost
//!
//! A time is written into a header value of its own, which allocates; so does the number of an eighth retry.
//!
//! # Cancellation
//!
//! Dropping a future drops the inner one. The scope that is opened in a server covers the making of the response's
//! head, not a body that streams after it.
//!
//! # Errors
//!
//! [`AttemptHeaderLayer`] and [`DeadlineFromHeaderLayer`] have none of their own. [`DeadlineHeaderLayer`] fails with
//! [`DeadlineExceeded`](crate::DeadlineExceeded), boxed, where no time is left. A request with as many headers as there
//! can be goes without these.
//!
//! # Examples
//!
//! A client:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
//! use http::{HeaderName, Request, Response};
//! use std::time::Duration;
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{AttemptHeaderLayer, DeadlineHeaderLayer, HttpPolicy, Stack};
//!
//! let service = ServiceBuilder::new()
//!     .layer(Stack::builder(HttpPolicy::new()).call_deadline(Duration::from_secs(2)).build()?)
//!     .layer(AttemptHeaderLayer::envoy())
//!     .layer(DeadlineHeaderLayer::millis(HeaderName::from_static("x-timeout-ms")))
//!     .service_fn(|request: Request<()>| async move {
//!         assert_eq!(request.headers()["x-envoy-attempt-count"], "1");
//!         assert_eq!(request.headers()["x-timeout-ms"], "2000");
//!         Ok::<_, std::io::Error>(Response::new(()))
//!     });
//! service.oneshot(Request::new(())).await?;
//! # Ok(()) }
//! ```
//!
//! A server whose handlers end with their caller, and after 5 s at the latest:
//!
//! ```
//! use axum::{Router, body::Body, error_handling::HandleErrorLayer, routing::get};
//! use http::HeaderName;
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//! use tower_composure::{BoxError, DeadlineFromHeaderLayer, DeadlineLayer, http::error_response};
//!
//! let app: Router = Router::new().route("/", get(|| async { "calm" })).layer(
//!     ServiceBuilder::new()
//!         .layer(DeadlineFromHeaderLayer::millis(HeaderName::from_static("x-timeout-ms")))
//!         .layer(HandleErrorLayer::new(|error: BoxError| async move {
//!             error_response::<Body>(&*error) // 504
//!         }))
//!         .layer(DeadlineLayer::call(Duration::from_secs(5))),
//! );
//! # let _ = app;
//! ```

mod attempt_header;
mod deadline_from_header;
mod deadline_header;
#[warn(
    clippy::arithmetic_side_effects,
    reason = "whatever a peer sends must not panic"
)]
mod format;

use std::time::Duration;

use ::http::{HeaderMap, HeaderName};

pub use attempt_header::{AttemptHeaderLayer, AttemptHeaderService, Numbering};
pub use deadline_from_header::{
    DeadlineFromHeaderFuture, DeadlineFromHeaderLayer, DeadlineFromHeaderService,
};
pub use deadline_header::{DeadlineHeaderFuture, DeadlineHeaderLayer, DeadlineHeaderService};
pub use format::TimeoutFormat;
#[cfg(feature = "grpc")]
pub(crate) use format::digits;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The shortest of the valid fields of this name.
fn shortest(headers: &HeaderMap, header: &HeaderName, format: TimeoutFormat) -> Option<Duration> {
    let mut shortest: Option<Duration> = None;
    for value in headers.get_all(header) {
        if let Some(time) = format.read(value.as_bytes()) {
            shortest = Some(shortest.map_or(time, |shortest| shortest.min(time)));
        }
    }
    shortest
}
