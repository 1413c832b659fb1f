use tower_layer::Layer;

use super::service::PeekStatusService;

/// Finds the status of an answer whose trailers came with its headers, for the retry above. See the
/// [module](crate::grpc).
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_composure::grpc::PeekStatusLayer;
/// use tower_composure::{GrpcPolicy, RetryLayer};
///
/// let layers = ServiceBuilder::new().layer(RetryLayer::new(GrpcPolicy::new())).layer(PeekStatusLayer::new());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct PeekStatusLayer {
    _private: (),
}

impl PeekStatusLayer {
    /// There is nothing to configure.
    ///
    /// ```
    /// use tower_composure::grpc::PeekStatusLayer;
    ///
    /// let layer = PeekStatusLayer::new();
    /// ```
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl<S> Layer<S> for PeekStatusLayer {
    type Service = PeekStatusService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PeekStatusService::new(inner)
    }
}
