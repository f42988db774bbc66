//! A mergeable sketch of durations: counts in logarithmic buckets.
//!
//! Below 32 ns every nanosecond has a bucket; above, every power of two is cut into 32, so the
//! middle of a bucket is within 1/64 of every value in it. Two sketches merge by adding counts.
//! A bucket's number means the same in every process, so files of many ranks merge too.
//!
//! At rest a sketch is its buckets in ascending order, each as two LEB128 varints: the distance of
//! its number from the one before (the first: from 0), and its count, which is not 0.

use thiserror::Error;

use crate::spool::Malformed;
use crate::spool::varint::{Fields, put};

/// Buckets of one power of two.
pub const BUCKETS_PER_PAGE: u32 = 32;
/// Powers of two told apart; values of 2^47 ns (39 hours) and more share the last bucket.
pub const PAGES: u32 = 43;

const LOG2: u32 = BUCKETS_PER_PAGE.ilog2();
const LAST: u32 = PAGES * BUCKETS_PER_PAGE - 1;

/// The bucket of a duration in nanoseconds.
#[inline(always)]
pub const fn bucket(nanos: u64) -> u32 {
    // How often the value must be halved to have its leading one in place 5: not at all below 64.
    let halvings = (nanos | BUCKETS_PER_PAGE as u64).ilog2() - LOG2;
    let bucket = halvings * BUCKETS_PER_PAGE + (nanos >> halvings) as u32;
    if bucket < LAST { bucket } else { LAST }
}

/// The page of a duration's bucket, which is not below [`PAGES`] if the duration is in the last one for being
/// too long; sooner known than the bucket.
#[inline(always)]
pub const fn page(nanos: u64) -> u32 {
    (nanos | (BUCKETS_PER_PAGE as u64 / 2)).ilog2() - (LOG2 - 1)
}

/// The place of a duration's bucket within its page, if that is below [`PAGES`].
#[inline(always)]
pub const fn within_page(nanos: u64) -> u32 {
    let log2 = (nanos | BUCKETS_PER_PAGE as u64).ilog2();
    (nanos << LOG2 >> log2) as u32 % BUCKETS_PER_PAGE
}

/// The middle of a bucket, in nanoseconds.
pub const fn middle_nanos(bucket: u32) -> u64 {
    let (page, within) = (bucket / BUCKETS_PER_PAGE, bucket % BUCKETS_PER_PAGE);
    if page == 0 {
        return within as u64;
    }
    let width = 1_u64 << (page - 1);
    (BUCKETS_PER_PAGE + within) as u64 * width + width / 2
}

/// The `q`-quantile (0 to 1) of counted buckets in ascending order: the value of the entry of rank
/// `ceil(q * n)`. `None` without entries.
pub fn quantile_nanos(buckets: &[(u32, u64)], q: f64) -> Option<u64> {
    let total = buckets.iter().fold(0_u64, |sum, &(_, count)| sum.saturating_add(count));
    let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0_u64;
    buckets.iter().find_map(|&(bucket, count)| {
        seen = seen.saturating_add(count);
        (seen >= rank).then(|| middle_nanos(bucket))
    })
}

/// Counted buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Number and count of each that is not empty, in ascending order.
    buckets: Vec<(u32, u64)>,
}

