//! What the types around requests and answers print of themselves: their settings, and nothing of what they carry.
#![cfg(all(
    not(loom),
    feature = "http",
    feature = "grpc",
    feature = "keyed",
    feature = "tool"
))]
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::http::{
    CollectBodyLayer, Dialect, DrainBody, HttpPolicy, ReplayBodyLayer, ReplayRequest,
};
use tower_composure::keyed::Budgets;
use tower_composure::retry::{Release, Replay};
use tower_composure::tool::HttpOperation;
use tower_composure::{
    AttemptHeaderLayer, Budget, Deadline, DeadlineFromHeaderLayer, DeadlineHeaderLayer, Effect,
    GrpcPolicy, IdempotencyKey, IdempotencyKeyLayer, RetryLayer, ToolCall, ToolKeyLayer,
    ToolPolicy,
};

const SECRET: &str = "SECRET123";

fn shows_nothing(what: &dyn fmt::Debug) {
    let text = format!("{what:?} {what:#?}");
    assert!(!text.contains(SECRET), "{text}");
    assert!(!text.trim().is_empty(), "nor is it nothing at all");
}

fn request() -> Request<Full<Bytes>> {
    Request::post(format!(
        "http://u:{SECRET}@payments.test/{SECRET}?sig={SECRET}"
    ))
    .header("authorization", SECRET)
    .header("idempotency-key", SECRET)
    .header("grpc-timeout", "5S")
    .body(Full::from(SECRET))
    .unwrap()
}

fn answer() -> Response<Full<Bytes>> {
    let response = Response::builder().status(503).header("x-secret", SECRET);
    response.body(Full::from(SECRET)).unwrap()
}

#[tokio::test]
async fn bodies_show_no_byte() {
    let client = tower::service_fn(|request: Request<_>| async move {
        shows_nothing(request.body());
        let copy = ReplayRequest.replay(&request);
        shows_nothing(copy.as_ref().unwrap().body());
        drop(request.into_body().collect().await);
        shows_nothing(copy.unwrap().body());
        Ok::<_, BoxError>(answer())
    });
    let mut service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(CollectBodyLayer::new())
        .service(client);
    let called = service.ready().await.unwrap().call(request());
    shows_nothing(&called);
    let response = called.await.unwrap();
    assert_eq!(response.body().collected().unwrap(), SECRET);
    shows_nothing(response.body());
    let drain = DrainBody::new();
    shows_nothing(&drain);
    if let Some(draining) = drain.release(answer()) {
        shows_nothing(&draining);
    }
}

#[tokio::test]
async fn layers_that_read_and_write_headers_show_no_value() {
    let budgets = Budgets::new("apis", 8, Budget::builder()).unwrap();
    budgets.get(SECRET);
    shows_nothing(&budgets);
    let name = HeaderName::from_static("x-time-left");
    let service = ServiceBuilder::new()
        .layer(DeadlineFromHeaderLayer::grpc())
        .layer(IdempotencyKeyLayer::new())
        .layer(RetryLayer::new(
            HttpPolicy::new().dialect(Dialect::RateLimit),
        ))
        .layer(AttemptHeaderLayer::envoy())
        .layer(DeadlineHeaderLayer::millis(name));
    shows_nothing(&service);
    let mut service = service.service(tower::service_fn(|request: Request<_>| async move {
        shows_nothing(&Deadline::current());
        shows_nothing(&IdempotencyKey::current());
        drop(request);
        Ok::<_, BoxError>(answer())
    }));
    let called = service.ready().await.unwrap().call(request());
    shows_nothing(&called);
    called.await.unwrap();
    shows_nothing(&HttpPolicy::new());
    shows_nothing(&HttpPolicy::new().refine(|_: &Response<()>, verdict| verdict));
    shows_nothing(&GrpcPolicy::new().effect_fn(|_| Effect::Read));
}

#[tokio::test]
async fn tools_show_no_argument_and_no_address() {
    let target = format!("http://payments.test/{SECRET}/{{order}}");
    let operation = HttpOperation::new(Method::POST, target).unwrap();
    shows_nothing(&operation);
    shows_nothing(&ToolPolicy::new());
    let client = tower::service_fn(|_: Request<Vec<u8>>| async {
        Ok::<_, BoxError>(Response::new(Vec::from(format!("{{\"a\":\"{SECRET}\"}}"))))
    });
    let mut tool = ToolKeyLayer::from_arguments().layer(operation.layer(client));
    let key = IdempotencyKey::new(SECRET).unwrap();
    let call = ToolCall::new("charge")
        .arg("order", SECRET)
        .invocation_id(SECRET)
        .function_call_id(SECRET)
        .key(key);
    shows_nothing(&call);
    let called = tool.ready().await.unwrap().call(call);
    shows_nothing(&called);
    tokio::time::timeout(Duration::from_secs(30), called)
        .await
        .unwrap()
        .unwrap();
}
