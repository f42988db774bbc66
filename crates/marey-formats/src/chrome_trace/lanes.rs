//! Assigns events to the lanes of a thread or stream, so that the events of each lane nest. Viewers
//! of Chrome traces demand that the events of one thread id nest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use marey_store::Reader;

/// Returns the first thread id from `min_tid` on that is not the first lane of a thread.
pub(super) fn free_tid(min_tid: i64, reader: &Reader) -> i64 {
    let last_thread_id = reader.threads().map(|thread| i64::from(thread.id)).max();
    min_tid.max(last_thread_id.map_or(0, |last_thread_id| last_thread_id + 1))
}

/// The lanes of a thread or stream. Events arrive in order of their starts.
#[derive(Debug, Default)]
pub(super) struct ThreadLanes {
    lanes: Vec<Lane>,
    /// For each lane, the latest end that an event can have which starts now and still nests.
    max_end_nanos: MaxTree,
    /// Ends of open events with their lanes, earliest first.
    open_ends: BinaryHeap<Reverse<(i64, usize)>>,
    now_nanos: Option<i64>,
    /// Lanes with an event that starts now.
    lanes_with_start: Vec<usize>,
}

/// The ends of the open events of a lane.
#[derive(Debug, Default)]
struct Lane {
    /// Ends of open events, each of which nests in the previous one.
    open_end_nanos: Vec<i64>,
    /// Ends of events that start now. They nest in any order, because inner ones may arrive first.
    starting_end_nanos: Vec<i64>,
}

impl ThreadLanes {
    /// Returns the index of the first lane in which the event nests.
    pub(super) fn assign(&mut self, start_nanos: i64, end_nanos: i64) -> usize {
        if Some(start_nanos) > self.now_nanos {
            self.advance(start_nanos);
        }
        let lane = self.max_end_nanos.first_at_least(end_nanos).unwrap_or(self.lanes.len());
        if lane == self.lanes.len() {
            self.lanes.push(Lane::default());
            self.max_end_nanos.set(lane, i64::MAX);
        }
        let assigned_lane = &mut self.lanes[lane];
        if assigned_lane.starting_end_nanos.is_empty() {
            self.lanes_with_start.push(lane);
        }
        assigned_lane.starting_end_nanos.push(end_nanos);
        lane
    }

    /// Moves to the next start: opens the events that have started, and closes those that have
    /// ended.
    fn advance(&mut self, now_nanos: i64) {
        self.now_nanos = Some(now_nanos);
        for lane in self.lanes_with_start.drain(..) {
            let Lane { open_end_nanos, starting_end_nanos } = &mut self.lanes[lane];
            starting_end_nanos.sort_unstable_by_key(|&end_nanos| Reverse(end_nanos));
            self.open_ends
                .extend(starting_end_nanos.iter().map(|&end_nanos| Reverse((end_nanos, lane))));
            open_end_nanos.append(starting_end_nanos);
            self.max_end_nanos.set(lane, open_end_nanos.last().copied().unwrap_or(i64::MAX));
        }
        while let Some(next) = self.open_ends.peek_mut().filter(|next| next.0.0 <= now_nanos) {
            let Reverse((_, lane)) = PeekMut::pop(next);
            let open_end_nanos = &mut self.lanes[lane].open_end_nanos;
            open_end_nanos.pop();
            self.max_end_nanos.set(lane, open_end_nanos.last().copied().unwrap_or(i64::MAX));
        }
    }
}

/// A segment tree of maxima, which finds the first lane with a high enough maximum in logarithmic
/// time.
#[derive(Debug, Default)]
struct MaxTree {
    /// Node `n` has the children `2 * n` and `2 * n + 1`. The lanes are the second half.
    maxima: Vec<i64>,
}

impl MaxTree {
    /// Returns the first lane whose maximum is at least `min_end_nanos`.
    fn first_at_least(&self, min_end_nanos: i64) -> Option<usize> {
        let mut node = 1;
        self.maxima.get(node).filter(|maxima| **maxima >= min_end_nanos)?;
        while node < self.maxima.len() / 2 {
            node *= 2;
            node += usize::from(self.maxima[node] < min_end_nanos);
        }
        Some(node - self.maxima.len() / 2)
    }

    fn set(&mut self, lane: usize, max_end_nanos: i64) {
        while lane >= self.maxima.len() / 2 {
            self.double();
        }
        let mut node = self.maxima.len() / 2 + lane;
        self.maxima[node] = max_end_nanos;
        while node > 1 {
            node /= 2;
            self.maxima[node] = self.maxima[2 * node].max(self.maxima[2 * node + 1]);
        }
    }

    fn double(&mut self) {
        let lanes = self.maxima.len() / 2;
        let mut maxima = vec![i64::MIN; (4 * lanes).max(2)];
        let new_lanes = maxima.len() / 2;
        maxima[new_lanes..new_lanes + lanes].copy_from_slice(&self.maxima[lanes..]);
        for node in (1..new_lanes).rev() {
            maxima[node] = maxima[2 * node].max(maxima[2 * node + 1]);
        }
        self.maxima = maxima;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether two events are apart or one is inside the other.
    fn nest((start, end): (i64, i64), (other_start, other_end): (i64, i64)) -> bool {
        let is_apart = end <= other_start || other_end <= start;
        let is_inside = other_start <= start && end <= other_end;
        let is_around = start <= other_start && other_end <= end;
        is_apart || is_inside || is_around
    }

    proptest! {
        #[test]
        fn the_events_of_a_lane_nest(
            mut events in prop::collection::vec((-30_i64..30, 0_i64..20), 1..80),
        ) {
            for event in &mut events {
                event.1 += event.0;
            }
            events.sort_by_key(|event| event.0);
            let mut lanes = ThreadLanes::default();
            let mut placed: Vec<Vec<(i64, i64)>> = Vec::new();
            for (start, end) in events {
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
    fn a_stack_needs_one_lane_in_any_order_of_equal_starts() {
        let mut lanes = ThreadLanes::default();
        for (start, end) in [(0, 5), (0, 9), (0, 100), (5, 9), (9, 9), (10, 20), (10, 30)] {
            assert_eq!(lanes.assign(start, end), 0, "{start}..{end}");
        }
        assert_eq!(lanes.assign(25, 40), 1);
        assert_eq!(lanes.assign(30, 50), 0);
    }

    #[test]
    fn a_hundred_thousand_lanes_are_assigned_quickly() {
        let mut lanes = ThreadLanes::default();
        for start in 0..100_000 {
            assert_eq!(lanes.assign(start, start + 100_000), start.cast_unsigned() as usize);
        }
        assert_eq!(lanes.assign(100_000, 300_000), 0);
        // Many events with equal starts, inner ones first, need no insertion sort.
        for end in 0..100_000 {
            assert_eq!(lanes.assign(400_000, 400_000 + end), 0);
        }
        assert_eq!(lanes.assign(400_001, 900_000), 1);
    }
}
