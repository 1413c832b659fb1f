use ::http::{HeaderName, HeaderValue};
use tower_layer::Layer;

use super::service::AttemptHeaderService;

/// How the attempts of a call are numbered in a header.
///
/// ```
/// use http::HeaderName;
/// use tower_composure::AttemptHeaderLayer;
/// use tower_composure::wire::Numbering;
///
/// let layer = AttemptHeaderLayer::new(HeaderName::from_static("x-retry"), Numbering::FromZero);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// Attempts: 1 on the first.
    FromOne,
    /// Retries: 0 on the first attempt.
    FromZero,
    /// Retries, and no header on the first attempt.
    RetriesOnly,
}

impl Numbering {
    /// The value for an attempt, counted from 1.
    pub(super) fn value(self, attempt: u32) -> Option<HeaderValue> {
        let number = match self {
            Self::FromOne => attempt,
            Self::FromZero => attempt.saturating_sub(1),
            Self::RetriesOnly => attempt.checked_sub(1).filter(|retries| *retries > 0)?,
        };
        Some(value(number))
    }
}

/// Almost every call is made of few attempts, and their numbers are made without an allocation.
fn value(number: u32) -> HeaderValue {
    const SMALL: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    usize::try_from(number)
        .ok()
        .and_then(|index| SMALL.get(index))
        .map_or_else(
            || HeaderValue::from(number),
            |text| HeaderValue::from_static(text),
        )
}

/// Tells the server which attempt a request is. See the [module](crate::wire).
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_composure::{AttemptHeaderLayer, HttpPolicy, RetryLayer};
///
/// let layers = ServiceBuilder::new().layer(RetryLayer::new(HttpPolicy::new())).layer(AttemptHeaderLayer::envoy());
/// ```
#[derive(Debug, Clone)]
pub struct AttemptHeaderLayer {
    header: HeaderName,
    numbering: Numbering,
}

impl AttemptHeaderLayer {
    /// A header of your own.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tower_composure::AttemptHeaderLayer;
    /// use tower_composure::wire::Numbering;
    ///
    /// let layer = AttemptHeaderLayer::new(HeaderName::from_static("x-attempt"), Numbering::FromOne);
    /// ```
    pub const fn new(header: HeaderName, numbering: Numbering) -> Self {
        Self { header, numbering }
    }

    /// `x-envoy-attempt-count`, as Envoy sends it: 1 on the first attempt.
    ///
    /// ```
    /// use tower_composure::AttemptHeaderLayer;
    ///
    /// let layer = AttemptHeaderLayer::envoy();
    /// ```
    pub const fn envoy() -> Self {
        let header = HeaderName::from_static("x-envoy-attempt-count");
        Self::new(header, Numbering::FromOne)
    }

    /// `grpc-previous-rpc-attempts` (gRFC A6): absent on the first attempt.
    ///
    /// ```
    /// use tower_composure::AttemptHeaderLayer;
    ///
    /// let layer = AttemptHeaderLayer::grpc();
    /// ```
    pub const fn grpc() -> Self {
        let header = HeaderName::from_static("grpc-previous-rpc-attempts");
        Self::new(header, Numbering::RetriesOnly)
    }

    /// `x-stainless-retry-count`, as the SDKs of `OpenAI` and Anthropic send it: 0 on the first attempt.
    ///
    /// ```
    /// use tower_composure::AttemptHeaderLayer;
    ///
    /// let layer = AttemptHeaderLayer::stainless();
    /// ```
    pub const fn stainless() -> Self {
        let header = HeaderName::from_static("x-stainless-retry-count");
        Self::new(header, Numbering::FromZero)
    }
}

impl<S> Layer<S> for AttemptHeaderLayer {
    type Service = AttemptHeaderService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptHeaderService::new(inner, self.header.clone(), self.numbering)
    }
}
