//! A request that cannot be copied, below a retry that was given no replay strategy.

use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, Effect, RetryLayer};

struct Upload;

fn client() -> impl Service<Upload, Response = (), Error = BoxError> {
    ServiceBuilder::new()
        .layer(RetryLayer::new(Effect::IdempotentWrite))
        .service_fn(|_: Upload| async { Ok::<_, BoxError>(()) })
}

fn main() {
    client();
}
