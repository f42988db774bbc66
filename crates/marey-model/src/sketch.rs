//! A mergeable quantile sketch of durations: counts in logarithmic buckets.
//!
//! Below 32 ns, every nanosecond has a bucket. Above, every power of two is divided into 32
//! buckets, so the middle of a bucket is within 1/64 of every value in it. Two sketches merge by
//! adding counts. Bucket numbers mean the same in every process, so files of many ranks merge too.
//!
//! An encoded sketch lists its buckets in ascending order, each as two LEB128 varints: the
//! difference from the number of the previous bucket (for the first one, from 0), and the count,
//! which is not 0.

use thiserror::Error;

use crate::spool::Malformed;
use crate::spool::varint::{Fields, put_varint};

/// Buckets per power of two.
pub const BUCKETS_PER_PAGE: u32 = 32;
/// Number of powers of two; values of 2^47 ns (39 hours) and more share the last bucket.
pub const PAGES: u32 = 43;

const LOG2_BUCKETS_PER_PAGE: u32 = BUCKETS_PER_PAGE.ilog2();
const LAST_BUCKET: u32 = PAGES * BUCKETS_PER_PAGE - 1;

/// Returns the bucket of a duration.
#[inline(always)]
pub const fn bucket(nanos: u64) -> u32 {
    // The number of halvings that bring the leading one to bit 5. None are needed for values below
    // 64.
    let halvings = (nanos | BUCKETS_PER_PAGE as u64).ilog2() - LOG2_BUCKETS_PER_PAGE;
    let bucket = halvings * BUCKETS_PER_PAGE + (nanos >> halvings) as u32;
    if bucket < LAST_BUCKET { bucket } else { LAST_BUCKET }
}

/// Returns the page (power of two) of a duration's bucket: [`PAGES`] or more if the duration is too
/// long for any but the last bucket. Cheaper than [`bucket`].
#[inline(always)]
pub const fn page(nanos: u64) -> u32 {
    (nanos | (BUCKETS_PER_PAGE as u64 / 2)).ilog2() - (LOG2_BUCKETS_PER_PAGE - 1)
}

/// Returns the index of a duration's bucket within its page, if the page is below [`PAGES`].
#[inline(always)]
pub const fn index_in_page(nanos: u64) -> u32 {
    let log2 = (nanos | BUCKETS_PER_PAGE as u64).ilog2();
    (nanos << LOG2_BUCKETS_PER_PAGE >> log2) as u32 % BUCKETS_PER_PAGE
}

/// Returns the middle of a bucket.
pub const fn middle_nanos(bucket: u32) -> u64 {
    let (page, index) = (bucket / BUCKETS_PER_PAGE, bucket % BUCKETS_PER_PAGE);
    if page == 0 {
        return index as u64;
    }
    let width = 1_u64 << (page - 1);
    (BUCKETS_PER_PAGE + index) as u64 * width + width / 2
}

/// Returns a quantile, from 0 to 1, of counted buckets in ascending order. It is the value of the
/// entry of rank `ceil(q * n)`. `None` without entries.
pub fn quantile_nanos(buckets: &[(u32, u64)], quantile: f64) -> Option<u64> {
    let total = buckets.iter().fold(0_u64, |sum, &(_, count)| sum.saturating_add(count));
    let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut cumulative_count = 0_u64;
    buckets.iter().find_map(|&(bucket, count)| {
        cumulative_count = cumulative_count.saturating_add(count);
        (cumulative_count >= rank).then(|| middle_nanos(bucket))
    })
}

/// A quantile sketch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Number and count of each non-empty bucket, ascending.
    buckets: Vec<(u32, u64)>,
}

