//! A service whose error is no `Error`, below a layer that adds errors of its own.

use std::time::Duration;

use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, DeadlineLayer};

#[derive(Debug)]
struct Failed;

fn client() -> impl Service<u64, Response = u64, Error = BoxError> {
    ServiceBuilder::new()
        .layer(DeadlineLayer::call(Duration::from_secs(8)))
        .service_fn(|_: u64| async { Err::<u64, _>(Failed) })
}

fn main() {
    client();
}