/// Bytes that no sketch is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("these bytes are no sketch: {0}")]
pub struct NotASketch(#[from] pub Malformed);

impl Sketch {
    /// Adds a duration.
    pub fn add(&mut self, nanos: u64) {
        self.add_to(bucket(nanos), 1);
    }

    /// Adds the durations of another one.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.buckets {
            self.add_to(bucket, count);
        }
    }

    fn add_to(&mut self, bucket: u32, count: u64) {
        let at = self.buckets.partition_point(|&(other, _)| other < bucket);
        match self.buckets.get_mut(at) {
            Some((other, sum)) if *other == bucket => *sum = sum.saturating_add(count),
            _ => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Number and count of each bucket that is not empty, in ascending order.
    pub fn buckets(&self) -> &[(u32, u64)] {
        &self.buckets
    }

    /// The `q`-quantile, as [`quantile_nanos`] has it.
    pub fn quantile_nanos(&self, q: f64) -> Option<u64> {
        quantile_nanos(&self.buckets, q)
    }

    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut last = 0;
        for &(bucket, count) in &self.buckets {
            put(out, u64::from(bucket - last));
            put(out, count);
            last = bucket;
        }
    }

    /// The sketch of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, NotASketch> {
        let mut fields = Fields(bytes);
        let mut buckets: Vec<(u32, u64)> = Vec::new();
        while !fields.0.is_empty() {
            let (step, count) = (fields.number()?, fields.number()?);
            let last = buckets.last().map(|&(bucket, _)| bucket);
            let number = step.saturating_add(last.unwrap_or(0).into());
            if number > LAST.into() || (step == 0 && last.is_some()) {
                return Err(Malformed::Number { what: "next bucket", number }.into());
            }
            if count == 0 {
                return Err(Malformed::Number { what: "count", number: count }.into());
            }
            buckets.push((number as u32, count));
        }
        Ok(Self { buckets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sketch(values: &[u64]) -> Sketch {
        let mut sketch = Sketch::default();
        for &nanos in values {
            sketch.add(nanos);
        }
        sketch
    }

    fn encoded(sketch: &Sketch) -> Vec<u8> {
        let mut bytes = Vec::new();
        sketch.encode(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn the_middle_of_a_bucket_is_within_one_part_in_64(nanos in 0_u64..(1 << 47)) {
            let middle = middle_nanos(bucket(nanos));
            prop_assert!(middle.abs_diff(nanos) <= nanos / 64 + 1);
            prop_assert_eq!(bucket(middle), bucket(nanos));
        }

        #[test]
        fn a_page_and_a_place_in_it_are_a_bucket(power in 0_u32..64, below in any::<u64>()) {
            let nanos = (1 << power) + below % (1 << power);
            if page(nanos) < PAGES {
                prop_assert_eq!(page(nanos) * BUCKETS_PER_PAGE + within_page(nanos), bucket(nanos));
            } else {
                prop_assert_eq!(bucket(nanos), LAST);
            }
            prop_assert_eq!((page(0), within_page(0)), (0, 0));
        }

        #[test]
        fn quantiles_are_within_the_error_of_the_exact_ones(
            mut values in prop::collection::vec(0_u64..10_000_000_000, 1..400),
            q in 0.0_f64..=1.0,
        ) {
            let estimate = sketch(&values).quantile_nanos(q).unwrap();
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            prop_assert!(estimate.abs_diff(exact) <= exact / 64 + 1);
        }

        #[test]
        fn merged_sketches_are_that_of_all_values(
            values in prop::collection::vec(any::<u64>(), 0..200),
            at in 0_usize..200,
        ) {
            let (first, second) = values.split_at(at.min(values.len()));
            let mut merged = sketch(first);
            merged.merge(&sketch(second));
            prop_assert_eq!(merged, sketch(&values));
        }

        #[test]
        fn what_is_encoded_is_what_is_decoded(
            values in prop::collection::vec((any::<u64>(), 0..64_u32), 0..200),
        ) {
            let values: Vec<_> = values.into_iter().map(|(nanos, bits)| nanos >> bits).collect();
            let sketch = sketch(&values);
            prop_assert_eq!(Sketch::decode(&encoded(&sketch)), Ok(sketch));
        }

        #[test]
        fn bytes_are_a_sketch_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(sketch) = Sketch::decode(&bytes) {
                prop_assert!(sketch.buckets().is_sorted_by(|a, b| a.0 < b.0));
                prop_assert_eq!(Sketch::decode(&encoded(&sketch)), Ok(sketch));
            }
        }
    }

    #[test]
    fn buckets_rise_with_the_value_and_end() {
        assert!((0..200_000).is_sorted_by_key(bucket));
        assert_eq!(bucket(u64::MAX), LAST);
        assert_eq!(quantile_nanos(&[], 0.5), None);
    }

    #[test]
    fn bytes_that_no_sketch_is_written_as_are_refused() {
        let refused = |bytes: &[u8]| Sketch::decode(bytes).unwrap_err().to_string();
        assert_eq!(refused(&[5]), "these bytes are no sketch: it ends within a field");
        assert_eq!(refused(&[5, 0]), "these bytes are no sketch: 0 is no count");
        assert_eq!(refused(&[5, 1, 0, 1]), "these bytes are no sketch: 5 is no next bucket");
        assert_eq!(refused(&[0xE0, 10, 1]), "these bytes are no sketch: 1376 is no next bucket");
    }
}