/// Bytes that are not a valid sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid sketch: {0}")]
pub struct InvalidSketch(#[from] pub Malformed);

impl Sketch {
    /// Adds a duration.
    pub fn add(&mut self, nanos: u64) {
        self.add_count(bucket(nanos), 1);
    }

    /// Adds all durations of another sketch.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.buckets {
            self.add_count(bucket, count);
        }
    }

    fn add_count(&mut self, bucket: u32, count: u64) {
        let position = self.buckets.partition_point(|&(other, _)| other < bucket);
        match self.buckets.get_mut(position) {
            Some((other, sum)) if *other == bucket => *sum = sum.saturating_add(count),
            _ => self.buckets.insert(position, (bucket, count)),
        }
    }

    /// Returns number and count of each non-empty bucket, ascending.
    pub fn buckets(&self) -> &[(u32, u64)] {
        &self.buckets
    }

    /// Returns a quantile, from 0 to 1, like [`quantile_nanos`].
    pub fn quantile_nanos(&self, quantile: f64) -> Option<u64> {
        quantile_nanos(&self.buckets, quantile)
    }

    /// Appends the encoded sketch to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut previous_bucket = 0;
        for &(bucket, count) in &self.buckets {
            put_varint(out, u64::from(bucket - previous_bucket));
            put_varint(out, count);
            previous_bucket = bucket;
        }
    }

    /// Decodes a sketch.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidSketch> {
        let mut fields = Fields(bytes);
        let mut buckets: Vec<(u32, u64)> = Vec::new();
        while !fields.0.is_empty() {
            let (step, count) = (fields.read_varint()?, fields.read_varint()?);
            let previous_bucket = buckets.last().map(|&(bucket, _)| bucket);
            let number = step.saturating_add(previous_bucket.unwrap_or(0).into());
            if number > LAST_BUCKET.into() || (step == 0 && previous_bucket.is_some()) {
                return Err(Malformed::InvalidValue { field: "next bucket", number }.into());
            }
            if count == 0 {
                return Err(Malformed::InvalidValue { field: "count", number: count }.into());
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
        fn page_and_index_within_it_identify_the_bucket(power in 0_u32..64, below in any::<u64>()) {
            let nanos = (1 << power) + below % (1 << power);
            if page(nanos) < PAGES {
                prop_assert_eq!(page(nanos) * BUCKETS_PER_PAGE + index_in_page(nanos), bucket(nanos));
            } else {
                prop_assert_eq!(bucket(nanos), LAST_BUCKET);
            }
            prop_assert_eq!((page(0), index_in_page(0)), (0, 0));
        }

        #[test]
        fn quantiles_have_the_documented_relative_error(
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
        fn a_merged_sketch_equals_the_sketch_of_all_values(
            values in prop::collection::vec(any::<u64>(), 0..200),
            split in 0_usize..200,
        ) {
            let (first, second) = values.split_at(split.min(values.len()));
            let mut merged = sketch(first);
            merged.merge(&sketch(second));
            prop_assert_eq!(merged, sketch(&values));
        }

        #[test]
        fn a_sketch_survives_a_round_trip(
            values in prop::collection::vec((any::<u64>(), 0..64_u32), 0..200),
        ) {
            let values: Vec<_> = values.into_iter().map(|(nanos, bits)| nanos >> bits).collect();
            let sketch = sketch(&values);
            prop_assert_eq!(Sketch::decode(&encoded(&sketch)), Ok(sketch));
        }

        #[test]
        fn arbitrary_bytes_decode_to_a_valid_sketch_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(sketch) = Sketch::decode(&bytes) {
                prop_assert!(sketch.buckets().is_sorted_by(|a, b| a.0 < b.0));
                prop_assert_eq!(Sketch::decode(&encoded(&sketch)), Ok(sketch));
            }
        }
    }

    #[test]
    fn buckets_increase_with_the_value_up_to_the_last() {
        assert!((0..200_000).is_sorted_by_key(bucket));
        assert_eq!(bucket(u64::MAX), LAST_BUCKET);
        assert_eq!(quantile_nanos(&[], 0.5), None);
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        let decode_error = |bytes: &[u8]| Sketch::decode(bytes).unwrap_err().to_string();
        assert_eq!(decode_error(&[5]), "invalid sketch: it ends within a field");
        assert_eq!(decode_error(&[5, 0]), "invalid sketch: invalid count: 0");
        assert_eq!(decode_error(&[5, 1, 0, 1]), "invalid sketch: invalid next bucket: 5");
        assert_eq!(decode_error(&[0xE0, 10, 1]), "invalid sketch: invalid next bucket: 1376");
    }

    #[test]
    fn every_short_duration_is_in_its_page() {
        for nanos in 0..5_000 {
            assert_eq!(page(nanos) * BUCKETS_PER_PAGE + index_in_page(nanos), bucket(nanos));
        }
    }

    #[test]
    fn equal_durations_share_a_bucket() {
        assert_eq!(sketch(&[70, 3, 3]).buckets(), [(3, 2), (bucket(70), 1)]);
    }
}
