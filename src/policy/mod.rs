//! Classify before you retry: what a request does, and what an outcome means.
//!
//! A [`Policy`] answers two questions, and nothing else decides what is retried, what the budget earns and what the
//! breaker counts:
//!
//! - [`effect`](Policy::effect): may this request be repeated?
//! - [`classify`](Policy::classify): what does this outcome mean?
//!
//! An outcome is a response *or* an error, so a failure that arrives inside of `Ok` is a failure like any other.
//!
//! # Which policy
//!
//! - For HTTP, `HttpPolicy` (feature `http`).
//! - For errors of which only the type matters, an [`Effect`]: `RetryLayer::new(Effect::Read)`. A response is a
//!   success. An error is what its type says, at any depth of its sources: [`BreakerOpen`](crate::BreakerOpen) is
//!   `Rejected`, a refused connection is `Refused`, and everything else is `Unknown`.
//! - For everything else, a closure: [`policy_fn()`].
//!
//! # How to write one
//!
//! Everything that you do not recognise should be `Unknown` as an error and `Success` as a response. Never read the
//! text of an error: its wording is nobody's interface.
//!
//! ```
//! use tower_composure::{Attempt, Effect, Policy, Verdict};
//!
//! struct Ledger;
//!
//! enum Command { Balance, Book }
//! enum Answer { Done, Busy, NoSuchAccount }
//!
//! impl<E> Policy<Command, Answer, E> for Ledger {
//!     fn effect(&self, command: &Command) -> Effect {
//!         match command {
//!             Command::Balance => Effect::Read,
//!             Command::Book => Effect::Write,
//!         }
//!     }
//!
//!     fn classify(&self, _: &Attempt, outcome: Result<&Answer, &E>) -> Verdict {
//!         match outcome {
//!             Ok(Answer::Done) => Verdict::Success,
//!             Ok(Answer::Busy) => Verdict::THROTTLED,
//!             Ok(Answer::NoSuchAccount) => Verdict::Rejected,
//!             Err(_) => Verdict::UNKNOWN,
//!         }
//!     }
//! }
//! ```

mod by_error;
mod policy_fn;

use std::sync::Arc;

#[cfg(feature = "http")]
pub(crate) use by_error::recognise;
pub use policy_fn::{EffectFn, PolicyFn, policy_fn};

use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::report::CallReport;
use crate::verdict::Verdict;

/// Says what a request does and what an outcome means. See the [module](crate::policy).
///
/// It is asked in the middle of a poll and must not block. A panic in it goes through to the caller like one of the
/// inner service.
///
/// ```
/// use tower_composure::{Attempt, Effect, Policy, Verdict};
///
/// /// Reads of a service that answers with a number; a negative one is "busy".
/// struct Lookup;
///
/// impl<Req, E> Policy<Req, i64, E> for Lookup {
///     fn effect(&self, _: &Req) -> Effect {
///         Effect::Read
///     }
///
///     fn classify(&self, _: &Attempt, outcome: Result<&i64, &E>) -> Verdict {
///         match outcome {
///             Ok(busy) if *busy < 0 => Verdict::THROTTLED,
///             Ok(_) => Verdict::Success,
///             Err(_) => Verdict::UNKNOWN,
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no policy for requests `{Req}` with responses `{Res}` and errors `{E}`",
    label = "not a policy for this service",
    note = "an `Effect` is a policy for errors of any type, `HttpPolicy` one for `http::Request`, and `policy_fn` makes one from a closure"
)]
pub trait Policy<Req, Res, E> {
    /// What the request does when it is carried out, and again when it is repeated. Asked once a call.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tower_composure::{Effect, HttpPolicy, Policy};
    ///
    /// let policy: &dyn Policy<Request<()>, Response<()>, std::io::Error> = &HttpPolicy::new();
    /// assert_eq!(policy.effect(&Request::get("/").body(())?), Effect::Read);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    fn effect(&self, request: &Req) -> Effect;

    /// Whether the request itself carries an idempotency key. Asked once a call, and of writes only: a read is repeated
    /// without one.
    ///
    /// A key makes a write repeatable only where somebody said that the server honours keys; see
    /// [`RetryLayerBuilder::server_honours_keys`](crate::retry::RetryLayerBuilder::server_honours_keys).
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tower_composure::{HttpPolicy, Policy};
    ///
    /// let policy: &dyn Policy<Request<()>, Response<()>, std::io::Error> = &HttpPolicy::new();
    /// assert!(policy.keyed(&Request::post("/").header("idempotency-key", "order-7").body(())?));
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    fn keyed(&self, request: &Req) -> bool {
        let _ = request;
        false
    }

    /// What the outcome of one attempt means.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tower_composure::{Attempt, Effect, HttpPolicy, Policy, Verdict};
    ///
    /// let policy: &dyn Policy<Request<()>, Response<()>, std::io::Error> = &HttpPolicy::new();
    /// let not_found = Response::builder().status(404).body(())?;
    /// assert_eq!(policy.classify(&Attempt::first(Effect::Read), Ok(&not_found)), Verdict::Rejected);
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    fn classify(&self, attempt: &Attempt, outcome: Result<&Res, &E>) -> Verdict;

    /// Leaves the report of a call in its response, where the response type has room for it.
    ///
    /// Called once, by the retry layer that ran the call, and only where there is something to say: the call took more
    /// than one attempt, or its outcome was not a success.
    ///
    /// ```
    /// use tower_composure::{Attempt, CallReport, Effect, Policy, Verdict};
    ///
    /// struct Answer { attempts: u32 }
    /// struct Reads;
    ///
    /// impl<Req, E> Policy<Req, Answer, E> for Reads {
    ///     fn effect(&self, _: &Req) -> Effect {
    ///         Effect::Read
    ///     }
    ///
    ///     fn classify(&self, _: &Attempt, outcome: Result<&Answer, &E>) -> Verdict {
    ///         if outcome.is_ok() { Verdict::Success } else { Verdict::UNKNOWN }
    ///     }
    ///
    ///     fn report(&self, answer: &mut Answer, report: &CallReport) {
    ///         answer.attempts = report.attempts();
    ///     }
    /// }
    /// ```
    fn report(&self, response: &mut Res, report: &CallReport) {
        let _ = (response, report);
    }
}

/// The facts of the first attempt at a request.
#[inline]
pub(crate) fn first_attempt<P, Req, Res, E>(policy: &P, request: &Req) -> Attempt
where
    P: Policy<Req, Res, E> + ?Sized,
{
    let effect = policy.effect(request);
    Attempt::first(effect).with_key(effect.is_write() && policy.keyed(request))
}

macro_rules! forward_policy {
    ($($pointer:ty),*) => {$(
        impl<P: Policy<Req, Res, E> + ?Sized, Req, Res, E> Policy<Req, Res, E> for $pointer {
            fn effect(&self, request: &Req) -> Effect {
                (**self).effect(request)
            }

            fn keyed(&self, request: &Req) -> bool {
                (**self).keyed(request)
            }

            fn classify(&self, attempt: &Attempt, outcome: Result<&Res, &E>) -> Verdict {
                (**self).classify(attempt, outcome)
            }

            fn report(&self, response: &mut Res, report: &CallReport) {
                (**self).report(response, report);
            }
        }
    )*};
}

forward_policy!(&P, Box<P>, Arc<P>);
