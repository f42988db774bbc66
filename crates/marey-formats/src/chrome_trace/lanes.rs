//! Which lane of a thread or stream an event goes to, so that the events of a lane nest.

use marey_store::Reader;

/// The first number from `wanted` on that is no thread's, whose first lanes have the numbers of them.
pub(super) fn free_lane(wanted: i64, reader: &Reader) -> i64 {
    let last = reader.threads().map(|thread| i64::from(thread.id)).max();
    wanted.max(last.map_or(0, |last| last + 1))
}

/// The lanes of a thread or stream. Events come in order of their starts.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<Lane>);

/// The events of a lane that are open, each inside the one before.
#[derive(Debug, Default)]
struct Lane(Vec<(i64, i64)>);

impl Lanes {
    /// The number of the first lane on which the event fits.
    pub(super) fn place(&mut self, start_nanos: i64, end_nanos: i64) -> usize {
        let fits = self.0.iter_mut().position(|lane| lane.try_add(start_nanos, end_nanos));
        fits.unwrap_or_else(|| {
            self.0.push(Lane(vec![(start_nanos, end_nanos)]));
            self.0.len() - 1
        })
    }
}

impl Lane {
    fn try_add(&mut self, start: i64, end: i64) -> bool {
        while self.0.last().is_some_and(|open| open.1 <= start) {
            self.0.pop();
        }
        // Of those that begin together the inner ones may have come first.
        let inside_from = self.0.partition_point(|open| open.1 >= end);
        let fits = self.0.get(inside_from).is_none_or(|inside| inside.0 == start);
        if fits {
            self.0.insert(inside_from, (start, end));
        }
        fits
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
            mut events in prop::collection::vec((0_i64..60, 0_i64..20), 1..80),
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
}
