use ::http::HeaderName;
use tower_layer::Layer;

use super::service::DeadlineHeaderService;
use crate::wire::{GRPC_TIMEOUT, TimeoutFormat};

/// Tells the server how much time is left before the deadline in scope. See the [module](crate::wire).
///
/// ```
/// use std::time::Duration;
/// use tower::ServiceBuilder;
/// use tower_composure::{DeadlineHeaderLayer, DeadlineLayer};
///
/// let layers = ServiceBuilder::new()
///     .layer(DeadlineLayer::call(Duration::from_secs(8)))
///     .layer(DeadlineHeaderLayer::grpc());
/// ```
#[derive(Debug, Clone)]
pub struct DeadlineHeaderLayer {
    header: HeaderName,
    format: TimeoutFormat,
}

impl DeadlineHeaderLayer {
    /// `grpc-timeout`.
    ///
    /// ```
    /// use tower_composure::DeadlineHeaderLayer;
    ///
    /// let layer = DeadlineHeaderLayer::grpc();
    /// ```
    pub const fn grpc() -> Self {
        Self::new(GRPC_TIMEOUT, TimeoutFormat::Grpc)
    }

    /// Whole milliseconds, in a header of this name.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tower_composure::DeadlineHeaderLayer;
    ///
    /// let layer = DeadlineHeaderLayer::millis(HeaderName::from_static("x-timeout-ms"));
    /// ```
    pub const fn millis(header: HeaderName) -> Self {
        Self::new(header, TimeoutFormat::Millis)
    }

    const fn new(header: HeaderName, format: TimeoutFormat) -> Self {
        Self { header, format }
    }
}

impl<S> Layer<S> for DeadlineHeaderLayer {
    type Service = DeadlineHeaderService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineHeaderService::new(inner, self.header.clone(), self.format)
    }
}
