//! The set of moments that at least one interval covers, and the set that at least two cover. The
//! SQL aggregates over intervals compute their lengths from it.

/// A half-open interval: its start, and its end, which is not part of it.
pub(super) type Interval = (i64, i64);

/// The union of intervals. An interval that starts no earlier than the last one is merged
/// immediately. All others are buffered and merged in batches.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    /// The moments that at least one interval covers, as disjoint intervals in ascending order.
    covered_once: Vec<Interval>,
    /// Like `covered_once`, for moments that at least two intervals cover. `None` if they are not
    /// requested.
    covered_twice: Option<Vec<Interval>>,
    buffered: Vec<Interval>,
}

/// Lowest number of intervals that are buffered before they are merged. If more intervals are
/// merged already, as many as those are buffered, so that the cost of merging stays in proportion.
const MIN_BUFFERED: usize = 1024;

impl Coverage {
    pub(super) fn new(counts_twice: bool) -> Self {
        Self { covered_twice: counts_twice.then(Vec::new), ..Self::default() }
    }

    pub(super) fn counts_twice(&self) -> bool {
        self.covered_twice.is_some()
    }

    /// Adds an interval. An interval that ends at or before its start covers nothing.
    pub(super) fn add(&mut self, interval: Interval) {
        if interval.0 >= interval.1 {
            return;
        }
        let starts_after_last =
            |intervals: &[Interval]| intervals.last().is_none_or(|last| last.0 <= interval.0);
        if starts_after_last(&self.covered_once)
            && self.covered_twice.as_deref().is_none_or(starts_after_last)
        {
            self.append(interval);
            return;
        }
        self.buffered.push(interval);
        if self.buffered.len() >= MIN_BUFFERED.max(self.covered_once.len()) {
            self.merge_buffered();
        }
    }

    /// Adds an interval that starts in or after the last one, and so can overlap only that one.
    fn append(&mut self, (start_nanos, end_nanos): Interval) {
        if let (Some(covered_twice), Some(&(_, last_end_nanos))) =
            (&mut self.covered_twice, self.covered_once.last())
            && start_nanos < last_end_nanos
        {
            append_or_extend(covered_twice, (start_nanos, end_nanos.min(last_end_nanos)));
        }
        append_or_extend(&mut self.covered_once, (start_nanos, end_nanos));
    }

    /// Merges the buffered intervals.
    fn merge_buffered(&mut self) {
        let mut buffered = std::mem::take(&mut self.buffered);
        buffered.sort_unstable();
        let mut other = Self::new(self.covered_twice.is_some());
        for interval in buffered {
            other.append(interval);
        }
        self.merge_intervals(&other);
    }

    pub(super) fn merge(&mut self, mut other: Self) {
        self.merge_pending();
        other.merge_pending();
        self.merge_intervals(&other);
    }

    fn merge_pending(&mut self) {
        if !self.buffered.is_empty() {
            self.merge_buffered();
        }
    }

    fn merge_intervals(&mut self, other: &Self) {
        if let (Some(covered_twice), Some(other_covered_twice)) =
            (&mut self.covered_twice, &other.covered_twice)
        {
            let overlap = intersection(&self.covered_once, &other.covered_once);
            *covered_twice = union(&union(covered_twice, other_covered_twice), &overlap);
        }
        self.covered_once = union(&self.covered_once, &other.covered_once);
    }

    /// Returns the intervals covered at least once, and at least twice (if that was requested).
    pub(super) fn merged_intervals(&mut self) -> (&[Interval], &[Interval]) {
        self.merge_pending();
        (&self.covered_once, self.covered_twice.as_deref().unwrap_or_default())
    }

    /// Returns the coverage of intervals in any order, such as the results of
    /// [`Coverage::merged_intervals`].
    pub(super) fn from_intervals(
        covered_once: Vec<Interval>,
        covered_twice: Option<Vec<Interval>>,
    ) -> Self {
        let sorted = |mut intervals: Vec<Interval>| {
            intervals.sort_unstable();
            union(&intervals, &[])
        };
        Self {
            covered_once: sorted(covered_once),
            covered_twice: covered_twice.map(sorted),
            buffered: Vec::new(),
        }
    }

    /// Returns the size of the allocated memory.
    pub(super) fn size_bytes(&self) -> usize {
        let intervals = self.covered_once.capacity()
            + self.covered_twice.as_ref().map_or(0, Vec::capacity)
            + self.buffered.capacity();
        intervals * size_of::<Interval>()
    }
}

/// Appends an interval that starts in or after the last, and joins the two if they touch.
fn append_or_extend(intervals: &mut Vec<Interval>, (start_nanos, end_nanos): Interval) {
    match intervals.last_mut() {
        Some(last) if start_nanos <= last.1 => last.1 = last.1.max(end_nanos),
        _ => intervals.push((start_nanos, end_nanos)),
    }
}

