use std::error::Error;
use std::fmt;
use std::sync::Arc;

use ::http::{HeaderName, Request, Response, StatusCode};

use super::Code;
use super::status::{self, Status};
use crate::attempt::Attempt;
use crate::effect::Effect;
use crate::http::HttpPolicy;
use crate::policy::Policy;
use crate::report::CallReport;
use crate::verdict::Verdict;

/// Classifies gRPC by status code, pushback and the types of errors. See the [module](crate::grpc).
///
/// It works over any body and any error that is `'static`, and sees into the same errors as [`HttpPolicy`].
///
/// Cheap to clone: clones share one table.
///
/// ```
/// use tower_composure::{Effect, GrpcPolicy, Stack};
///
/// let policy = GrpcPolicy::new()
///     .effect_fn(|path| if path.ends_with("/Look") { Effect::Read } else { Effect::Write });
/// let stack = Stack::builder(policy).dependency("payments").build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Clone)]
pub struct GrpcPolicy {
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    codes: [Option<Verdict>; Code::COUNT],
    effect: Option<EffectOfPath>,
    honours_keys: bool,
    // Finds keys, sees into errors, and reads the wait that a proxy asks for.
    http: HttpPolicy,
}

type EffectOfPath = Arc<dyn Fn(&str) -> Effect + Send + Sync>;

impl GrpcPolicy {
    /// The table of the [module](crate::grpc): every method is a write, and keys are not honoured.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tower_composure::{Effect, GrpcPolicy, Policy};
    ///
    /// let policy: &dyn Policy<Request<()>, Response<()>, std::io::Error> = &GrpcPolicy::new();
    /// assert_eq!(policy.effect(&Request::new(())), Effect::Write);
    /// ```
    pub fn new() -> Self {
        let rules = Rules {
            codes: [None; Code::COUNT],
            effect: None,
            honours_keys: false,
            http: HttpPolicy::new(),
        };
        Self {
            rules: Arc::new(rules),
        }
    }

    /// The rules of this policy alone, to be changed.
    fn rules(&mut self) -> &mut Rules {
        Arc::make_mut(&mut self.rules)
    }

    /// What a code means for this server. Pushback beside it still counts; a hint in the verdict is used where there is
    /// none.
    ///
    /// ```
    /// use tower_composure::grpc::Code;
    /// use tower_composure::{GrpcPolicy, Verdict};
    ///
    /// let policy = GrpcPolicy::new().code(Code::ResourceExhausted, Verdict::UNKNOWN); // runs out half way
    /// ```
    #[must_use]
    pub fn code(mut self, code: Code, verdict: Verdict) -> Self {
        if let Some(known) = self.rules().codes.get_mut(usize::from(code.number())) {
            *known = Some(verdict);
        }
        self
    }

    /// What a method does, by its path (`/package.Service/Method`). Default: everything is a
    /// [`Write`](Effect::Write), because a path does not say what is behind it. An [`Effect`] in the extensions of a
    /// request beats it.
    ///
    /// ```
    /// use tower_composure::{Effect, GrpcPolicy};
    ///
    /// let policy = GrpcPolicy::new().effect_fn(|path| match path {
    ///     "/payments.Payments/Look" => Effect::Read,
    ///     _ => Effect::Write,
    /// });
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn effect_fn(mut self, effect: impl Fn(&str) -> Effect + Send + Sync + 'static) -> Self {
        self.rules().effect = Some(Arc::new(effect));
        self
    }

    /// States that the server honours idempotency keys in its metadata: a write that carries one is then an
    /// [`IdempotentWrite`](Effect::IdempotentWrite). Default no.
    ///
    /// ```
    /// use tower_composure::GrpcPolicy;
    ///
    /// let policy = GrpcPolicy::new().server_honours_keys(true);
    /// ```
    #[must_use]
    pub fn server_honours_keys(mut self, honours: bool) -> Self {
        self.rules().honours_keys = honours;
        self
    }

    /// The metadata that a key is found in. Default `idempotency-key`.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tower_composure::GrpcPolicy;
    ///
    /// let policy = GrpcPolicy::new().key_header(HeaderName::from_static("x-request-key"));
    /// ```
    #[must_use]
    pub fn key_header(self, header: HeaderName) -> Self {
        self.with_http(|http| http.key_header(header))
    }

