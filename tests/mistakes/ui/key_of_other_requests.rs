//! A key that is made from another type of request than the service takes.

use http::{Request, Response};
use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, IdempotencyKey, IdempotencyKeyLayer};

struct Order;

fn client() -> impl Service<Request<String>, Response = Response<()>, Error = BoxError> {
    ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new().key_fn(|_: &Order| IdempotencyKey::random()))
        .service_fn(|_: Request<String>| async { Ok::<_, BoxError>(Response::new(())) })
}

fn main() {
    client();
}
