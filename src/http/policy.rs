use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use ::http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};

use super::head::{Head, is_given};
use super::{IDEMPOTENCY_KEY, collect_body, retry_after};
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::policy::Policy;
use crate::report::CallReport;
use crate::verdict::{Hint, Verdict};
use crate::{clock, see};

/// Classifies HTTP by method, status and the types of errors. See the [module](crate::http).
///
/// It works over any body and any error that is `'static`. It sees into `BoxError`, io's and hyper-util's errors and
/// this crate's own; another error type is registered with [`see`](Self::see), and one that is not is `Unknown`.
///
/// Cheap to clone: clones share one table.
#[derive(Clone)]
pub struct HttpPolicy {
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    statuses: Vec<(StatusCode, Verdict)>,
    methods: Vec<(Method, Effect)>,
    honours_keys: bool,
    key_header: HeaderName,
    #[cfg(feature = "reqwest")]
    redirects_keep_method: bool,
    sights: Vec<Sight>,
    wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

type Sight = Arc<dyn Fn(&dyn Any, &mut dyn FnMut(&(dyn Error + 'static))) + Send + Sync>;

impl HttpPolicy {
    /// The table of the [module](crate::http); keys are not honoured.
    pub fn new() -> Self {
        let rules = Rules {
            statuses: Vec::new(),
            methods: Vec::new(),
            honours_keys: false,
            key_header: IDEMPOTENCY_KEY,
            #[cfg(feature = "reqwest")]
            redirects_keep_method: false,
            sights: Vec::new(),
            wall: Arc::new(clock::wall),
        };
        Self {
            rules: Arc::new(rules),
        }
    }

    /// The rules of this policy alone, to be changed.
    fn rules(&mut self) -> &mut Rules {
        Arc::make_mut(&mut self.rules)
    }

    /// What a status means for this server. A `Retry-After` beside it still counts; a hint in the verdict is used where
    /// there is none.
    #[must_use]
    pub fn status(mut self, status: StatusCode, verdict: Verdict) -> Self {
        let statuses = &mut self.rules().statuses;
        statuses.retain(|(known, _)| *known != status);
        statuses.push((status, verdict));
        self
    }

    /// What a method does on this server.
    #[must_use]
    pub fn method(mut self, method: Method, effect: Effect) -> Self {
        let methods = &mut self.rules().methods;
        methods.retain(|(known, _)| *known != method);
        methods.push((method, effect));
        self
    }

    /// States that the server honours idempotency keys: a write that carries one is then an
    /// [`IdempotentWrite`](Effect::IdempotentWrite). Default no: a general client cannot assume it.
    #[must_use]
    pub fn server_honours_keys(mut self, honours: bool) -> Self {
        self.rules().honours_keys = honours;
        self
    }

    /// The header a key is found in. Default `idempotency-key`. A header without a value is no key.
    #[must_use]
    pub fn key_header(mut self, header: HeaderName) -> Self {
        self.rules().key_header = header;
        self
    }

    /// States that the `reqwest` client below follows no redirect that makes another request of the one it was given
    /// (301, 302 and 303). Default no, because reqwest does. A connection that was never made is `Refused` only then:
    /// otherwise it may have been the second one, after the first server had carried the request out. See
    /// [`http::reqwest`](crate::http::reqwest#redirects).
    #[cfg(feature = "reqwest")]
    #[must_use]
    pub fn redirects_keep_method(mut self, keep: bool) -> Self {
        self.rules().redirects_keep_method = keep;
        self
    }

    /// Lets the policy see into an error type of your own that is not boxed.
    ///
    /// ```
    /// use tower_composure::HttpPolicy;
    ///
    /// struct ClientError { source: std::io::Error }
    ///
    /// let policy = HttpPolicy::new().see::<ClientError>(|error| Some(&error.source));
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn see<E: 'static>(mut self, look: fn(&E) -> Option<&(dyn Error + 'static)>) -> Self {
        self.rules().sights.push(Arc::new(move |any, found| {
            if let Some(error) = any.downcast_ref::<E>().and_then(look) {
                found(error);
            }
        }));
        self
    }

    /// The wall clock that a date in `Retry-After` is compared with where the response has no `Date`. For tests.
    #[must_use]
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.rules().wall = Arc::new(now);
        self
    }

    /// What a response means by its head.
    pub(super) fn of_head(&self, status: StatusCode, headers: &HeaderMap) -> Verdict {
        let known = self
            .rules
            .statuses
            .iter()
            .find(|(known, _)| *known == status);
        let verdict = known.map_or_else(|| of_status(status), |(_, verdict)| *verdict);
        let may_be_temporary = status == StatusCode::PAYLOAD_TOO_LARGE && known.is_none();
        if !verdict.is_retryable() && !may_be_temporary {
            return verdict;
        }
        let Some(wait) = retry_after::delay(headers, || (self.rules.wall)()) else {
            return verdict;
        };
        let hint = Hint::after(wait);
        if may_be_temporary {
            return Verdict::THROTTLED.with_hint(Some(hint));
        }
        let once = verdict.hint().is_some_and(Hint::is_once);
        verdict.with_hint(Some(if once { hint.once() } else { hint }))
    }

    pub(super) fn of_error<E: 'static>(&self, error: &E) -> Verdict {
        if let Some(error) = see::error(error) {
            return self.of_chain(error);
        }
        let mut verdict = None;
        for sight in &self.rules.sights {
            sight(error, &mut |error| verdict = Some(self.of_chain(error)));
        }
        verdict.unwrap_or(Verdict::UNKNOWN)
    }

