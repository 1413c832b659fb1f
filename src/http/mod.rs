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
//! | 409 to a request with a key, where [`conflict_means_in_progress`](HttpPolicy::conflict_means_in_progress) says so | `Throttled` (draft-ietf-httpapi-idempotency-key-header §2.7) |
//! | 500, 501, 505 and other 5xx | `Fault`: a repeat will not help |
//! | other 4xx, 422 to a used key among them | `Rejected` |
//!
//! A server that knows better says so in `x-should-retry` or `stripe-should-retry`. `false` ends the call with this
//! response, whatever its verdict, as a hint that is longer than any limit. `true` makes a `Fault` or a 409 to a read
//! or an idempotent write `Unknown`, so that they are retried. It changes nothing for a write, because it does not say
//! that it had no effect, for no other 4xx, which is the fault of the request, and for no status that
//! [`HttpPolicy::status`] settles.
//!
//! What only the body says, such as a quota that no wait brings back, is read by a closure: [`HttpPolicy::refine`].
//!
//! By error, by the types in its chain of sources and never by its text:
//!
//! | error | verdict |
//! |---|---|
//! | hyper-util's client could not connect: refused, timed out, a name that does not resolve, a handshake cut off, a source that nobody knows | `Refused`: nothing was sent, so it is safe for any method |
//! | the same, because of an `io::Error` of kind `InvalidData`: certificates and the rest of TLS, as rustls reports them | `Fault` |
//! | the same, because of a scheme or a host that the connector cannot use | `Rejected` |
//! | the request itself: a version or method that the client does not support, a target without a host, an `http::Error` | `Rejected` |
//! | the connection closed before the request was sent on it, and hyper-util says so | `Refused` |
//! | a stream that an HTTP/2 peer reset with `REFUSED_STREAM` (RFC 9113 §8.7; feature `http2`) | `Refused` |
//! | any other error of hyper, hyper-util or h2: a connection that broke, a message that was not completed, a reset, a GOAWAY | `Unknown` |
//! | an `io::Error` of kind `ConnectionRefused`, outside of an exchange | `Refused` |
//! | [`BreakerOpen`](crate::BreakerOpen) | `Rejected` |
//! | [`DeadlineExceeded`](crate::DeadlineExceeded) | `Unknown`, or `Refused` where the service was not called |
//! | everything else, the timeouts of tower and tokio among them | `Unknown` |
//!
//! The error is taken for that of this one request. A service that sends several should not hand up the error of a
//! later one as its own: that this one could not connect says nothing of those before it.
//!
//! A GOAWAY is no proof: streams above its last identifier were not processed, those at or below may have been
//! (RFC 9113 §6.8), and h2 does not say which this one is. Certificate errors of native-tls, an unsupported scheme in
//! hyper-rustls and failures of a proxy's tunnel have no type that is seen here and count as a failure to connect;
//! [`HttpPolicy::recognise`] teaches the policy a type.
//!
//! # How long a server asks to wait
//!
//! `Retry-After` is read on every outcome that may be retried, as seconds or as any of the three date forms
//! (RFC 9110 §10.2.3, §5.6.7), a date relative to the response's own `Date` so that a wrong clock does not matter; and
//! `retry-after-ms`, in milliseconds, which as the more exact word of the same server counts before it. It is a floor
//! under the backoff. What is malformed, a weekday that does not fit its date included, is as if it were absent; second
//! 60 of a day's last minute is the first of the next day; of several fields the longest valid one counts; a date that
//! has passed is a wait of zero; digits out of range mean very long; and fractions, though no grammar allows them, are
//! rounded up. Other headers are read where a [`Dialect`] says what they mean, and only where there is no valid
//! `Retry-After`.
//!
//! # Bodies
//!
//! A retry is done with a response when its head is there. [`replay_body`] sends streamed requests again,
//! [`collect_body`] lets a policy look into a response, and [`DrainBody`] keeps the connection of a response that lost.
//!
//! # Where in the stack
//!
//! The policy in a [`Stack`](crate::Stack), or in the retry and the breaker alike, so that they cannot disagree.
//! `CollectBodyLayer` belongs directly around the client, `ReplayBodyLayer` above the retry, [`DrainBody`] into the retry.
//!
//! # Cancellation, errors
//!
//! A policy has no future and no error of its own.
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

mod answer;
pub mod collect_body;
mod date;
mod dialect;
mod drain_body;
mod errors;
mod head;
mod policy;
mod refine;
pub mod replay_body;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod response;
mod retry_after;
mod structured;

use ::http::HeaderName;

pub use collect_body::{CollectBodyLayer, CollectedBody};
pub use dialect::Dialect;
pub use drain_body::{DrainBody, Draining};
pub(crate) use head::{Head, is_given};
pub use policy::HttpPolicy;
pub use refine::Refined;
pub use replay_body::{ReplayBody, ReplayBodyLayer, ReplayRequest};
pub use response::error_response;
#[cfg(feature = "tool")]
pub(crate) use retry_after::delay as retry_after_of;

/// Host and port of a request's target, as the key of a [keyed](crate::BudgetLayer) budget or breaker. A user and a
/// password before them are left out: keys are names, and names are printed. `None` where the target is a path alone.
///
/// ```
/// use tower_composure::http::authority;
///
/// let request = http::Request::get("https://ann:secret@api.example:8443/prices").body(()).unwrap();
/// assert_eq!(authority(&request), Some("api.example:8443"));
/// ```
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
