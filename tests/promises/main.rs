//! What must stay true, in any stack, whatever the service does and whenever a caller gives up: a property for each
//! promise, over worlds that shrink to a script that can be read.
//!
//! `PROPTEST_CASES=100000 cargo nextest run --all-features --test promises` looks longer.
#![cfg(not(loom))]
#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test may; it reads tokio's paused clock"
)]

mod drops;
mod ears;
mod load;
mod play;
mod secrets;

mod service;
mod waits;
mod world;
mod writes;
