use ::http::Request;

use super::ReplayBody;
use crate::retry::Replay;

/// Copies a request whose body is a [`ReplayBody`]: its method, URI, version, headers and extensions with `Clone`.
///
/// Where the body is lost by the time a retry is decided, the call ends with
/// [`StopReason::NotReplayable`](crate::StopReason::NotReplayable).
///
/// ```
/// use tower_composure::http::{ReplayBodyLayer, ReplayRequest};
/// use tower_composure::{HttpPolicy, Stack};
///
/// let layers = tower::ServiceBuilder::new()
///     .layer(ReplayBodyLayer::new())
///     .layer(Stack::builder(HttpPolicy::new()).replay(ReplayRequest).build()?);
/// # let _ = layers;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayRequest;

impl<B> Replay<Request<ReplayBody<B>>> for ReplayRequest {
    fn replay(&self, request: &Request<ReplayBody<B>>) -> Option<Request<ReplayBody<B>>> {
        let body = request.body().replay()?;
        let mut copy = Request::new(body);
        copy.method_mut().clone_from(request.method());
        copy.uri_mut().clone_from(request.uri());
        *copy.version_mut() = request.version();
        copy.headers_mut().clone_from(request.headers());
        copy.extensions_mut().clone_from(request.extensions());
        Some(copy)
    }

    fn is_replayable(&self, copy: &Request<ReplayBody<B>>) -> bool {
        copy.body().is_replayable()
    }
}
