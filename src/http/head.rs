use ::http::{Extensions, HeaderMap, HeaderName, Method, Request};

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
}

/// Whether there is a header of this name with a value: one without, or with an empty string in quotes, is as if it were
/// absent.
pub(crate) fn is_given(headers: &HeaderMap, name: &HeaderName) -> bool {
    let values = headers.get_all(name).iter();
    let mut values = values.map(|value| retry_after::trimmed(value.as_bytes()));
    values.any(|value| !value.is_empty() && value != b"\"\"")
}
