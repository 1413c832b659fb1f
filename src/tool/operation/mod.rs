//! HTTP operations as tools, which is what a tool from an `OpenAPI` document is.
//!
//! [`HttpOperation`] makes an HTTP request of a [`ToolCall`](crate::tool::ToolCall), and a map of the response, so that an HTTP client
//! becomes a tool. The key of the call, or the one in scope, goes into the header of a POST or PATCH.
//!
//! # The request
//!
//! Arguments named in the path (`/orders/{order}`) and in [`query`](HttpOperation::query) go there, percent-encoded; those
//! that are left become a JSON object in the body of a POST, PUT or PATCH, and query parameters otherwise. An argument of
//! the path that is missing, empty, no text, number or flag, or a dot segment, is answered with `INVALID_ARGUMENT`, and
//! nothing is sent.
//!
//! # The map
//!
//! | response | map |
//! |---|---|
//! | 2xx with a JSON object | that object, also where it says that it failed |
//! | 2xx with another JSON value, or text | `{"status": "ok", "result": …}` |
//! | 2xx with no body | `{"status": "ok"}` |
//! | 2xx that claims to be JSON and is not | `error.code` is `INTERNAL`: it cannot be called a success |
//! | anything else | `{"status": "error", "http_status": …, "error": {"code": …}}`, and the body where it is JSON |
//!
//! Neither the status nor the body overrules a failure that the other one tells. The code is that of the status: 400, 413,
//! 422 `INVALID_ARGUMENT`; 401 `UNAUTHENTICATED`; 403 `PERMISSION_DENIED`; 404, 410 `NOT_FOUND`; 409 `ALREADY_EXISTS`; 408,
//! 504 `DEADLINE_EXCEEDED`; 421, 425, 429 `RATE_LIMITED`; 502, 503 `UNAVAILABLE`; other 3xx and 4xx
//! `FAILED_PRECONDITION`; other 5xx `INTERNAL`. Where the body has a code that is final (a quota that is used up), or
//! says `"retryable": false`, the map is not retryable, and the code is the body's in place of `RATE_LIMITED`.
//! `error.retry_after` is the longer of `Retry-After` (RFC 9110 §10.2.3) and what the body asks for.
//!
//! # Where in the stack
//!
//! Directly over a client, with the body read in between; retry, budget and breaker with a
//! [`ToolPolicy`](crate::ToolPolicy) above it.
//!
//! # Cancellation
//!
//! Dropping the future drops the request.
//!
//! # Errors
//!
//! Those of the client, as they are.
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_composure::BoxError> {
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use tower::{Layer, ServiceExt, service_fn};
//! use tower_composure::tool::{HttpOperation, ToolCall};
//!
//! let client = service_fn(|request: Request<Vec<u8>>| async move {
//!     let body = format!(r#"{{"sent": "{} {}"}}"#, request.method(), request.uri().path());
//!     Ok::<_, Infallible>(Response::new(body.into_bytes()))
//! });
//! let tool = HttpOperation::new(http::Method::POST, "http://shop.test/orders/{order}/charges")?.layer(client);
//! let answer = tool.oneshot(ToolCall::new("charge").arg("order", "a/7")).await?;
//! assert_eq!(answer["sent"], "POST /orders/a%2F7/charges");
//! # Ok(()) }
//! ```

mod layer;
mod request;
mod response;
mod service;

pub use layer::HttpOperation;
pub use service::{HttpTool, HttpToolFuture};
