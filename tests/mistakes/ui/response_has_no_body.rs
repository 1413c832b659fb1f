//! `DrainBody` where the response is no `http::Response`.

use tower::{Service, ServiceBuilder};
use tower_composure::http::DrainBody;
use tower_composure::{BoxError, Effect, RetryLayer};

fn client() -> impl Service<u64, Response = u64, Error = BoxError> {
    let retry = RetryLayer::builder(Effect::Read).release(DrainBody::new());
    ServiceBuilder::new()
        .layer(retry.build().unwrap())
        .service_fn(|id: u64| async move { Ok::<_, BoxError>(id) })
}

fn main() {
    client();
}
