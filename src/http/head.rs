use ::http::{Extensions, HeaderMap, HeaderName, Method, Request};

use super::policy::Rules;
use super::retry_after;
use crate::effect::Effect;

/// What the requests of all HTTP clients have in common.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no HTTP request that this crate knows",
    label = "has no headers",
    note = "`http::Request` is one, and with the feature `reqwest` so is `reqwest::Request`"
)]
pub(crate) trait Head {
    fn method(&self) -> &Method;
    fn headers(&self) -> &HeaderMap;
    fn headers_mut(&mut self) -> &mut HeaderMap;

    /// The effect that the request itself is marked with.
    fn marked(&self) -> Option<Effect>;

    /// Whether the request is marked with nothing at all.
    fn is_unmarked(&self) -> bool;
}

impl<B> Head for Request<B> {
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
        Extensions::get(self.extensions()).copied()
    }

    fn is_unmarked(&self) -> bool {
        self.extensions().is_empty()
    }
}

impl Rules {
    /// What a request does.
    #[inline]
    pub(super) fn of_request(&self, request: &impl Head) -> Effect {
        let effect = by_method(request.method());
        if effect != Effect::Write && self.methods.is_empty() && request.is_unmarked() {
            return effect;
        }
        self.of_other_request(request, effect)
    }

    /// The same where there may be more to it than the usual meaning of its method.
    #[inline(never)]
    fn of_other_request(&self, request: &impl Head, by_method: Effect) -> Effect {
        let effect = request.marked().unwrap_or_else(|| {
            let mut methods = self.methods.iter();
            let known = methods.find(|(known, _)| known == request.method());
            known.map_or(by_method, |known| known.1)
        });
        if effect == Effect::Write && self.honours_keys && self.has_key(request) {
            Effect::IdempotentWrite
        } else {
            effect
        }
    }

    pub(super) fn has_key(&self, request: &impl Head) -> bool {
        is_given(request.headers(), &self.key_header)
    }
}

/// What a method does, as RFC 9110 has it (§9.2).
#[inline]
fn by_method(method: &Method) -> Effect {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => Effect::Read,
        Method::PUT | Method::DELETE => Effect::IdempotentWrite,
        _ => Effect::Write,
    }
}

/// Whether there is a header of this name with a value: one without, or with an empty string in quotes, is as if it were
/// absent.
pub(crate) fn is_given(headers: &HeaderMap, name: &HeaderName) -> bool {
    let values = headers.get_all(name).iter();
    let mut values = values.map(|value| retry_after::trimmed(value.as_bytes()));
    values.any(|value| !value.is_empty() && value != b"\"\"")
}
