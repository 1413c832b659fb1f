//! Words that carry the generation they belong to.
//!
//! The window, the probes and the end of an open period are never reset. Each of their words carries the low bits of a
//! generation, and a word of an older one counts as empty: whoever comes first in a new generation starts it, and
//! whoever comes late from an old one finds a newer tag and leaves it alone.

use crate::sync::{AtomicU64, Ordering};

/// Bits of the tag: the highest of a word.
const TAG_SHIFT: u32 = 48;

/// After how many generations words are brought along: well below half of what the shortest tag tells apart, which is
/// the time window's with twelve bits.
pub(super) const REFRESH: u64 = 512;

/// The largest value beside a tag.
pub(super) const MAX_VALUE: u64 = (1 << TAG_SHIFT) - 1;

/// The low 16 bits of a generation. They wrap, and a tag from 32,768 generations ago would look like one to come. So
/// every [`REFRESH`] generations the words that nobody has touched since are brought along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u16);

impl Tag {
    #[inline]
    pub(super) const fn of(generation: u64) -> Self {
        Self((generation & 0xffff) as u16)
    }

    /// The tag of the generation before.
    pub(super) const fn before(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// Brings a word along that was left behind two or more generations ago: it stays old, but not older.
    pub(super) fn refresh(self, cell: &AtomicU64, empty: u64) {
        let word = cell.load(Ordering::Relaxed);
        let (old, _) = Self::split(word);
        if old != self && old != self.before() && !old.is_newer_than(self) {
            // Fails where somebody has just written it, and then it is not old.
            let to = self.before().with(empty);
            let _ = cell.compare_exchange(word, to, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// So many words of this tag.
    pub(super) fn cells(self, count: u32, value: u64) -> Box<[AtomicU64]> {
        let word = self.with(value);
        (0..count).map(|_| AtomicU64::new(word)).collect()
    }

    /// Whether this tag is of a later generation than the other.
    pub(super) const fn is_newer_than(self, other: Self) -> bool {
        let ahead = self.0.wrapping_sub(other.0);
        ahead != 0 && ahead < 0x8000
    }

    /// The lowest twelve bits of the tag, for words that have less room.
    pub(super) const fn low(self) -> u64 {
        self.0 as u64 & 0xfff
    }

    /// A word of this tag. Values above [`MAX_VALUE`] saturate.
    #[inline]
    pub(super) const fn with(self, value: u64) -> u64 {
        let value = if value > MAX_VALUE { MAX_VALUE } else { value };
        (self.0 as u64) << TAG_SHIFT | value
    }

    /// The same, where the value is known to fit.
    #[inline]
    pub(super) const fn beside(self, value: u64) -> u64 {
        (self.0 as u64) << TAG_SHIFT | value
    }

    /// The tag and the value of a word.
    #[inline]
    pub(super) const fn split(word: u64) -> (Self, u64) {
        (Self((word >> TAG_SHIFT) as u16), word & MAX_VALUE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_newer_half_of_the_circle_is_newer() {
        for start in [0, 1, 0x7fff, 0x8000, 0xffff, 0x1_0000] {
            let is_newer = |ahead| Tag::of(start + ahead).is_newer_than(Tag::of(start));
            for ahead in [1, REFRESH, 0x7fff] {
                assert!(is_newer(ahead), "{ahead} after {start}");
            }
            // Half a turn is neither before nor after.
            for ahead in [0, 0x8000, 0x8001, 0xffff, 0x1_0000] {
                assert!(!is_newer(ahead), "{ahead} after {start}");
            }
        }
    }

    #[test]
    fn a_value_that_has_no_room_saturates_and_leaves_the_tag_alone() {
        let tag = Tag::of(0xa5a5);
        for (value, kept) in [
            (0, 0),
            (MAX_VALUE - 1, MAX_VALUE - 1),
            (MAX_VALUE, MAX_VALUE),
            (MAX_VALUE + 1, MAX_VALUE),
            (u64::MAX, MAX_VALUE),
        ] {
            assert_eq!(Tag::split(tag.with(value)), (tag, kept));
            assert_eq!(tag.beside(kept), tag.with(value));
        }
    }

    #[test]
    fn a_word_is_brought_along_only_where_it_is_two_generations_old() {
        for (generation, expected) in [
            (0xfff0, (9, 3)),
            (8, (9, 3)),
            (9, (9, 7)),
            (10, (10, 7)),
            (11, (11, 7)),
            (12, (12, 7)),
        ] {
            let now = Tag::of(10);
            let cell = AtomicU64::new(Tag::of(generation).with(7));
            now.refresh(&cell, 3);
            let held = Tag::split(cell.load(Ordering::Relaxed));
            assert_eq!(held, (Tag::of(expected.0), expected.1), "{generation}");
        }
    }
}
