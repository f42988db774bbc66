//! The set of moments that at least one interval covers, and the set that at least two cover. The
//! SQL aggregates over intervals compute their lengths from it.

/// A half-open interval: start, and end (exclusive).
pub(super) type Span = (i64, i64);

/// The union of intervals. An interval that starts no earlier than the last one is merged
/// immediately. All others are buffered and merged in batches.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    /// The moments that at least one interval covers, as disjoint intervals in ascending order.
    once: Vec<Span>,
    /// Like `once`, for moments that at least two intervals cover. `None` if they are not
    /// requested.
    twice: Option<Vec<Span>>,
    buffered: Vec<Span>,
}

/// Lowest number of intervals that are buffered before they are merged. If more intervals are
/// merged already, as many as those are buffered, so that the cost of merging stays in proportion.
const MIN_BUFFERED: usize = 1024;

impl Coverage {
    pub(super) fn new(counts_twice: bool) -> Self {
        Self { twice: counts_twice.then(Vec::new), ..Self::default() }
    }

    pub(super) fn counts_twice(&self) -> bool {
        self.twice.is_some()
    }

    /// Adds an interval. An interval that ends at or before its start covers nothing.
    pub(super) fn add(&mut self, span: Span) {
        if span.0 >= span.1 {
            return;
        }
        let starts_last = |spans: &[Span]| spans.last().is_none_or(|last| last.0 <= span.0);
        if starts_last(&self.once) && self.twice.as_deref().is_none_or(starts_last) {
            self.append(span);
            return;
        }
        self.buffered.push(span);
        if self.buffered.len() >= MIN_BUFFERED.max(self.once.len()) {
            self.merge_buffered();
        }
    }

    /// Adds an interval that starts in or after the last one, and so can overlap only that one.
    fn append(&mut self, (start, end): Span) {
        if let (Some(twice), Some(&(_, last_end))) = (&mut self.twice, self.once.last())
            && start < last_end
        {
            append_or_extend(twice, (start, end.min(last_end)));
        }
        append_or_extend(&mut self.once, (start, end));
    }

    /// Merges the buffered intervals.
    fn merge_buffered(&mut self) {
        let mut buffered = std::mem::take(&mut self.buffered);
        buffered.sort_unstable();
        let mut other = Self::new(self.twice.is_some());
        for span in buffered {
            other.append(span);
        }
        self.merge_spans(&other);
    }

    pub(super) fn merge(&mut self, mut other: Self) {
        self.merge_pending();
        other.merge_pending();
        self.merge_spans(&other);
    }

    fn merge_pending(&mut self) {
        if !self.buffered.is_empty() {
            self.merge_buffered();
        }
    }

    fn merge_spans(&mut self, other: &Self) {
        if let (Some(twice), Some(other_twice)) = (&mut self.twice, &other.twice) {
            let overlap = intersection(&self.once, &other.once);
            *twice = union(&union(twice, other_twice), &overlap);
        }
        self.once = union(&self.once, &other.once);
    }

    /// The intervals covered at least once, and at least twice (if that was requested).
    pub(super) fn merged_spans(&mut self) -> (&[Span], &[Span]) {
        self.merge_pending();
        (&self.once, self.twice.as_deref().unwrap_or_default())
    }

    /// Returns the coverage of intervals in any order, such as the results of
    /// [`Coverage::merged_spans`].
    pub(super) fn from_spans(once: Vec<Span>, twice: Option<Vec<Span>>) -> Self {
        let sorted = |mut spans: Vec<Span>| {
            spans.sort_unstable();
            union(&spans, &[])
        };
        Self { once: sorted(once), twice: twice.map(sorted), buffered: Vec::new() }
    }

    /// Allocated memory.
    pub(super) fn size_bytes(&self) -> usize {
        let spans = self.once.capacity()
            + self.twice.as_ref().map_or(0, Vec::capacity)
            + self.buffered.capacity();
        spans * size_of::<Span>()
    }
}

/// Appends an interval that starts in or after the last, and joins the two if they touch.
fn append_or_extend(spans: &mut Vec<Span>, (start, end): Span) {
    match spans.last_mut() {
        Some(last) if start <= last.1 => last.1 = last.1.max(end),
        _ => spans.push((start, end)),
    }
}

