//! A streamed body in a stack that was given no replay strategy.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, HttpPolicy, Stack};

type Body = UnsyncBoxBody<Bytes, BoxError>;

fn client() -> impl Service<Request<Body>, Response = Response<String>, Error = BoxError> {
    ServiceBuilder::new()
        .layer(Stack::builder(HttpPolicy::new()).build().unwrap())
        .service_fn(|_: Request<Body>| async { Ok::<_, BoxError>(Response::new(String::new())) })
}

fn main() {
    client();
}
