//! `HttpPolicy` around a service that does not speak HTTP.

use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, HttpPolicy, RetryLayer};

fn client() -> impl Service<u64, Response = u64, Error = BoxError> {
    ServiceBuilder::new()
        .layer(RetryLayer::new(HttpPolicy::new()))
        .service_fn(|id: u64| async move { Ok::<_, BoxError>(id) })
}

fn main() {
    client();
}
