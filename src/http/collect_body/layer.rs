use std::fmt;
use std::sync::Arc;

use ::http::response::Parts;
use tower_layer::Layer;

use super::CollectBodyService;

/// Collects the bodies of responses, so that a policy can look at them. See the [module](crate::http::collect_body).
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_composure::http::CollectBodyLayer;
/// use tower_composure::{HttpPolicy, RetryLayer};
///
/// let layers = ServiceBuilder::new().layer(RetryLayer::new(HttpPolicy::new())).layer(CollectBodyLayer::new());
/// ```
#[derive(Clone)]
pub struct CollectBodyLayer {
    max_bytes: usize,
    when: When,
}

/// Which bodies are collected.
#[derive(Clone)]
pub(super) enum When {
    Errors,
    All,
    Told(Arc<dyn Fn(&Parts) -> bool + Send + Sync>),
}

impl When {
    pub(super) fn says(&self, head: &Parts) -> bool {
        match self {
            Self::Errors => head.status.is_client_error() || head.status.is_server_error(),
            Self::All => true,
            Self::Told(when) => when(head),
        }
    }
}

impl CollectBodyLayer {
    /// Collects the bodies of client and server errors (4xx and 5xx), up to 64 KiB each.
    ///
    /// ```
    /// use tower_composure::http::CollectBodyLayer;
    ///
    /// let layer = CollectBodyLayer::new();
    /// ```
    pub const fn new() -> Self {
        Self {
            max_bytes: 64 * 1024,
            when: When::Errors,
        }
    }

    /// The most bytes of a body that are collected; a larger one is passed on as a stream. Default 64 KiB; with 0, only
    /// what is empty is collected.
    ///
    /// ```
    /// use tower_composure::http::CollectBodyLayer;
    ///
    /// let layer = CollectBodyLayer::new().max_bytes(1024 * 1024);
    /// ```
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Collects every body. A success is then a response whose body has come whole, or is larger than the bound.
    ///
    /// ```
    /// use tower_composure::http::CollectBodyLayer;
    ///
    /// let layer = CollectBodyLayer::new().all();
    /// ```
    #[must_use]
    pub fn all(mut self) -> Self {
        self.when = When::All;
        self
    }

    /// Collects the body of each response whose head fulfils this.
    ///
    /// ```
    /// use http::StatusCode;
    /// use tower_composure::http::CollectBodyLayer;
    ///
    /// let layer = CollectBodyLayer::new().when(|head| head.status == StatusCode::TOO_MANY_REQUESTS);
    /// ```
    #[must_use]
    pub fn when(mut self, when: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.when = When::Told(Arc::new(when));
        self
    }
}

impl Default for CollectBodyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for CollectBodyLayer {
    type Service = CollectBodyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CollectBodyService::new(inner, self.max_bytes, self.when.clone())
    }
}

impl fmt::Debug for CollectBodyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectBodyLayer")
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}
