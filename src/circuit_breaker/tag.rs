//! Words that carry the generation they belong to.
//!
//! The window, the probes and the end of an open period are never reset. Each of their words carries the low bits of a
//! generation, and a word of an older one counts as empty: whoever comes first in a new generation starts it, and
//! whoever comes late from an old one finds a newer tag and leaves it alone.

/// Bits of the tag: the highest of a word.
const TAG_SHIFT: u32 = 48;

/// The largest value beside a tag.
pub(super) const MAX_VALUE: u64 = (1 << TAG_SHIFT) - 1;

/// The low 16 bits of a generation. They wrap; two tags are never compared that are 32,768 generations apart, because
/// the whole generation is compared before and the tag only guards the instant between.
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

    /// The tag and the value of a word.
    #[inline]
    pub(super) const fn split(word: u64) -> (Self, u64) {
        (Self((word >> TAG_SHIFT) as u16), word & MAX_VALUE)
    }
}
