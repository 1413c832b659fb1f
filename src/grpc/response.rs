//! What a gRPC server answers where a layer of this crate has failed.

use std::error::Error;
use std::time::Duration;

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderMap, HeaderValue, Response};

use super::Code;
use super::status::{PUSHBACK, STATUS};
use crate::circuit_breaker::BreakerOpen;
use crate::deadline::DeadlineExceeded;

/// A trailers-only response for an error of this crate: an open breaker is `UNAVAILABLE` with pushback (gRFC A6), a
/// deadline that has passed `DEADLINE_EXCEEDED`, and any other error `INTERNAL`. Nothing of the error's text goes into
/// it.
///
/// ```
/// use http::{Request, Response};
/// use std::time::Duration;
/// use tower::{BoxError, ServiceBuilder};
/// use tower_composure::{DeadlineFromHeaderLayer, DeadlineLayer, grpc};
///
/// // Around a tonic service, whose errors are boxed: it ends with its caller, and after 5 s at the latest.
/// let service = ServiceBuilder::new()
///     .layer(DeadlineFromHeaderLayer::grpc())
///     .map_result(|outcome: Result<_, BoxError>| {
///         outcome.or_else(|error| Ok::<_, BoxError>(grpc::error_response(&*error)))
///     })
///     .layer(DeadlineLayer::call(Duration::from_secs(5)))
///     .service_fn(|_: Request<()>| std::future::pending::<Result<Response<()>, BoxError>>());
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let request = Request::post("/payments.Payments/Look").header("grpc-timeout", "200m").body(()).unwrap();
/// let response = tower::ServiceExt::oneshot(service, request).await.unwrap();
/// assert_eq!(response.headers()["grpc-status"], "4");
/// # });
/// ```
pub fn error_response<B: Default>(error: &(dyn Error + 'static)) -> Response<B> {
    let mut response = Response::new(B::default());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let code = if let Some(open) = BreakerOpen::find(error) {
        push_back(headers, open.remaining());
        Code::Unavailable
    } else if DeadlineExceeded::find(error).is_some() {
        Code::DeadlineExceeded
    } else {
        Code::Internal
    };
    headers.insert(STATUS, HeaderValue::from(u16::from(code.number())));
    response
}

/// The whole milliseconds after which a retry is not too early; "never" where they are too many to be written. Where it
/// is a probe that is in the way and not time, a client does better by its own backoff.
fn push_back(headers: &mut HeaderMap, wait: Duration) {
    if wait.is_zero() {
        return;
    }
    let up = u128::from(wait.subsec_nanos() % 1_000_000 != 0);
    let millis = wait.as_millis().saturating_add(up);
    headers.insert(
        PUSHBACK,
        HeaderValue::from(i32::try_from(millis).unwrap_or(-1)),
    );
}
