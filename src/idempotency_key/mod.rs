//! One idempotency key for each logical call, the same on every attempt.
//!
//! A payment that timed out may have been made. Sent again without a key it is a second payment; with a key that the
//! server honours it is answered with the first one's outcome. The key belongs to what the caller asked for, so it is
//! made once a call, outside of the part that is retried.
//!
//! # When to use
//!
//! For every write to a server that honours keys (draft-ietf-httpapi-idempotency-key-header, and what Stripe, Square
//! and others do). Ask its documentation: a client cannot find out (§2.5 of the draft).
//!
//! # When not to
//!
//! A key does nothing where the server ignores it. A key that is derived from a request must not depend on what
//! changes with each attempt, such as a time or a signature.
//!
//! # Where in the stack
//!
//! Above the retry. Below one it still sends the same key on every attempt, because the key stays in the call context.
//!
//! # Which key
//!
//! The caller's own, where the request has one already: it is never overwritten. Else the key in scope
//! ([`IdempotencyKey::current`]), taken by the first keyed request of an attempt as it is and by the next ones with an
//! ordinal (`…-2`), so that a tool which creates a customer and then a charge sends two keys, and the same two when it
//! is retried. Else a new one: a random UUID, or what a closure makes of the request.
//!
//! # Cancellation
//!
//! It has no future of its own.
//!
//! # Errors
//!
//! None of its own. A request with as many headers as there can be gets no key, and is to its policy a write without
//! one.
//!
//! # Examples
//!
#![cfg_attr(
    feature = "http",
    doc = r#"
```
# #[tokio::main(flavor = "current_thread")] async fn main() {
use tower::{ServiceBuilder, ServiceExt};
use tower_composure::IdempotencyKeyLayer;

let service = ServiceBuilder::new()
    .layer(IdempotencyKeyLayer::new())
    .service_fn(|request: http::Request<()>| async move {
        Ok::<_, std::convert::Infallible>(request.headers().contains_key("idempotency-key"))
    });
let post = http::Request::post("/charges").body(()).unwrap();
assert!(service.clone().oneshot(post).await.unwrap());
let get = http::Request::get("/charges").body(()).unwrap();
assert!(!service.oneshot(get).await.unwrap());
# }
```

Configured: another header, the structured form of the draft, and a key that the request determines.

```
use http::{HeaderName, Method};
use tower_composure::{IdempotencyKey, IdempotencyKeyLayer, KeyFormat};

let layer = IdempotencyKeyLayer::new()
    .header(HeaderName::from_static("x-request-key"))
    .format(KeyFormat::Structured)
    .methods([Method::POST])
    .key_fn(|request: &http::Request<String>| {
        IdempotencyKey::new(request.uri().path()).unwrap_or_else(|_| IdempotencyKey::random())
    });
# let _ = layer;
```
"#
)]

mod key;
#[cfg(feature = "http")]
mod layer;
#[cfg(all(test, loom, any(feature = "http", feature = "tool")))]
mod models;
#[cfg(feature = "http")]
mod service;

pub use key::{IdempotencyKey, InvalidKey};
#[cfg(feature = "http")]
pub use layer::{IdempotencyKeyLayer, KeyFormat, MakeKey, RandomKey};
#[cfg(feature = "http")]
pub use service::IdempotencyKeyService;
