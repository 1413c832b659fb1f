//! Faults on a schedule, for tests and drills.
//!
//! Whether a stack survives an outage is found out by having one. A [`FaultLayer`] plays a schedule of windows over a
//! service: in each of them some calls are answered in its place, or late, or never. The most instructive fault is the
//! *lost answer*: the service does what was asked and nobody hears of it, which is what a timeout looks like from
//! outside.
//!
//! # When to use
//!
//! In tests, with a paused clock and a seed, so that a run can be repeated; and in drills on a staging system.
//!
//! # When not to
//!
//! In front of real money.
//!
//! # Where in the stack
//!
//! Below everything else, directly around the service: that is where a dependency fails.
//!
//! # What happens
//!
//! Windows are counted from when the layer was built, on tokio's clock; they include their start and not their end. For
//! each call the windows are asked in turn, and the first one that covers the moment and whose rate draws the call
//! applies. Chance comes from the seed, one draw for each window that is asked.
//!
//! # Cancellation
//!
//! Dropping the future drops the inner one, where there is one.
//!
//! # Errors
//!
//! Those that a window was told to answer with.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
//! use std::time::Duration;
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::fault::{FaultLayer, Window};
//!
//! let outage = Window::between(Duration::from_secs(10), Duration::from_secs(40))
//!     .respond_with(|_: &u32| Err("down"));
//! let service = ServiceBuilder::new()
//!     .layer(FaultLayer::builder().window(outage).build()?)
//!     .service_fn(|number: u32| async move { Ok::<u32, &str>(number) });
//! assert_eq!(service.clone().oneshot(7).await, Ok(7));
//! tokio::time::advance(Duration::from_secs(10)).await;
//! assert_eq!(service.oneshot(7).await, Err("down"));
//! # Ok(()) }
//! ```
#![cfg_attr(
    feature = "http",
    doc = r"
Three faults over HTTP, repeatable: an outage, slow answers, and one answer in thirty lost for ever.

```
use std::time::Duration;
use http::{Request, Response, StatusCode};
use tower_composure::fault::{FaultLayer, Window};

let second = Duration::from_secs(1);
let layer = FaultLayer::<Request<String>, Response<String>, std::io::Error>::builder()
    .seed(7)
    .window(Window::between(10 * second, 40 * second).status(StatusCode::SERVICE_UNAVAILABLE))
    .window(Window::between(40 * second, 60 * second).rate(0.5).latency(second))
    .window(Window::always().rate(1.0 / 30.0).lose_answer())
    .build()?;
# let _ = layer;
# Ok::<(), tower_composure::ConfigError>(())
```
"
)]

mod future;
mod layer;
mod schedule;
mod service;

pub use future::FaultFuture;
pub use layer::{FaultLayer, FaultLayerBuilder};
pub use schedule::Window;
pub use service::FaultService;
