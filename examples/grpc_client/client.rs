//! The stack in the place of a generated client's channel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::transport::{Channel, Endpoint};
use tower::ServiceBuilder;
use tower::util::BoxCloneService;
use tower_composure::grpc::{PeekStatusLayer, Peeked};
use tower_composure::{
    AttemptHeaderLayer, Backoff, BoxError, BreakerOpen, ConfigError, DeadlineExceeded,
    DeadlineHeaderLayer, Effect, GrpcPolicy, Stack,
};

/// What a generated client can be made of.
pub(crate) type Service = BoxCloneService<Request<Body>, Response<Peeked<Body>>, Status>;

pub(crate) fn connect(server: SocketAddr) -> Result<Channel, BoxError> {
    let endpoint = Endpoint::from_shared(format!("http://{server}"))?;
    Ok(endpoint.connect_lazy())
}

/// What every method of the service does.
pub(crate) fn effect(path: &str) -> Effect {
    match path {
        "/payments.Payments/Look" | "/payments.Payments/History" => Effect::Read,
        _ => Effect::Write,
    }
}

pub(crate) fn stack(channel: Channel, call_deadline: Duration) -> Result<Service, ConfigError> {
    let policy = GrpcPolicy::new()
        .effect_fn(effect)
        .server_honours_keys(true);
    around(channel, call_deadline, policy)
}

pub(crate) fn around(
    channel: Channel,
    call_deadline: Duration,
    policy: GrpcPolicy,
) -> Result<Service, ConfigError> {
    let stack = Stack::builder(policy)
        .call_deadline(call_deadline)
        .backoff(Backoff::exponential(
            Duration::from_millis(10),
            Duration::from_millis(100),
        ))
        .build()?;
    Ok(ServiceBuilder::new()
        .boxed_clone()
        .map_err(status)
        .filter_async(collect)
        .layer(stack)
        .layer(AttemptHeaderLayer::grpc())
        .layer(DeadlineHeaderLayer::grpc())
        .layer(PeekStatusLayer::new())
        .map_request(|request: Request<Full<Bytes>>| request.map(Body::new))
        .service(channel))
}

/// A generated client's request is a stream of messages, which cannot be sent twice. Collected it can: the one message of
/// a unary call is there at once. A client that streams must not come this way.
async fn collect(request: Request<Body>) -> Result<Request<Full<Bytes>>, BoxError> {
    let (parts, body) = request.into_parts();
    let message = body.collect().await?.to_bytes();
    Ok(Request::from_parts(parts, Full::new(message)))
}

/// The errors of the stack, as a generated client gives them to its caller. The error itself is the status's source.
fn status(error: BoxError) -> Status {
    let mut status = if DeadlineExceeded::find(&*error).is_some() {
        Status::deadline_exceeded("no time is left")
    } else if BreakerOpen::find(&*error).is_some() {
        Status::unavailable("the circuit breaker is open")
    } else {
        return Status::from_error(error);
    };
    status.set_source(Arc::from(error));
    status
}
