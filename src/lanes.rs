//! Owners of shared state that do not share a count of references.
//!
//! Each call needs an owner of a budget's or a breaker's state that outlives the layer. With one count of references for
//! all calls, two threads would do little else than pass its cache line to and fro; so there are several, and a thread
//! keeps to one.

use std::cell::Cell;
use std::sync::Arc;

/// What a call holds. Its count of references has a cache line, and the one that is fetched with it, of its own. There can
/// be a mark on one that is a single call's.
#[repr(align(128))]
pub(crate) struct Lane<T, M = ()> {
    shared: Arc<T>,
    mark: M,
}

impl<T, M> Lane<T, M> {
    /// A lane of its own, to the same state.
    pub(crate) fn marked(&self, mark: M) -> Arc<Self> {
        let shared = Arc::clone(&self.shared);
        Arc::new(Self { shared, mark })
    }

    pub(crate) const fn mark(&self) -> &M {
        &self.mark
    }
}

impl<T, M> std::ops::Deref for Lane<T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.shared
    }
}

/// A power of two.
const LANES: usize = 8;

/// All the lanes to one state.
pub(crate) struct Lanes<T, M = ()>([Arc<Lane<T, M>>; LANES]);

impl<T, M> Lanes<T, M> {
    pub(crate) fn new(shared: &Arc<T>) -> Self
    where
        M: Default,
    {
        Self(std::array::from_fn(|_| {
            Arc::new(Lane {
                shared: Arc::clone(shared),
                mark: M::default(),
            })
        }))
    }

    /// The lane that this thread keeps to.
    #[inline]
    pub(crate) fn of_this_thread(&self) -> Arc<Lane<T, M>> {
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
