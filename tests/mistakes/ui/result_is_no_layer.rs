//! A layer that may not have been built.

use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, Effect, Stack};

fn client() -> impl Service<u64, Response = u64, Error = BoxError> {
    ServiceBuilder::new()
        .layer(Stack::builder(Effect::Read).build())
        .service_fn(|id: u64| async move { Ok::<_, BoxError>(id) })
}

fn main() {
    client();
}
