//! Atomics and locks, from std or from loom.

#[cfg(all(not(loom), any(feature = "http", feature = "metrics")))]
pub(crate) use std::sync::Mutex;
#[cfg(all(not(loom), feature = "http"))]
pub(crate) use std::sync::MutexGuard;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(all(loom, any(feature = "http", feature = "metrics")))]
pub(crate) use loom::sync::Mutex;
#[cfg(all(loom, feature = "http"))]
pub(crate) use loom::sync::MutexGuard;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
