use std::fmt;

use ::http::{Request, Response};

use super::HttpPolicy;
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::policy::Policy;
use crate::report::CallReport;
use crate::verdict::Verdict;

/// An [`HttpPolicy`] and a closure that looks again at each response. Made by [`HttpPolicy::refine`].
///
/// Cheap to clone where the closure is.
///
/// ```
/// use http::Response;
/// use tower_composure::http::Refined;
/// use tower_composure::{HttpPolicy, RetryLayer};
///
/// let policy: Refined<_> = HttpPolicy::new().refine(|_: &Response<Vec<u8>>, verdict| verdict);
/// let layer = RetryLayer::new(policy);
/// ```
#[derive(Clone)]
pub struct Refined<F> {
    policy: HttpPolicy,
    refine: F,
}

impl HttpPolicy {
    /// Lets a closure look again at each response, with the verdict that its head got, and give the final one: for what
    /// only the body says. It is asked of every response, successes too, in the middle of a poll, and must not block.
    ///
    /// The body must be there to be read: collect it below the retry with
    /// [`CollectBodyLayer`](super::CollectBodyLayer). What the closure says is final: `Throttled` and `Refused` mean
    /// that the request provably had no effect, and repeat even a write without a key.
    ///
    /// Used up quota, which no wait brings back, comes with the same 429 as throttling; and a hint may be in the body.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::{Request, Response, StatusCode};
    /// use tower_composure::{Attempt, Effect, Hint, HttpPolicy, Policy, Verdict};
    ///
    /// let policy = HttpPolicy::new().refine(|response: &Response<Vec<u8>>, verdict| {
    ///     if response.status() != StatusCode::TOO_MANY_REQUESTS {
    ///         return verdict;
    ///     }
    ///     let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap_or_default();
    ///     if body["error"]["code"] == "insufficient_quota" {
    ///         return Verdict::Rejected;
    ///     }
    ///     let seconds = body["error"]["retry_after"].as_u64().map(Duration::from_secs);
    ///     verdict.with_hint(seconds.max(verdict.hint().map(Hint::wait)).map(Hint::after))
    /// });
    ///
    /// let answer = |body: &str| Response::builder().status(429).body(body.into()).unwrap();
    /// let classify = |response: &Response<Vec<u8>>| {
    ///     let policy: &dyn Policy<Request<()>, Response<Vec<u8>>, std::io::Error> = &policy;
    ///     policy.classify(&Attempt::first(Effect::Read), Ok(response))
    /// };
    /// let spent = answer(r#"{"error": {"code": "insufficient_quota"}}"#);
    /// assert_eq!(classify(&spent), Verdict::Rejected);
    /// let busy = answer(r#"{"error": {"code": "rate_limited", "retry_after": 7}}"#);
    /// assert_eq!(classify(&busy).hint().unwrap().wait(), Duration::from_secs(7));
    /// ```
    pub fn refine<B, F>(self, refine: F) -> Refined<F>
    where
        F: Fn(&Response<B>, Verdict) -> Verdict,
    {
        Refined {
            policy: self,
            refine,
        }
    }
}

impl<A, B, E, F> Policy<Request<A>, Response<B>, E> for Refined<F>
where
    E: 'static,
    F: Fn(&Response<B>, Verdict) -> Verdict,
{
    fn effect(&self, request: &Request<A>) -> Effect {
        self.policy.rules.of_request(request)
    }

    fn keyed(&self, request: &Request<A>) -> bool {
        self.policy.rules.has_key(request)
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&Response<B>, &E>) -> Verdict {
        let verdict = self.policy.classify_outcome(*attempt, outcome);
        outcome.map_or(verdict, |response| (self.refine)(response, verdict))
    }

    fn report(&self, response: &mut Response<B>, report: &CallReport) {
        response.extensions_mut().insert(*report);
    }
}

impl<F> fmt::Debug for Refined<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refined").field(&self.policy).finish()
    }
}
