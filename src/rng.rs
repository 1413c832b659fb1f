//! Random numbers for jitter: independent by default, repeatable where a test asks for it.

use crate::sync::{AtomicU64, Ordering};

/// A source of random words. Drawing is free of locks, and nothing is drawn on the success path.
#[derive(Debug)]
pub(crate) enum Random {
    /// The thread's own generator, so clones and processes that fail together draw differently.
    Thread,
    /// A repeatable sequence.
    Seeded(AtomicU64),
}

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Self::Thread, |seed| Self::Seeded(AtomicU64::new(seed)))
    }

    /// A uniform word.
    pub(crate) fn draw(&self) -> u64 {
        match self {
            Self::Thread => rand::random(),
            // SplitMix64 (Steele, Lea, Flood 2014): the state is a counter, so that one atomic addition draws.
            Self::Seeded(state) => mix(state
                .fetch_add(GOLDEN, Ordering::Relaxed)
                .wrapping_add(GOLDEN)),
        }
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A point in `0..=span`, `random` being a uniform word. Exact at both ends, without a float.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a span of time has at most 94 bits, and the divisor is a constant"
)]
pub(crate) const fn within(span: u128, random: u64) -> u128 {
    // span * random / (2^64 - 1), in two steps so that it cannot overflow: a span of time has at most 94 bits.
    let max = u64::MAX as u128;
    let random = random as u128;
    (span / max) * random + (span % max) * random / max
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_published_sequence() {
        let random = Random::new(Some(1_234_567));
        let drawn = [random.draw(), random.draw(), random.draw()];
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(drawn, published);
    }
}
