//! A mergeable sketch of durations: counts in logarithmic buckets.
//!
//! Below 32 ns every nanosecond has a bucket; above, every power of two is cut into 32, so the
//! middle of a bucket is within 1/64 of every value in it. Two sketches merge by adding counts.
//! A bucket's number means the same in every process, so files of many ranks merge too.

/// Buckets of one power of two.
pub(crate) const BUCKETS_PER_PAGE: u32 = 32;
/// Powers of two told apart; values of 2^47 ns (39 hours) and more share the last bucket.
pub(crate) const PAGES: u32 = 43;

const LOG2: u32 = BUCKETS_PER_PAGE.ilog2();
const LAST: u32 = PAGES * BUCKETS_PER_PAGE - 1;

/// The bucket of a duration in nanoseconds.
#[inline(always)]
pub(crate) fn bucket(nanos: u64) -> u32 {
    // How often the value must be halved to have its leading one in place 5: not at all below 64.
    let halvings = (nanos | u64::from(BUCKETS_PER_PAGE)).ilog2() - LOG2;
    (halvings * BUCKETS_PER_PAGE + (nanos >> halvings) as u32).min(LAST)
}

/// The middle of a bucket, in nanoseconds.
pub(crate) fn middle_nanos(bucket: u32) -> u64 {
    let (page, within) = (bucket / BUCKETS_PER_PAGE, bucket % BUCKETS_PER_PAGE);
    if page == 0 {
        return u64::from(within);
    }
    let width = 1_u64 << (page - 1);
    u64::from(BUCKETS_PER_PAGE + within) * width + width / 2
}

/// The `q`-quantile (0 to 1) of counted buckets in ascending order: the value of the entry of rank
/// `ceil(q * n)`. `None` without entries.
pub(crate) fn quantile_nanos(buckets: &[(u32, u64)], q: f64) -> Option<u64> {
    let total: u64 = buckets.iter().map(|&(_, count)| count).sum();
    let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    buckets.iter().find_map(|&(bucket, count)| {
        seen += count;
        (seen >= rank).then(|| middle_nanos(bucket))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_middle_of_a_bucket_is_within_one_part_in_64(nanos in 0_u64..(1 << 47)) {
            let middle = middle_nanos(bucket(nanos));
            prop_assert!(middle.abs_diff(nanos) <= nanos / 64 + 1);
            prop_assert_eq!(bucket(middle), bucket(nanos));
        }

        #[test]
        fn quantiles_are_within_the_error_of_the_exact_ones(
            mut values in prop::collection::vec(0_u64..10_000_000_000, 1..400),
            q in 0.0_f64..=1.0,
        ) {
            let mut counts = std::collections::BTreeMap::new();
            for &value in &values {
                *counts.entry(bucket(value)).or_insert(0_u64) += 1;
            }
            let buckets: Vec<_> = counts.into_iter().collect();
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let estimate = quantile_nanos(&buckets, q).unwrap();
            prop_assert!(estimate.abs_diff(exact) <= exact / 64 + 1);
        }
    }

    #[test]
    fn buckets_rise_with_the_value_and_end() {
        assert!((0..200_000).is_sorted_by_key(bucket));
        assert_eq!(bucket(u64::MAX), LAST);
        assert_eq!(quantile_nanos(&[], 0.5), None);
    }
}
