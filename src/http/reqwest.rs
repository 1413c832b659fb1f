//! reqwest: its requests, responses and errors, and who owns what beside it.
//!
//! A `reqwest::Client` is a tower service over `reqwest::Request`, so a stack goes around it as it is. Such a request
//! is not `Clone`; [`TryCloneRequest`] is the replay strategy for it.
//!
//! ```
//! use tower::{ServiceBuilder, util::ServiceExt};
//! use tower_composure::http::reqwest::{TryCloneRequest, same_method};
//! use tower_composure::{BoxError, HttpPolicy, IdempotencyKeyLayer, Stack};
//!
//! # fn main() -> Result<(), BoxError> {
//! let client = reqwest::Client::builder()
//!     .retry(reqwest::retry::never()) // one layer owns the retries
//!     .redirect(same_method(10)) // and no redirect makes another request of a POST
//!     .build()?;
//! let client = ServiceBuilder::new()
//!     .layer(
//!         Stack::builder(HttpPolicy::new().redirects_keep_method(true))
//!             .idempotency_key(IdempotencyKeyLayer::new())
//!             .replay(TryCloneRequest)
//!             .build()?,
//!     )
//!     .service(client);
//! # let _ = async move {
//! let request = reqwest::Request::new(reqwest::Method::GET, "https://example.com/".parse()?);
//! let response: reqwest::Response = client.oneshot(request).await?;
//! # let _ = response; Ok::<_, BoxError>(()) };
//! # Ok(()) }
//! ```
//!
//! [`DrainBody`] releases its responses too. The table is that of [`http`](crate::http), by method, status and
//! `Retry-After`. The report of a call is in the
//! extensions of its response. A `reqwest::Request` shows nobody its own extensions, so an
//! [`Effect`] cannot be put there: say it with [`HttpPolicy::method`] or in a policy of your own.
//!
//! # Errors
//!
//! By type and flag, never by text, at any depth of a chain:
//!
//! | error | verdict |
//! |---|---|
//! | `is_builder`: no request could be made of it | `Rejected` |
//! | `is_redirect`: a loop, too many hops | `Fault` |
//! | `is_status`: somebody called `error_for_status` | that of its status |
//! | `is_timeout` once connected | `Unknown` |
//! | `is_body`, `is_decode` | `Unknown` |
//! | all others | that of their source, as for any HTTP client |
//!
//! and `Refused` among the last only under the condition [below](#redirects), otherwise `Unknown`.
//!
//! Do not call `error_for_status` below a retry: its error has lost the response's headers, and with them the wait that
//! the server asked for.
//!
//! # reqwest's own retries
//!
//! By default a reqwest client with HTTP/2 sends a request up to twice more where the server has refused its stream or
//! is going away. No budget hears of these, and no deadline of an attempt starts anew. Turn them off with
//! `ClientBuilder::retry(reqwest::retry::never())`: this crate's retry does the same, under its budget.
//!
//! One kind stays, since reqwest has no switch for it: hyper-util below repeats a request that it could not begin to
//! write because the pooled connection had died. The server has not seen that request, so it is safe, and not counted.
//!
//! # Redirects
//!
//! By default reqwest follows up to ten, and no layer around it sees the hops. Two things follow.
//!
//! - It sends the headers of the request on every hop: the same key where 307 and 308 repeat the write, which is
//!   right, but also on the GET that it makes of a POST for 301, 302 and 303, and to another host.
//! - A connection that fails may be that of a second hop, after the first server has carried the request out. A
//!   `reqwest::Error` does not tell. So nothing it says is proof that a write had no effect, and a write without a key
//!   is not repeated, also where nobody listens.
//!
//! A client with [`same_method`], or with redirects off, has neither, and [`HttpPolicy::redirects_keep_method`] states
//! so. A 303 then comes back as the response, with its `Location`.
//!
//! # Timeouts
//!
//! `ClientBuilder::timeout` and `RequestBuilder::timeout` count for each attempt, and go on until the body has been
//! read. The stack's deadlines end with the head.

use std::error::Error;

use ::http::{HeaderMap, Method, Response, StatusCode};
use ::reqwest::redirect;

use super::{DrainBody, Draining, Head, HttpPolicy, errors, without_user};
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::policy::Policy;
use crate::report::CallReport;
use crate::retry::{Release, Replay};
use crate::see;
use crate::verdict::Verdict;

