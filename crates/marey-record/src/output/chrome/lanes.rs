//! Assignment of a thread's events to lanes, so that the events of each lane nest.

/// The lanes of a thread. Scopes are added in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<Lane>);

/// The outermost intervals of a lane so far, `(start, end)`, disjoint and in order.
///
/// A new scope replaces the intervals that it encloses, so the list is as long as the number of
/// finished children of the open scopes.
#[derive(Debug, Default)]
struct Lane(Vec<(i64, i64)>);

/// The minimum number of intervals that a lane keeps. It forgets an interval only after at least
/// this many others have ended there. A scope that overlaps a forgotten one may get the same lane.
const MIN_KEPT: usize = 1 << 14;

impl Lanes {
    /// Returns the index of the first lane in which the interval nests.
    pub(super) fn assign(&mut self, start_nanos: i64, end_nanos: i64) -> usize {
        let fits = self.0.iter_mut().position(|lane| lane.try_add(start_nanos, end_nanos));
        fits.unwrap_or_else(|| {
            self.0.push(Lane(vec![(start_nanos, end_nanos)]));
            self.0.len() - 1
        })
    }
}

impl Lane {
    fn try_add(&mut self, start_nanos: i64, end_nanos: i64) -> bool {
        // The common case: the new interval begins after all others.
        let first_inside = match self.0.last() {
            Some((_, last_end_nanos)) if *last_end_nanos > start_nanos => {
                self.0.partition_point(|interval| interval.0 < start_nanos)
            }
            _ => self.0.len(),
        };
        let previous = first_inside.checked_sub(1).and_then(|index| self.0.get(index));
        if previous.is_some_and(|previous| previous.1 > start_nanos) {
            return false;
        }
        let end_inside =
            self.0.partition_point(|interval| interval.0 < end_nanos).max(first_inside);
        let inside_intervals = self.0.get(first_inside..end_inside).unwrap_or_default();
        if inside_intervals.iter().any(|interval| interval.1 > end_nanos) {
            return false;
        }
        self.0.splice(first_inside..end_inside, [(start_nanos, end_nanos)]);
        if self.0.len() >= 2 * MIN_KEPT {
            self.0.drain(..MIN_KEPT);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nest((start, end): (i64, i64), (other_start, other_end): (i64, i64)) -> bool {
        let is_apart = end <= other_start || other_end <= start;
        let is_inside = other_start <= start && end <= other_end;
        let is_around = start <= other_start && other_end <= end;
        is_apart || is_inside || is_around
    }

    proptest! {
        #[test]
        fn the_intervals_of_a_lane_nest(
            mut intervals in prop::collection::vec((0_i64..60, 0_i64..20), 1..80),
            in_order in prop::bool::weighted(0.8),
        ) {
            for interval in &mut intervals {
                interval.1 += interval.0;
            }
            if in_order {
                intervals.sort_by_key(|interval| interval.1);
            }
            let mut lanes = Lanes::default();
            let mut placed: Vec<Vec<(i64, i64)>> = Vec::new();
            for (start, end) in intervals {
                let lane = lanes.assign(start, end);
                placed.resize(placed.len().max(lane + 1), Vec::new());
                for &other in &placed[lane] {
                    prop_assert!(nest((start, end), other), "{start}..{end} and {other:?}");
                }
                placed[lane].push((start, end));
            }
        }
    }

    #[test]
    fn properly_nested_scopes_need_one_lane() {
        let mut lanes = Lanes::default();
        for number in 0..100_000 {
            assert_eq!(lanes.assign(10 * number + 1, 10 * number + 9), 0);
        }
        assert_eq!(lanes.assign(0, 1_000_000), 0);
        assert_eq!(lanes.0[0].0, [(0, 1_000_000)]);
    }
}