    #[cfg(feature = "reqwest")]
    fn of_chain(&self, error: &(dyn Error + 'static)) -> Verdict {
        super::reqwest::verdict(error, self.rules.redirects_keep_method, |status| {
            self.of_head(status, &HeaderMap::new())
        })
    }

    #[cfg(not(feature = "reqwest"))]
    #[expect(clippy::unused_self, reason = "only reqwest's errors depend on a rule")]
    fn of_chain(&self, error: &(dyn Error + 'static)) -> Verdict {
        super::errors::verdict(error)
    }

    /// What a request does.
    pub(super) fn of_request(&self, request: &impl Head) -> Effect {
        let method = request.method();
        let effect = request
            .marked()
            .or_else(|| {
                let known = self
                    .rules
                    .methods
                    .iter()
                    .find(|(known, _)| known == method)?;
                Some(known.1)
            })
            .unwrap_or(match *method {
                Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => Effect::Read,
                Method::PUT | Method::DELETE => Effect::IdempotentWrite,
                _ => Effect::Write,
            });
        if effect == Effect::Write && self.rules.honours_keys && self.has_key(request.headers()) {
            Effect::IdempotentWrite
        } else {
            effect
        }
    }

    pub(super) fn has_key(&self, headers: &HeaderMap) -> bool {
        is_given(headers, &self.rules.key_header)
    }
}

fn of_status(status: StatusCode) -> Verdict {
    const ONCE: Verdict = Verdict::Throttled {
        hint: Some(Hint::after(std::time::Duration::ZERO).once()),
    };
    match status.as_u16() {
        100..=399 => Verdict::Success,
        408 | 502 | 503 | 504 => Verdict::UNKNOWN,
        421 | 425 => ONCE,
        429 => Verdict::THROTTLED,
        400..=499 => Verdict::Rejected,
        _ => Verdict::Fault,
    }
}

impl Default for HttpPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<A, B, E: 'static> Policy<Request<A>, Response<B>, E> for HttpPolicy {
    fn effect(&self, request: &Request<A>) -> Effect {
        self.of_request(request)
    }

    fn keyed(&self, request: &Request<A>) -> bool {
        self.has_key(request.headers())
    }

    fn classify(&self, _: &Attempt, outcome: Result<&Response<B>, &E>) -> Verdict {
        match outcome {
            Ok(response) => match self.of_head(response.status(), response.headers()) {
                Verdict::Success if collect_body::is_broken(response) => Verdict::UNKNOWN,
                verdict => verdict,
            },
            Err(error) => self.of_error(error),
        }
    }

    /// Puts the report into the response's extensions. A response without one came at the first attempt.
    fn report(&self, response: &mut Response<B>, report: &CallReport) {
        response.extensions_mut().insert(*report);
    }
}

impl fmt::Debug for HttpPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPolicy")
            .field("statuses", &self.rules.statuses)
            .field("methods", &self.rules.methods)
            .field("server_honours_keys", &self.rules.honours_keys)
            .field("key_header", &self.rules.key_header)
            .finish_non_exhaustive()
    }
}
