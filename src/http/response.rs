//! What a server answers where a layer of this crate has failed.

use std::error::Error;
use std::time::Duration;

use ::http::header::RETRY_AFTER;
use ::http::{HeaderValue, Response, StatusCode};

use crate::circuit_breaker::BreakerOpen;
use crate::deadline::DeadlineExceeded;

/// An empty response for an error of this crate: an open breaker is a 503 with `Retry-After` (RFC 9110 §10.2.3), a
/// deadline that has passed a 504, and any other error a 500. Nothing of the error's text goes into it.
///
/// For an axum router whose layers can fail:
///
/// ```
/// use axum::{Router, error_handling::HandleErrorLayer, routing::get};
/// use std::time::Duration;
/// use tower::ServiceBuilder;
/// use tower_composure::{BoxError, CircuitBreaker, CircuitBreakerLayer, DeadlineLayer, HttpPolicy, http};
///
/// let app: Router = Router::new().route("/", get(|| async { "calm" })).layer(
///     ServiceBuilder::new()
///         .layer(HandleErrorLayer::new(|error: BoxError| async move {
///             http::error_response::<axum::body::Body>(&*error)
///         }))
///         .layer(CircuitBreakerLayer::new(CircuitBreaker::default(), HttpPolicy::new()))
///         .layer(DeadlineLayer::call(Duration::from_secs(8))),
/// );
/// # let _ = app;
/// ```
pub fn error_response<B: Default>(error: &(dyn Error + 'static)) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = if let Some(open) = BreakerOpen::find(error) {
        if let Some(seconds) = whole_seconds(open.remaining()) {
            let value = HeaderValue::from(seconds);
            response.headers_mut().insert(RETRY_AFTER, value);
        }
        StatusCode::SERVICE_UNAVAILABLE
    } else if DeadlineExceeded::find(error).is_some() {
        StatusCode::GATEWAY_TIMEOUT
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    response
}

/// The whole seconds after which a retry is not too early, at least one; none where there is no end.
fn whole_seconds(wait: Duration) -> Option<u64> {
    let up = u64::from(wait.subsec_nanos() > 0);
    (wait < Duration::MAX).then(|| wait.as_secs().saturating_add(up).max(1))
}
