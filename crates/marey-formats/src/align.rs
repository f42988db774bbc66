//! The clocks of ranks: put so that collectives end together.
//!
//! A collective ends at the same moment on all of its ranks, as near as anybody can tell from
//! outside. So the median of the differences between its ends on two ranks is how far their clocks
//! are apart, whatever single collectives did.

use std::collections::{HashMap, VecDeque};

/// When a collective ended on a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveEnd {
    /// Name of the process group.
    pub(crate) group: String,
    /// Its number in the group.
    pub(crate) sequence: i64,
    /// What it is.
    pub(crate) name: String,
    /// In nanoseconds since 1970 on the rank's clock.
    pub(crate) end_nanos: i64,
}

/// What is to be added to the clock of each rank, in nanoseconds, so that it agrees with that of the
/// first one which it shares collectives with, directly or through others; 0 for that one, `None` for
/// a rank that has no collectives.
pub(crate) fn shifts(ranks: &[&[CollectiveEnd]]) -> Vec<Option<i64>> {
    let ends: Vec<_> = ranks.iter().map(|ends| by_key(ends)).collect();
    let mut shifts = vec![None; ranks.len()];
    for first in 0..ranks.len() {
        // Ranks that have nothing to do with those before are a group with a clock of their own.
        if shifts[first].is_some() || ends[first].is_empty() {
            continue;
        }
        let mut known = VecDeque::from([first]);
        shifts[first] = Some(0);
        while let Some(reference) = known.pop_front() {
            for rank in 0..ranks.len() {
                if shifts[rank].is_none()
                    && let Some(apart) = median_apart(&ends[reference], &ends[rank])
                {
                    shifts[rank] = shifts[reference].map(|shift: i64| shift.saturating_add(apart));
                    known.push_back(rank);
                }
            }
        }
    }
    shifts
}

type Key<'a> = (&'a str, i64, &'a str);

fn by_key(ends: &[CollectiveEnd]) -> HashMap<Key<'_>, i64> {
    let pairs = ends.iter().map(|end| {
        let CollectiveEnd { group, sequence, name, end_nanos } = end;
        ((group.as_str(), *sequence, name.as_str()), *end_nanos)
    });
    pairs.collect()
}

/// By how much the ends of the first are later, in the median over what both have.
fn median_apart(reference: &HashMap<Key, i64>, other: &HashMap<Key, i64>) -> Option<i64> {
    let both = other.iter().filter_map(|(key, end)| Some(reference.get(key)?.saturating_sub(*end)));
    let mut apart: Vec<i64> = both.collect();
    apart.sort_unstable();
    apart.get(apart.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn end(group: &str, sequence: i64, end_nanos: i64) -> CollectiveEnd {
        CollectiveEnd { group: group.to_owned(), sequence, name: "allreduce".to_owned(), end_nanos }
    }

    #[test]
    fn outliers_and_strangers_move_no_clock() {
        let first = [end("0", 1, 100), end("0", 2, 200), end("0", 3, 300)];
        let late = [end("0", 1, 1100), end("0", 2, 1200), end("0", 3, 9999), end("0", 4, 5)];
        let stranger = [end("1", 1, 7)];
        assert_eq!(shifts(&[&first, &late, &stranger, &[]]), [Some(0), Some(-1000), Some(0), None]);
    }

    #[test]
    fn a_rank_is_reached_through_others() {
        let (a, b) = ([end("x", 1, 10)], [end("x", 1, 30), end("y", 1, 130)]);
        let c = [end("y", 1, 1130)];
        assert_eq!(shifts(&[&a, &c, &b]), [Some(0), Some(-1020), Some(-20)]);
    }

    proptest! {
        #[test]
        fn any_skew_is_found(skews in prop::collection::vec(-1_000_000_000_i64..1_000_000_000, 1..6)) {
            let ranks: Vec<Vec<_>> = skews
                .iter()
                .map(|skew| (0..5).map(|n| end("0", n, n * 1000 + skew)).collect())
                .collect();
            let ranks: Vec<&[_]> = ranks.iter().map(Vec::as_slice).collect();
            let expected: Vec<_> = skews.iter().map(|skew| Some(skews[0] - skew)).collect();
            prop_assert_eq!(shifts(&ranks), expected);
        }
    }
}
