//! The number of an attempt, in a header.

mod layer;
mod service;

pub use layer::{AttemptHeaderLayer, Numbering};
pub use service::AttemptHeaderService;
