//! All layers in the one order that works, because the order is where people err.
//!
//! ```text
//! breaker > call deadline > idempotency key > budget > retry > attempt deadline > the service
//! ```
//!
//! The defaults: 4 attempts with full jitter from 200 ms up to 2 s, 3 s an attempt and 8 s a call; a budget of ratio
//! 0.1 and burst 20; a breaker with a window of 100, a minimum of 20 calls and a failure rate of 0.5, open for 5 s and
//! up to 60 s, with 3 probes. There is no key until a key layer is named, and naming it states that the server honours
//! keys.
//!
//! Between these the preset has fewer services than layers: breaker and call deadline are one ([`GuardedService`]), and the
//! retry holds the budget itself. What they do is the same.
//!
//! # When to use
//!
//! For each dependency, one stack: its budget and its breaker are shared by all services made from it. Make it once,
//! next to the client, and clone.
//!
//! # When not to
//!
//! Where you need another order. Every layer is useful alone, and they find each other through the call context.
//!
//! # Where in the stack
//!
//! It is the stack. What makes requests (a signer, headers that tell of attempts and deadlines, a collected body) belongs
//! below it, what a caller or a model is told above it.
//!
//! # Cancellation
//!
//! Dropping the future at any point leaves budget, breaker and permits as if the drop had been expected.
//!
//! # Errors
//!
//! [`BoxError`](crate::BoxError): a [`BreakerOpen`](crate::BreakerOpen), a [`DeadlineExceeded`](crate::DeadlineExceeded)
//! or the service's own, each found by walking `source()`.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_composure::BoxError> {
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_composure::{Effect, Stack};
//!
//! let service = ServiceBuilder::new()
//!     .layer(Stack::builder(Effect::Read).build()?)
//!     .service_fn(|name: &'static str| async move { Ok::<_, std::io::Error>(name.len()) });
//! assert_eq!(service.oneshot("calm").await?, 4);
//! # Ok(()) }
//! ```
#![cfg_attr(
    feature = "http",
    doc = r#"
For HTTP, with a key on every POST and PATCH, and the budget and the breaker at hand for a dashboard:

```
use std::time::Duration;
use tower_composure::{Budget, CircuitBreaker, HttpPolicy, IdempotencyKeyLayer, Stack};

let budget = Budget::default();
let breaker = CircuitBreaker::default();
let stack = Stack::builder(HttpPolicy::new())
    .dependency("payments")
    .call_deadline(Duration::from_secs(5))
    .attempt_deadline(Duration::from_secs(2))
    .budget(budget.clone())
    .breaker(breaker.clone())
    .idempotency_key(IdempotencyKeyLayer::new())
    .build()?;
# let _ = stack;
# Ok::<(), tower_composure::ConfigError>(())
```

Streamed requests are sent again where their bodies are kept, and the connection of a response that lost is kept where
its body is drained. `CollectBodyLayer`, for policies that look into responses, belongs around the client:

```
use tower_composure::http::{CollectBodyLayer, DrainBody, ReplayBodyLayer, ReplayRequest};
use tower_composure::{HttpPolicy, Stack};

let stack = Stack::builder(HttpPolicy::new()).replay(ReplayRequest).release(DrainBody::new()).build()?;
let layers = tower::ServiceBuilder::new()
    .layer(ReplayBodyLayer::new())
    .layer(stack)
    .layer(CollectBodyLayer::new());
# let _ = layers;
# Ok::<(), tower_composure::ConfigError>(())
```
"#
)]

mod builder;
mod guarded;
mod key_layer;
mod layer;

pub use builder::StackBuilder;
pub use guarded::{GuardedFuture, GuardedService};
pub use key_layer::{KeyLayer, NoKey};
pub use layer::{Stack, StackService};
