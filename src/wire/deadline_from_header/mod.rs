//! The time that a caller has left, read from a header.

mod future;
mod layer;
mod service;

pub use future::DeadlineFromHeaderFuture;
pub use layer::DeadlineFromHeaderLayer;
pub use service::DeadlineFromHeaderService;
