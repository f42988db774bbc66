//! A seeded pseudorandom generator, so that bootstrap results are repeatable.

/// The generator `SplitMix64` of Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014, with the constants of Vigna's `splitmix64.c`.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `end` by Lemire's multiplication (2019) without its rejection step.
    /// The bias is less than `end` / 2^64.
    pub(super) const fn next_below(&mut self, end: usize) -> usize {
        ((self.next() as u128 * end as u128) >> 64) as usize
    }
}

pub(super) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn numbers_match_the_reference_implementation() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert!((0..1_000).all(|_| random.next_below(7) < 7));
    }
}
