use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use ::http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};

use super::{Dialect, IDEMPOTENCY_KEY, collect_body};
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::policy::Policy;
use crate::report::CallReport;
use crate::verdict::Verdict;
use crate::{clock, see};

/// Classifies HTTP by method, status and the types of errors. See the [module](crate::http).
///
/// It works over any body and any error that is `'static`. It sees into `BoxError`, io's, hyper's and hyper-util's
/// errors and this crate's own; another error type is registered with [`see`](Self::see) or
/// [`recognise`](Self::recognise), and one that is not is `Unknown`.
///
/// Cheap to clone: clones share one table.
///
/// ```
/// use http::StatusCode;
/// use tower_composure::{HttpPolicy, Stack, Verdict};
///
/// // This server says 503 before it does anything.
/// let policy = HttpPolicy::new().status(StatusCode::SERVICE_UNAVAILABLE, Verdict::REFUSED);
/// let stack = Stack::builder(policy).dependency("payments").build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Clone)]
pub struct HttpPolicy {
    pub(super) rules: Arc<Rules>,
}

#[derive(Clone)]
pub(super) struct Rules {
    pub(super) statuses: Vec<(StatusCode, Verdict)>,
    pub(super) methods: Vec<(Method, Effect)>,
    pub(super) dialects: Vec<Dialect>,
    pub(super) honours_keys: bool,
    pub(super) conflict_in_progress: bool,
    pub(super) key_header: HeaderName,
    #[cfg(feature = "reqwest")]
    redirects_keep_method: bool,
    sights: Vec<Sight>,
    types: Vec<Type>,
    pub(super) wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

type Sight = Arc<dyn Fn(&dyn Any, &mut dyn FnMut(&(dyn Error + 'static))) + Send + Sync>;

type Type = Arc<dyn Fn(&(dyn Error + 'static)) -> Option<Verdict> + Send + Sync>;

impl HttpPolicy {
    /// The table of the [module](crate::http); keys are not honoured.
    ///
    /// ```
    /// use tower_composure::{HttpPolicy, RetryLayer};
    ///
    /// let layer = RetryLayer::new(HttpPolicy::new());
    /// ```
    pub fn new() -> Self {
        let rules = Rules {
            statuses: Vec::new(),
            methods: Vec::new(),
            dialects: Vec::new(),
            honours_keys: false,
            conflict_in_progress: false,
            key_header: IDEMPOTENCY_KEY,
            #[cfg(feature = "reqwest")]
            redirects_keep_method: false,
            sights: Vec::new(),
            types: Vec::new(),
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
    ///
    /// ```
    /// use http::Method;
    /// use tower_composure::{Effect, HttpPolicy};
    ///
    /// let policy = HttpPolicy::new().method(Method::POST, Effect::Read); // a search
    /// ```
    #[must_use]
    pub fn method(mut self, method: Method, effect: Effect) -> Self {
        let methods = &mut self.rules().methods;
        methods.retain(|(known, _)| *known != method);
        methods.push((method, effect));
        self
    }

    /// States that the server honours idempotency keys: a write that carries one is then an
    /// [`IdempotentWrite`](Effect::IdempotentWrite). Default no: a general client cannot assume it.
    ///
    /// ```
    /// let policy = tower_composure::HttpPolicy::new().server_honours_keys(true);
    /// ```
    #[must_use]
    pub fn server_honours_keys(mut self, honours: bool) -> Self {
        self.rules().honours_keys = honours;
        self
    }

    /// States that a 409 to a request with a key means that the first request with this key is still being carried out,
    /// as the IETF draft has it (§2.7): it is then [`Throttled`](Verdict::Throttled), so the same request with the same
    /// key comes again after a wait. Default no, because most servers answer 409 to conflicts that no wait resolves;
    /// where the body says which it is, see [`refine`](Self::refine). A 409 to a request without a key stays
    /// `Rejected`, and so does any 422: the same key with another payload.
    ///
    /// ```
    /// use http::{Response, StatusCode};
    /// use tower_composure::{HttpPolicy, Verdict};
    ///
    /// // An API whose 409 says in its body whether it is that.
    /// let policy = HttpPolicy::new()
    ///     .server_honours_keys(true)
    ///     .conflict_means_in_progress(true)
    ///     .refine(|response: &Response<String>, verdict| {
    ///         let conflict = response.status() == StatusCode::CONFLICT;
    ///         if conflict && response.body() != "idempotency_key_in_use" {
    ///             Verdict::Rejected
    ///         } else {
    ///             verdict
    ///         }
    ///     });
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn conflict_means_in_progress(mut self, in_progress: bool) -> Self {
        self.rules().conflict_in_progress = in_progress;
        self
    }

    /// How this server says when a quota comes back, beyond `Retry-After`. Of several the longest wait counts. Default
    /// none.
    ///
    /// ```
    /// use tower_composure::{HttpPolicy, http::Dialect};
    ///
    /// let policy = HttpPolicy::new().dialect(Dialect::RateLimit);
    /// ```
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.rules().dialects.push(dialect);
        self
    }

    /// The header a key is found in. Default `idempotency-key`. A header without a value is no key, nor is an empty
    /// string in quotes.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tower_composure::HttpPolicy;
    ///
    /// let policy = HttpPolicy::new().key_header(HeaderName::from_static("x-request-key"));
    /// ```
    #[must_use]
    pub fn key_header(mut self, header: HeaderName) -> Self {
        self.rules().key_header = header;
        self
    }

    /// States that the `reqwest` client below follows no redirect that makes another request of the one it was given
    /// (301, 302 and 303). Default no, because reqwest does. A connection that was never made is `Refused` only then:
    /// otherwise it may have been the second one, after the first server had carried the request out. See
    /// [`http::reqwest`](crate::http::reqwest#redirects).
    ///
    /// ```
    /// let policy = tower_composure::HttpPolicy::new().redirects_keep_method(true);
    /// ```
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

    /// What errors of a type mean, at any depth of the sources of an error, and by itself where the service's error is
    /// of this type. It is asked before this crate looks, of the outermost first, and `None` leaves the matter to
    /// others.
    ///
    /// For what cannot be seen without another dependency, such as the certificate errors of native-tls:
    ///
    /// ```
    /// # mod native_tls {
    /// #     #[derive(Debug)]
    /// #     pub struct Error;
    /// #     impl std::fmt::Display for Error {
    /// #         fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("") }
    /// #     }
    /// #     impl std::error::Error for Error {}
    /// # }
    /// use tower_composure::{HttpPolicy, Verdict};
    ///
    /// let policy = HttpPolicy::new().recognise(|_: &native_tls::Error| Some(Verdict::Fault));
    /// # let _ = policy;
    /// ```
    ///
    /// Say `Refused` or `Throttled` only where the type proves that the request had no effect: they repeat a write
    /// without a key. The source of an error of hyper may be what went wrong with the request's own body.
    #[must_use]
    pub fn recognise<E, F>(mut self, verdict: F) -> Self
    where
        E: Error + 'static,
        F: Fn(&E) -> Option<Verdict> + Send + Sync + 'static,
    {
        let rules = self.rules();
        rules.types.push(Arc::new(move |error| {
            error.downcast_ref::<E>().and_then(&verdict)
        }));
        self.see::<E>(|error| Some(error))
    }

    /// The wall clock that a date in `Retry-After` is compared with where the response has no `Date`.
    /// A time in a [`Dialect`] likewise. For tests.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tower_composure::HttpPolicy;
    ///
    /// let policy = HttpPolicy::new().wall_clock(|| SystemTime::UNIX_EPOCH);
    /// ```
    #[must_use]
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.rules().wall = Arc::new(now);
        self
    }

    pub(super) fn of_error<E: 'static>(&self, error: &E) -> Verdict {
        if let Some(error) = see::error(error) {
            return self.of_seen(error);
        }
        let mut verdict = None;
        for sight in &self.rules.sights {
            sight(error, &mut |error| verdict = Some(self.of_seen(error)));
        }
        verdict.unwrap_or(Verdict::UNKNOWN)
    }

    fn of_seen(&self, error: &(dyn Error + 'static)) -> Verdict {
        let types = &self.rules.types;
        see::chain(error)
            .find_map(|link| types.iter().find_map(|verdict| verdict(link)))
            .unwrap_or_else(|| self.of_chain(error))
    }

    #[cfg(feature = "reqwest")]
    fn of_chain(&self, error: &(dyn Error + 'static)) -> Verdict {
        super::reqwest::verdict(error, self.rules.redirects_keep_method, |status| {
            let unmarked = Attempt::first(Effect::Write);
            self.of_head(unmarked, status, &HeaderMap::new())
        })
    }

    #[cfg(not(feature = "reqwest"))]
    #[expect(clippy::unused_self, reason = "only reqwest's errors depend on a rule")]
    fn of_chain(&self, error: &(dyn Error + 'static)) -> Verdict {
        super::errors::verdict(error)
    }

    /// What a response means by its head.
    pub(super) fn of_head(
        &self,
        attempt: Attempt,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Verdict {
        self.rules.of_head(attempt, status, headers)
    }

    #[inline(never)]
    pub(super) fn classify_outcome<B, E: 'static>(
        &self,
        attempt: Attempt,
        outcome: Result<&Response<B>, &E>,
    ) -> Verdict {
        match outcome {
            Ok(response) => match self.of_head(attempt, response.status(), response.headers()) {
                Verdict::Success if collect_body::is_broken(response) => Verdict::UNKNOWN,
                verdict => verdict,
            },
            Err(error) => self.of_error(error),
        }
    }
}

impl Default for HttpPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<A, B, E: 'static> Policy<Request<A>, Response<B>, E> for HttpPolicy {
    #[inline]
    fn effect(&self, request: &Request<A>) -> Effect {
        self.rules.of_request(request)
    }

    fn keyed(&self, request: &Request<A>) -> bool {
        self.rules.has_key(request)
    }

    #[inline]
    fn classify(&self, attempt: &Attempt, outcome: Result<&Response<B>, &E>) -> Verdict {
        match outcome {
            Ok(response) if self.rules.is_plain_success(response) => Verdict::Success,
            outcome => self.classify_outcome(*attempt, outcome),
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
            .field("dialects", &self.rules.dialects)
            .field("server_honours_keys", &self.rules.honours_keys)
            .field(
                "conflict_means_in_progress",
                &self.rules.conflict_in_progress,
            )
            .field("key_header", &self.rules.key_header)
            .finish_non_exhaustive()
    }
}
