//! The time that is left, in a header.

mod future;
mod layer;
mod service;

pub use future::DeadlineHeaderFuture;
pub use layer::DeadlineHeaderLayer;
pub use service::DeadlineHeaderService;
