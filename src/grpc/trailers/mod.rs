//! The status of an answer that has trailers and nothing else.

mod body;
mod future;
mod layer;
mod service;

pub use body::Peeked;
pub use future::PeekStatusFuture;
pub use layer::PeekStatusLayer;
pub use service::PeekStatusService;
