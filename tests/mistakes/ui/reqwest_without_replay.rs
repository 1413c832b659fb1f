//! A `reqwest::Client` in a stack that was given no replay strategy.

use tower::{Service, ServiceBuilder};
use tower_composure::{BoxError, HttpPolicy, Stack};

fn client() -> impl Service<reqwest::Request, Response = reqwest::Response, Error = BoxError> {
    ServiceBuilder::new()
        .layer(Stack::builder(HttpPolicy::new()).build().unwrap())
        .service(reqwest::Client::new())
}

fn main() {
    client();
}
