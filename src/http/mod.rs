//! HTTP: what a method does, what a status means, and how long a server asks to wait.
//!
//! [`HttpPolicy`] classifies `http::Response`s by status and errors by their types.
//!
//! # What is retried
//!
//! By method (RFC 9110 §9.2.2): GET, HEAD, OPTIONS and TRACE are reads, PUT and DELETE idempotent writes, everything
//! else a write, unknown methods included. An [`Effect`](crate::Effect) in the extensions of a request beats its
//! method. A write with a key is repeatable where someone said that the server honours keys.
//!
//! By status:
//!
//! | status | verdict |
//! |---|---|
//! | 1xx, 2xx, 3xx | `Success` |
//! | 408, 502, 503, 504 | `Unknown`: the request may have been carried out |
//! | 429 | `Throttled` |
//! | 421, 425 | `Throttled`, retried once a call (RFC 9110 §15.5.20, RFC 8470 §5.2) |
//! | 413 with `Retry-After` | `Throttled` (RFC 9110 §15.5.14) |
//! | 500, 501, 505 and other 5xx | `Fault`: a repeat will not help |
//! | other 4xx | `Rejected` |
//!
//! By error: a connection that was never made is `Refused`, everything else `Unknown`. Never by the text of an error.
//!
//! # `Retry-After`
//!
//! Read on every outcome that may be retried, as seconds or as any of the three date forms (RFC 9110 §10.2.3, §5.6.7),
//! a date relative to the response's own `Date` so that a wrong clock does not matter. It is a floor under the backoff. What is
//! malformed, a weekday that does not fit its date included, is as if it were absent; of several fields the longest valid
//! one counts; and fractions of a second, though no grammar allows them, are rounded up.
//!
//! # Bodies
//!
//! A retry is done with a response when its head is there. [`replay_body`] sends streamed requests again,
//! [`collect_body`] lets a policy look into a response, and [`DrainBody`] keeps the connection of a response that lost.
//!
//! # What the client below repeats
//!
//! hyper-util's client repeats a request by itself where the pooled connection that it was given turns out to be dead
//! before anything of the request was written: as often as it has dead connections. The server has not seen these
//! requests, so this is safe for any method, but no report, budget, breaker or deadline of an attempt hears of it. So
//! that one layer owns all retries, turn it off with `legacy::Builder::retry_canceled_requests(false)`. Everything else
//! is the retry's; hyper-util follows no redirects.
//!
//! An attempt that is given up closes its connection in HTTP/1.1, but only its stream in HTTP/2: the next one goes over
//! the same connection, however silent that is. Have the client ping (`legacy::Builder::http2_keep_alive_interval`), so
//! that it finds out.
//!
//! A proxy in between may repeat requests too: nginx sends what failed to its next upstream, except for a POST, LOCK or
//! PATCH of which it has sent something (`proxy_next_upstream`).
#![cfg_attr(feature = "reqwest", doc = "\nFor reqwest, see [`reqwest`].")]
//!
//! # Example
//!
//! ```
//! use http::StatusCode;
//! use tower_composure::{HttpPolicy, Verdict};
//!
//! // An API that answers 503 before it does anything, as its documentation says, and honours keys.
//! let policy = HttpPolicy::new()
//!     .status(StatusCode::SERVICE_UNAVAILABLE, Verdict::REFUSED)
//!     .server_honours_keys(true);
//! # let _ = policy;
//! ```

pub mod collect_body;
mod drain_body;
mod errors;
mod head;
mod policy;
pub mod replay_body;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod response;
#[warn(
    clippy::arithmetic_side_effects,
    reason = "whatever a server sends must not panic"
)]
mod retry_after;

use ::http::HeaderName;

pub use collect_body::{CollectBodyLayer, CollectedBody};
pub use drain_body::{DrainBody, Draining};
pub(crate) use head::{Head, is_given};
pub use policy::HttpPolicy;
pub use replay_body::{ReplayBody, ReplayBodyLayer, ReplayRequest};
pub use response::error_response;

/// Host and port of a request's target, as the key of a [keyed](crate::BudgetLayer) budget or breaker. A user and a
/// password before them are left out: keys are names, and names are printed. `None` where the target is a path alone.
pub fn authority<B>(request: &::http::Request<B>) -> Option<&str> {
    request
        .uri()
        .authority()
        .map(|authority| without_user(authority.as_str()))
}

/// An authority without its user and password (RFC 3986 §3.2.1): neither a user nor a host contains an `@`.
fn without_user(authority: &str) -> &str {
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

/// The header of the IETF draft, and of most who came before it.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