    /// Lets the policy see into an error type that is not boxed, such as a channel's own. See
    /// [`HttpPolicy::see`](crate::HttpPolicy::see).
    ///
    /// ```
    /// use std::error::Error;
    /// use tower_composure::GrpcPolicy;
    ///
    /// struct ChannelError(std::io::Error);
    ///
    /// let policy = GrpcPolicy::new().see(|error: &ChannelError| Some(&error.0 as &(dyn Error + 'static)));
    /// ```
    #[must_use]
    pub fn see<E: 'static>(self, look: fn(&E) -> Option<&(dyn Error + 'static)>) -> Self {
        self.with_http(|http| http.see(look))
    }

    fn with_http(mut self, change: impl FnOnce(HttpPolicy) -> HttpPolicy) -> Self {
        let rules = self.rules();
        rules.http = change(rules.http.clone());
        self
    }

    fn of_response<B>(&self, attempt: Attempt, response: &Response<B>) -> Verdict {
        let headers = response.headers();
        if let Some(status) = Status::read(headers) {
            return self.of_status(status);
        }
        if response.status() != StatusCode::OK {
            // Something in between has answered in HTTP, and what was said of the server's codes is not said of it.
            let by_http: &dyn Policy<Request<()>, Response<B>, ()> = &self.rules.http;
            let hint = by_http.classify(&attempt, Ok(response)).hint();
            let verdict = of_code(Code::of_http(response.status()));
            return verdict.with_hint(status::pushback(headers).or(hint));
        }
        // Headers alone: the status comes after what the caller is going to read, unless that was looked for.
        let ended = response.extensions().get::<Status>();
        ended.map_or(Verdict::Success, |status| self.of_status(*status))
    }

    fn of_status(&self, status: Status) -> Verdict {
        let known = self.rules.codes.get(usize::from(status.code.number()));
        let known = known.copied().flatten();
        known
            .unwrap_or_else(|| of_code(status.code))
            .with_hint(status.pushback)
    }

    fn has_key<A>(&self, request: &Request<A>) -> bool {
        let by_http: &dyn Policy<Request<A>, Response<()>, ()> = &self.rules.http;
        by_http.keyed(request)
    }
}

const fn of_code(code: Code) -> Verdict {
    match code {
        Code::Ok => Verdict::Success,
        Code::Cancelled | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable => {
            Verdict::UNKNOWN
        }
        Code::ResourceExhausted => Verdict::THROTTLED,
        Code::Unknown | Code::Internal | Code::DataLoss => Verdict::Fault,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => Verdict::Rejected,
    }
}

impl Default for GrpcPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<A, B, E: 'static> Policy<Request<A>, Response<B>, E> for GrpcPolicy {
    fn effect(&self, request: &Request<A>) -> Effect {
        let rules = &*self.rules;
        let marked = request.extensions().get::<Effect>().copied();
        let effect = marked.unwrap_or_else(|| {
            let by_path = rules.effect.as_ref();
            by_path.map_or(Effect::Write, |effect| effect(request.uri().path()))
        });
        if effect == Effect::Write && rules.honours_keys && self.has_key(request) {
            Effect::IdempotentWrite
        } else {
            effect
        }
    }

    fn keyed(&self, request: &Request<A>) -> bool {
        self.has_key(request)
    }

    fn classify(&self, attempt: &Attempt, outcome: Result<&Response<B>, &E>) -> Verdict {
        match outcome {
            Ok(response) => self.of_response(*attempt, response),
            Err(error) => {
                let by_http: &dyn Policy<Request<A>, Response<B>, E> = &self.rules.http;
                by_http.classify(attempt, Err(error))
            }
        }
    }

    /// Puts the report into the response's extensions. A response without one came at the first attempt.
    fn report(&self, response: &mut Response<B>, report: &CallReport) {
        response.extensions_mut().insert(*report);
    }
}

impl fmt::Debug for GrpcPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcPolicy")
            .field("codes", &self.rules.codes)
            .field("server_honours_keys", &self.rules.honours_keys)
            .finish_non_exhaustive()
    }
}
