//! Which lane of a thread or stream an event goes to, so that the events of a lane nest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use marey_store::Reader;

/// The first number from `wanted` on that is no thread's, whose first lanes have the numbers of them.
pub(super) fn free_lane(wanted: i64, reader: &Reader) -> i64 {
    let last = reader.threads().map(|thread| i64::from(thread.id)).max();
    wanted.max(last.map_or(0, |last| last + 1))
}

/// The lanes of a thread or stream. Events come in order of their starts.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// The last end that an event may have which begins now, for each lane.
    room: Room,
    /// The ends of open events and their lanes, the next one first.
    ends: BinaryHeap<Reverse<(i64, usize)>>,
    now_nanos: Option<i64>,
    /// Lanes on which something began now.
    begun_on: Vec<usize>,
}

/// The ends of the events of a lane that are open.
#[derive(Debug, Default)]
struct Lane {
    /// Each inside the one before.
    open: Vec<i64>,
    /// Of those that began now. They fit each other in some order: inner ones may come first.
    begun: Vec<i64>,
}

impl Lanes {
    /// The number of the first lane on which the event fits.
    pub(super) fn place(&mut self, start_nanos: i64, end_nanos: i64) -> usize {
        if Some(start_nanos) > self.now_nanos {
            self.begin_moment(start_nanos);
        }
        let at = self.room.first(end_nanos).unwrap_or(self.all.len());
        if at == self.all.len() {
            self.all.push(Lane::default());
            self.room.set(at, i64::MAX);
        }
        let lane = &mut self.all[at];
        if lane.begun.is_empty() {
            self.begun_on.push(at);
        }
        lane.begun.push(end_nanos);
        at
    }

    fn begin_moment(&mut self, nanos: i64) {
        self.now_nanos = Some(nanos);
        for at in self.begun_on.drain(..) {
            let Lane { open, begun } = &mut self.all[at];
            begun.sort_unstable_by_key(|&end_nanos| Reverse(end_nanos));
            self.ends.extend(begun.iter().map(|&end_nanos| Reverse((end_nanos, at))));
            open.append(begun);
            self.room.set(at, open.last().copied().unwrap_or(i64::MAX));
        }
        while let Some(next) = self.ends.peek_mut().filter(|next| next.0.0 <= nanos) {
            let Reverse((_, at)) = PeekMut::pop(next);
            let open = &mut self.all[at].open;
            open.pop();
            self.room.set(at, open.last().copied().unwrap_or(i64::MAX));
        }
    }
}

/// A number for each lane, and the most of each half of them, of each quarter and so on, so that the
/// first lane with enough is found without asking all.
#[derive(Debug, Default)]
struct Room {
    /// The children of the node `n` are `2 * n` and `2 * n + 1`; the second half are the lanes.
    most: Vec<i64>,
}

impl Room {
    fn first(&self, wanted: i64) -> Option<usize> {
        let mut node = 1;
        self.most.get(node).filter(|most| **most >= wanted)?;
        while node < self.most.len() / 2 {
            node *= 2;
            node += usize::from(self.most[node] < wanted);
        }
        Some(node - self.most.len() / 2)
    }

    fn set(&mut self, lane: usize, room: i64) {
        while lane >= self.most.len() / 2 {
            self.double();
        }
        let mut node = self.most.len() / 2 + lane;
        self.most[node] = room;
        while node > 1 {
            node /= 2;
            self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]);
        }
    }

    fn double(&mut self) {
        let lanes = self.most.len() / 2;
        let mut most = vec![i64::MIN; (4 * lanes).max(2)];
        let new_lanes = most.len() / 2;
        most[new_lanes..new_lanes + lanes].copy_from_slice(&self.most[lanes..]);
        for node in (1..new_lanes).rev() {
            most[node] = most[2 * node].max(most[2 * node + 1]);
        }
        self.most = most;
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
        fn the_events_of_a_lane_nest(
            mut events in prop::collection::vec((-30_i64..30, 0_i64..20), 1..80),
        ) {
            for event in &mut events {
                event.1 += event.0;
            }
            events.sort_by_key(|event| event.0);
            let mut lanes = Lanes::default();
            let mut placed: Vec<Vec<(i64, i64)>> = Vec::new();
            for (start, end) in events {
                let lane = lanes.place(start, end);
                placed.resize(placed.len().max(lane + 1), Vec::new());
                for &other in &placed[lane] {
                    prop_assert!(nest((start, end), other), "{start}..{end} and {other:?}");
                }
                placed[lane].push((start, end));
            }
        }
    }

    #[test]
    fn a_stack_needs_one_lane_whichever_of_a_moment_comes_first() {
        let mut lanes = Lanes::default();
        for (start, end) in [(0, 5), (0, 9), (0, 100), (5, 9), (9, 9), (10, 20), (10, 30)] {
            assert_eq!(lanes.place(start, end), 0, "{start}..{end}");
        }
        assert_eq!(lanes.place(25, 40), 1);
        assert_eq!(lanes.place(30, 50), 0);
    }

    #[test]
    fn a_hundred_thousand_lanes_take_no_time() {
        let mut lanes = Lanes::default();
        for start in 0..100_000 {
            assert_eq!(lanes.place(start, start + 100_000), start.cast_unsigned() as usize);
        }
        assert_eq!(lanes.place(100_000, 300_000), 0);
        // Many of one moment, inner ones first, would be moved by each other.
        for end in 0..100_000 {
            assert_eq!(lanes.place(400_000, 400_000 + end), 0);
        }
        assert_eq!(lanes.place(400_001, 900_000), 1);
    }
}
