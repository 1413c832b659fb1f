//! The properties are those that the tests replay.

#[path = "../../tests/support/targets.rs"]
pub mod targets;