/// Copies a request with `reqwest::Request::try_clone`. A body that is a stream cannot be copied, so its call makes one
/// attempt ([`StopReason::NotReplayable`](crate::StopReason::NotReplayable)).
///
/// ```
/// use tower_composure::http::reqwest::TryCloneRequest;
/// use tower_composure::{HttpPolicy, Stack};
///
/// let stack = Stack::builder(HttpPolicy::new()).replay(TryCloneRequest).build()?;
/// # let _ = stack;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TryCloneRequest;

impl Replay<::reqwest::Request> for TryCloneRequest {
    fn replay(&self, request: &::reqwest::Request) -> Option<::reqwest::Request> {
        request.try_clone()
    }
}

impl Release<::reqwest::Response> for DrainBody {
    type Future = Draining<::reqwest::Body>;

    fn release(&self, response: ::reqwest::Response) -> Option<Self::Future> {
        self.release(Response::from(response))
    }
}

/// Follows up to `hops` redirects that repeat the request as it is (307 and 308, RFC 9110 §15.4.8, §15.4.9), and hands
/// the others back as responses. One more is an error, as in reqwest.
///
/// reqwest does not say for which method it asks, so that a GET's 301 comes back too.
///
/// ```
/// use tower_composure::http::reqwest::same_method;
///
/// let client = reqwest::Client::builder().redirect(same_method(10)).build()?;
/// # let _ = client;
/// # Ok::<(), reqwest::Error>(())
/// ```
pub fn same_method(hops: usize) -> redirect::Policy {
    let limited = redirect::Policy::limited(hops);
    redirect::Policy::custom(move |attempt| match attempt.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
            limited.redirect(attempt)
        }
        _ => attempt.stop(),
    })
}

/// Host and port of a request's target, as the key of a [keyed](crate::BudgetLayer) budget or breaker, with no user and
/// no password. As [`http::authority`](crate::http::authority).
///
/// ```
/// use tower_composure::http::reqwest::authority;
///
/// let url = "https://ann:secret@api.example:8443/prices".parse().unwrap();
/// let request = reqwest::Request::new(reqwest::Method::GET, url);
/// assert_eq!(authority(&request), Some("api.example:8443"));
/// ```
pub fn authority(request: &::reqwest::Request) -> Option<&str> {
    let authority = without_user(request.url().authority());
    (!authority.is_empty()).then_some(authority)
}

impl Head for ::reqwest::Request {
    fn method(&self) -> &Method {
        self.method()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }

    fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }

    fn marked(&self) -> Option<Effect> {
        None
    }

    fn is_unmarked(&self) -> bool {
        true
    }
}

impl<E: 'static> Policy<::reqwest::Request, ::reqwest::Response, E> for HttpPolicy {
    fn effect(&self, request: &::reqwest::Request) -> Effect {
        self.rules.of_request(request)
    }

    fn keyed(&self, request: &::reqwest::Request) -> bool {
        self.rules.has_key(request)
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&::reqwest::Response, &E>) -> Verdict {
        match outcome {
            Ok(response) => self.of_head(*attempt, response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }

    /// Puts the report into the response's extensions. A response without one came at the first attempt.
    fn report(&self, response: &mut ::reqwest::Response, report: &CallReport) {
        response.extensions_mut().insert(*report);
    }
}

/// The verdict on an error that may have one of reqwest's in its chain.
pub(super) fn verdict(
    error: &(dyn Error + 'static),
    redirects_keep_method: bool,
    of_status: impl FnOnce(StatusCode) -> Verdict,
) -> Verdict {
    let Some(found) = see::find::<::reqwest::Error>(error) else {
        return errors::verdict(error);
    };
    if let Some(status) = found.status() {
        return of_status(status);
    }
    if found.is_builder() {
        return Verdict::Rejected;
    }
    if found.is_redirect() {
        return Verdict::Fault;
    }
    let after_connect = found.is_timeout() && !found.is_connect();
    if after_connect || found.is_body() || found.is_decode() {
        return Verdict::UNKNOWN;
    }
    match errors::verdict(error) {
        // Of which hop, it does not say.
        Verdict::Refused { hint } if !redirects_keep_method => Verdict::Unknown { hint },
        verdict => verdict,
    }
}