/// Returns the union of two lists, each in ascending order of start.
fn union(ours: &[Interval], others: &[Interval]) -> Vec<Interval> {
    let (mut ours, mut others) = (ours.iter().peekable(), others.iter().peekable());
    let mut intervals = Vec::new();
    loop {
        let is_ours_next = match (ours.peek(), others.peek()) {
            (Some(our), Some(other)) => our.0 <= other.0,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return intervals,
        };
        if let Some(&interval) = if is_ours_next { ours.next() } else { others.next() } {
            append_or_extend(&mut intervals, interval);
        }
    }
}

/// Returns the intersection of two lists, each disjoint and in ascending order.
pub(super) fn intersection(ours: &[Interval], others: &[Interval]) -> Vec<Interval> {
    let (mut ours, mut others) = (ours.iter().peekable(), others.iter().peekable());
    let mut intervals = Vec::new();
    while let (Some(&&our), Some(&&other)) = (ours.peek(), others.peek()) {
        let (start_nanos, end_nanos) = (our.0.max(other.0), our.1.min(other.1));
        if start_nanos < end_nanos {
            intervals.push((start_nanos, end_nanos));
        }
        if our.1 <= other.1 {
            ours.next();
        } else {
            others.next();
        }
    }
    intervals
}

/// Returns the total length of disjoint intervals, at most `i64::MAX`.
pub(super) fn total_nanos(intervals: &[Interval]) -> i64 {
    let total_nanos = intervals
        .iter()
        .fold(0_u64, |sum, interval| sum.saturating_add(interval.1.abs_diff(interval.0)));
    i64::try_from(total_nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of moments, in a short time, that at least `min_intervals` intervals cover.
    fn count_covered_moments(intervals: &[Interval], min_intervals: usize) -> i64 {
        let covers = |moment: i64| {
            intervals.iter().filter(|interval| interval.0 <= moment && moment < interval.1).count()
        };
        (-50..250).map(|moment| i64::from(covers(moment) >= min_intervals)).sum()
    }

    fn lengths(coverage: &mut Coverage) -> (i64, i64) {
        let (covered_once, covered_twice) = coverage.merged_intervals();
        (total_nanos(covered_once), total_nanos(covered_twice))
    }

    fn coverage_of(intervals: &[Interval]) -> Coverage {
        let mut coverage = Coverage::new(true);
        for &interval in intervals {
            coverage.add(interval);
        }
        coverage
    }

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec(
            (-50_i64..200, -3_i64..50)
                .prop_map(|(start_nanos, len)| (start_nanos, start_nanos + len)),
            0..60,
        )
    }

    proptest! {
        #[test]
        fn lengths_match_counting_moments(intervals in intervals()) {
            let expected = (count_covered_moments(&intervals, 1), count_covered_moments(&intervals, 2));
            prop_assert_eq!(lengths(&mut coverage_of(&intervals)), expected);
        }

        #[test]
        fn merged_parts_equal_the_whole(intervals in intervals(), at in 0_usize..60, is_sorted: bool) {
            let mut intervals = intervals;
            if is_sorted {
                intervals.sort_unstable();
            }
            let (first, second) = intervals.split_at(at.min(intervals.len()));
            let mut merged = coverage_of(first);
            merged.merge(coverage_of(second));
            prop_assert_eq!(lengths(&mut merged), (count_covered_moments(&intervals, 1), count_covered_moments(&intervals, 2)));
        }

        #[test]
        fn union_and_intersection_add_up_to_both_lengths(a in intervals(), b in intervals()) {
            let (mut a, mut b) = (coverage_of(&a), coverage_of(&b));
            let overlap = intersection(a.merged_intervals().0, b.merged_intervals().0);
            let sum = total_nanos(a.merged_intervals().0) + total_nanos(b.merged_intervals().0);
            a.merge(b);
            prop_assert_eq!(total_nanos(&overlap), sum - total_nanos(a.merged_intervals().0));
        }
    }

    #[test]
    fn unordered_intervals_are_merged_in_batches() {
        let mut coverage = Coverage::new(true);
        for start_nanos in (0..20_000).rev() {
            coverage.add((start_nanos * 10, start_nanos * 10 + 15));
        }
        assert!(coverage.buffered.len() <= MIN_BUFFERED.max(coverage.covered_once.len()));
        assert_eq!(lengths(&mut coverage), (200_005, 19_999 * 5));
    }

    #[test]
    fn the_longest_intervals_do_not_overflow() {
        assert_eq!(lengths(&mut coverage_of(&[(i64::MIN, i64::MAX)])), (i64::MAX, 0));
    }
}
