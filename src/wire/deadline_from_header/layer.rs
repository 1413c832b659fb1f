use std::time::Duration;

use ::http::{HeaderMap, HeaderName};
use tower_layer::Layer;

use super::service::DeadlineFromHeaderService;
use crate::wire::{GRPC_TIMEOUT, TimeoutFormat, shortest};

/// Puts the deadline that a caller sent into scope. See the [module](crate::wire).
///
/// It ends nothing by itself and keeps the error type of the service, so it fits into a router. What ends the call is a
/// [`DeadlineLayer`](crate::DeadlineLayer) below it.
///
/// ```
/// use http::HeaderName;
/// use std::time::Duration;
/// use tower::ServiceBuilder;
/// use tower_composure::{DeadlineFromHeaderLayer, DeadlineLayer};
///
/// let layers = ServiceBuilder::new()
///     .layer(DeadlineFromHeaderLayer::millis(HeaderName::from_static("x-timeout-ms")))
///     .layer(DeadlineLayer::call(Duration::from_secs(5)));
/// ```
#[derive(Debug, Clone)]
pub struct DeadlineFromHeaderLayer {
    config: Config,
}

#[derive(Debug, Clone)]
pub(super) struct Config {
    header: HeaderName,
    format: TimeoutFormat,
    default: Duration,
    longest: Duration,
}

impl DeadlineFromHeaderLayer {
    /// From `grpc-timeout`. Without one there is no deadline, as gRPC has it.
    ///
    /// ```
    /// use tower_composure::DeadlineFromHeaderLayer;
    ///
    /// let layer = DeadlineFromHeaderLayer::grpc();
    /// ```
    pub const fn grpc() -> Self {
        Self::new(GRPC_TIMEOUT, TimeoutFormat::Grpc)
    }

    /// From whole milliseconds in a header of this name. Without one there is no deadline.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tower_composure::DeadlineFromHeaderLayer;
    ///
    /// let layer = DeadlineFromHeaderLayer::millis(HeaderName::from_static("x-timeout-ms"));
    /// ```
    pub const fn millis(header: HeaderName) -> Self {
        Self::new(header, TimeoutFormat::Millis)
    }

    const fn new(header: HeaderName, format: TimeoutFormat) -> Self {
        Self {
            config: Config {
                header,
                format,
                default: Duration::MAX,
                longest: Duration::MAX,
            },
        }
    }

    /// How long a request without a valid header may take. Default `Duration::MAX`: no deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::DeadlineFromHeaderLayer;
    ///
    /// let layer = DeadlineFromHeaderLayer::grpc().default_limit(Duration::from_secs(5));
    /// ```
    #[must_use]
    pub const fn default_limit(mut self, limit: Duration) -> Self {
        self.config.default = limit;
        self
    }

    /// The longest that any request may take, whatever its header says. Default `Duration::MAX`: as long as it says.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::DeadlineFromHeaderLayer;
    ///
    /// let layer = DeadlineFromHeaderLayer::grpc().max_limit(Duration::from_secs(30));
    /// ```
    #[must_use]
    pub const fn max_limit(mut self, limit: Duration) -> Self {
        self.config.longest = limit;
        self
    }
}

impl Config {
    /// How long a request with these headers may take.
    pub(super) fn limit(&self, headers: &HeaderMap) -> Duration {
        shortest(headers, &self.header, self.format)
            .unwrap_or(self.default)
            .min(self.longest)
    }
}

impl<S> Layer<S> for DeadlineFromHeaderLayer {
    type Service = DeadlineFromHeaderService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineFromHeaderService::new(inner, self.config.clone())
    }
}