/// The union of two lists, each in ascending order of start.
fn union(a: &[Span], b: &[Span]) -> Vec<Span> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut spans = Vec::new();
    loop {
        let is_a = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => a.0 <= b.0,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return spans,
        };
        if let Some(&span) = if is_a { a.next() } else { b.next() } {
            append_or_extend(&mut spans, span);
        }
    }
}

/// The intersection of two lists, each disjoint and in ascending order.
pub(super) fn intersection(a: &[Span], b: &[Span]) -> Vec<Span> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut spans = Vec::new();
    while let (Some(&&first), Some(&&second)) = (a.peek(), b.peek()) {
        let (start, end) = (first.0.max(second.0), first.1.min(second.1));
        if start < end {
            spans.push((start, end));
        }
        if first.1 <= second.1 {
            a.next();
        } else {
            b.next();
        }
    }
    spans
}

/// The total length of disjoint intervals, at most `i64::MAX`.
pub(super) fn total_length(spans: &[Span]) -> i64 {
    let total_length =
        spans.iter().fold(0_u64, |sum, span| sum.saturating_add(span.1.abs_diff(span.0)));
    i64::try_from(total_length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of moments, in a short time, that at least `min_intervals` intervals cover.
    fn count_covered_moments(spans: &[Span], min_intervals: usize) -> i64 {
        let covers =
            |moment: i64| spans.iter().filter(|span| span.0 <= moment && moment < span.1).count();
        (-50..250).map(|moment| i64::from(covers(moment) >= min_intervals)).sum()
    }

    fn lengths(coverage: &mut Coverage) -> (i64, i64) {
        let (once, twice) = coverage.merged_spans();
        (total_length(once), total_length(twice))
    }

    fn coverage_of(spans: &[Span]) -> Coverage {
        let mut coverage = Coverage::new(true);
        for &span in spans {
            coverage.add(span);
        }
        coverage
    }

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        prop::collection::vec(
            (-50_i64..200, -3_i64..50).prop_map(|(start, len)| (start, start + len)),
            0..60,
        )
    }

    proptest! {
        #[test]
        fn lengths_match_counting_moments(spans in spans()) {
            let expected = (count_covered_moments(&spans, 1), count_covered_moments(&spans, 2));
            prop_assert_eq!(lengths(&mut coverage_of(&spans)), expected);
        }

        #[test]
        fn merged_parts_equal_the_whole(spans in spans(), at in 0_usize..60, is_sorted: bool) {
            let mut spans = spans;
            if is_sorted {
                spans.sort_unstable();
            }
            let (first, second) = spans.split_at(at.min(spans.len()));
            let mut merged = coverage_of(first);
            merged.merge(coverage_of(second));
            prop_assert_eq!(lengths(&mut merged), (count_covered_moments(&spans, 1), count_covered_moments(&spans, 2)));
        }

        #[test]
        fn union_and_intersection_add_up_to_both_lengths(a in spans(), b in spans()) {
            let (mut a, mut b) = (coverage_of(&a), coverage_of(&b));
            let overlap = intersection(a.merged_spans().0, b.merged_spans().0);
            let sum = total_length(a.merged_spans().0) + total_length(b.merged_spans().0);
            a.merge(b);
            prop_assert_eq!(total_length(&overlap), sum - total_length(a.merged_spans().0));
        }
    }

    #[test]
    fn unordered_intervals_are_merged_in_batches() {
        let mut coverage = Coverage::new(true);
        for start in (0..20_000).rev() {
            coverage.add((start * 10, start * 10 + 15));
        }
        assert!(coverage.buffered.len() <= MIN_BUFFERED.max(coverage.once.len()));
        assert_eq!(lengths(&mut coverage), (200_005, 19_999 * 5));
    }

    #[test]
    fn the_longest_intervals_do_not_overflow() {
        assert_eq!(lengths(&mut coverage_of(&[(i64::MIN, i64::MAX)])), (i64::MAX, 0));
    }
}
