//! Responses whose body a policy can look at.
//!
//! What a response means is not always in its head. APIs put error codes into JSON: a 429 can be throttling, which
//! passes, or a spent quota, which does not. And a download can break off long after its 200. A [`CollectBodyLayer`]
//! below the retry reads the body before the attempt counts as over, so that the policy can ask
//! [`CollectedBody::collected`].
//!
//! # What is collected
//!
//! The bodies of client and server errors, up to 64 KiB, so that successful streams are not delayed;
//! [`all`](CollectBodyLayer::all) or [`when`](CollectBodyLayer::when) for others. A body that turns out larger, or
//! announces that it is, is passed on as it came: the part that was read, then the rest as a stream. Nothing is lost
//! and nothing changes its order, trailers and errors included.
//!
//! # Bodies that break off
//!
//! A transport ends a body with an error where less comes than `Content-Length` promised or a chunk is cut (RFC 9112
//! §8). Where that happens while a body is collected, [`HttpPolicy`](crate::HttpPolicy) takes what it would have called
//! a success for `Unknown`, so a read is made again. Where it is not, the caller gets the response, and from its body
//! what had come and then the error. Without this layer a retry never sees it: it is done when the head is there.
//!
//! # When to use
//!
//! Where the body decides, or for downloads that fit into memory. It is inside of the retry on purpose: once a caller has
//! a response, nothing is repeated.
//!
//! # When not to
//!
//! With [`all`](CollectBodyLayer::all), around responses that stream without an end: the caller would see nothing before
//! the bound is reached or the attempt's deadline ends it.
//!
//! # Where in the stack
//!
//! Between the attempt's deadline and the service. It has no time limit of its own: the deadlines above it end a body
//! that drips, and the attempt is then what an attempt that ran out is. Under a [`Stack`](crate::Stack), wrap the client
//! in it.
//!
//! # Cancellation
//!
//! Dropping the future drops the call or the body that is being collected.
//!
//! # Errors
//!
//! None of its own: the service's error type, and the body's.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::http::{CollectBodyLayer, CollectedBody};
//! use tower_composure::{Attempt, CallReport, Effect, HttpPolicy, Policy, RetryLayer, Verdict};
//!
//! /// Knows that a spent quota does not come back.
//! struct Quota(HttpPolicy);
//!
//! impl<A, B, E: 'static> Policy<Request<A>, Response<CollectedBody<B>>, E> for Quota
//! where
//!     B: http_body::Body,
//! {
//!     fn effect(&self, request: &Request<A>) -> Effect {
//!         Policy::<_, Response<()>, E>::effect(&self.0, request)
//!     }
//!
//!     fn classify(&self, attempt: &Attempt, outcome: Result<&Response<CollectedBody<B>>, &E>) -> Verdict {
//!         let body = outcome.ok().and_then(|response| response.body().collected());
//!         let code = body.and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
//!         if code.is_some_and(|code| code["code"] == "insufficient_quota") {
//!             return Verdict::Rejected;
//!         }
//!         Policy::<Request<A>, _, E>::classify(&self.0, attempt, outcome)
//!     }
//! }
//!
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(Quota(HttpPolicy::new())))
//!     .layer(CollectBodyLayer::new())
//!     .service_fn(|_: Request<()>| async {
//!         let body = Full::<Bytes>::from(r#"{"code":"insufficient_quota"}"#);
//!         Ok::<_, std::io::Error>(Response::builder().status(429).body(body).unwrap())
//!     });
//! let (outcome, report) = CallReport::of(service.oneshot(Request::new(()))).await;
//! assert_eq!(report.unwrap().attempts(), 1);
//! let body = outcome.unwrap().into_body().collect().await.unwrap().to_bytes();
//! assert_eq!(body, r#"{"code":"insufficient_quota"}"#);
//! # }
//! ```
//!
//! Configured:
//!
//! ```
//! use http::header::CONTENT_TYPE;
//! use tower_composure::http::CollectBodyLayer;
//!
//! let layer = CollectBodyLayer::new()
//!     .max_bytes(1024 * 1024)
//!     .when(|head| head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json"));
//! # let _ = layer;
//! ```

mod body;
mod future;
#[warn(
    clippy::arithmetic_side_effects,
    reason = "whatever a body sends must not panic"
)]
mod gathered;
mod layer;
mod service;

pub use body::CollectedBody;
pub use future::CollectBodyFuture;
pub(super) use gathered::is_broken;
pub use layer::CollectBodyLayer;
pub use service::CollectBodyService;
