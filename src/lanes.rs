//! Owners of shared state that do not share a count of references.
//!
//! Each call needs an owner of a budget's or a breaker's state that outlives the layer. With one count of references for
//! all calls, two threads would do little else than pass its cache line to and fro; so there are several, and a thread
//! keeps to one.

use std::cell::Cell;
use std::sync::Arc;

/// What a call holds. Its count of references has a cache line, and the one that is fetched with it, of its own.
#[repr(align(128))]
pub(crate) struct Lane<T> {
    shared: Arc<T>,
}

impl<T> std::ops::Deref for Lane<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.shared
    }
}

/// A power of two.
const LANES: usize = 8;

/// All the lanes to one state.
pub(crate) struct Lanes<T>([Arc<Lane<T>>; LANES]);

impl<T> Lanes<T> {
    pub(crate) fn new(shared: &Arc<T>) -> Self {
        Self(std::array::from_fn(|_| {
            Arc::new(Lane {
                shared: Arc::clone(shared),
            })
        }))
    }

    /// The lane that this thread keeps to.
    #[inline]
    pub(crate) fn of_this_thread(&self) -> Arc<Lane<T>> {
        let [first, ..] = &self.0;
        // The compiler then knows that there is one.
        let lane = lane_of_this_thread() & (LANES - 1);
        Arc::clone(self.0.get(lane).unwrap_or(first))
    }

    /// Whether a call holds one of them.
    #[cfg(feature = "keyed")]
    pub(crate) fn are_in_use(&self) -> bool {
        self.0.iter().any(|lane| Arc::strong_count(lane) > 1)
    }
}

/// Threads take lanes in turn.
#[inline]
fn lane_of_this_thread() -> usize {
    thread_local! {
        static LANE: Cell<usize> = const { Cell::new(LANES) };
    }
    LANE.try_with(|lane| {
        if lane.get() == LANES {
            lane.set(next_lane());
        }
        lane.get()
    })
    .unwrap_or(0)
}

#[cold]
fn next_lane() -> usize {
    #[cfg(not(loom))]
    {
        use crate::sync::{AtomicU64, Ordering};

        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let lane = next.checked_rem(LANES as u64).unwrap_or(0);
        usize::try_from(lane).unwrap_or(0)
    }
    // loom's atomics cannot be static, and its models have no caches.
    #[cfg(loom)]
    0
}
