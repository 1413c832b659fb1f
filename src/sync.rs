//! Atomics and locks, from std or from loom.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(all(not(loom), feature = "http"))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(all(loom, feature = "http"))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
