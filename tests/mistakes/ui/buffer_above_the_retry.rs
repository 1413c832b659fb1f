//! A service that is not `Clone`. A `Buffer` makes it so, but only for what stands above it.

use tower::util::BoxService;
use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, Effect, RetryLayer};

fn client(
    inner: BoxService<u64, u64, BoxError>,
) -> impl Service<u64, Response = u64, Error = BoxError> {
    ServiceBuilder::new()
        .buffer(16)
        .layer(RetryLayer::new(Effect::Read))
        .service(inner)
}

fn main() {
    let _ = client;
}
