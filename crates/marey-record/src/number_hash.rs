//! A fast hasher for keys that are numbers assigned by this program. No attacker can choose them,
//! so it need not resist collisions.

use std::hash::{BuildHasherDefault, Hasher};

/// The `BuildHasher` for maps and sets with such keys.
pub type NumberHash = BuildHasherDefault<NumberHasher>;

/// The hasher: one multiplication per word.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(ODD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn consecutive_numbers_and_page_addresses_spread() {
        let hash = |number: u64| NumberHash::default().hash_one(number);
        for step in [1, 8, 64, 4096, 1 << 20] {
            // Hash tables use the low bits as the index and the high bits as the tag.
            let low: HashSet<_> = (0..1024).map(|index| hash(index * step) & 0xfff).collect();
            let high: HashSet<_> = (0..1024).map(|index| hash(index * step) >> 57).collect();
            assert!(low.len() > 700, "{step}: {}", low.len());
            assert!(high.len() > 100, "{step}: {}", high.len());
        }
    }
}
