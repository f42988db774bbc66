//! Which launch a correlation number is of.
//!
//! Numbers rise with each call of a device's interface, so the launches that a device has still to
//! work off lie close together: a table that is indexed by the number's low bits needs neither hashes
//! nor buckets. A launch whose place is taken by a later one has nearly always been worked off; where
//! it has not, the table grows, up to a limit: what comes of a launch that had to go then is counted as
//! an activity without one.

use super::launches::Launch;
use std::collections::{HashMap, HashSet};

/// A launch, and the thread that it was logged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launched {
    pub(super) launch: Launch,
    /// Number of the thread among those of the decoder.
    pub(super) thread: u32,
    /// Whether something that it launched has been seen.
    pub(super) is_seen: bool,
}

impl Launched {
    /// Whether something may still come of it, when this is the newest number.
    fn is_needed(&self, newest: u32) -> bool {
        let age = newest.wrapping_sub(self.launch.correlation);
        !self.is_seen || self.launch.is_graph && !self.launch.is_over && age < GRAPH_AGE
    }
}

/// A graph's kernels come within so many launches of its own.
const GRAPH_AGE: u32 = MOST as u32;

/// The launches that are waiting for what they launched.
#[derive(Debug)]
pub(super) struct Join {
    places: Vec<Option<Launched>>,
    most: usize,
    /// How many launches of each mark have not been seen; the newest mark last, and few of them.
    waiting: Vec<(u32, u64)>,
}

/// The first table, and the largest: 3 MB and 48 MB.
const FIRST: usize = 1 << 16;
const MOST: usize = 1 << 20;

impl Default for Join {
    fn default() -> Self {
        Self { places: Vec::new(), most: MOST, waiting: Vec::new() }
    }
}

impl Join {
    /// A launch was logged. A number that comes again is another launch's.
    #[inline]
    pub(super) fn add(&mut self, launch: Launch, thread: u32) {
        let launched = Launched { launch, thread, is_seen: launch.is_over };
        while self.waits_elsewhere(launch.correlation) && self.places.len() < self.most {
            self.grow(launch.correlation);
        }
        let at = self.place(launch.correlation);
        if let Some(place) = self.places.get_mut(at) {
            let before = place.replace(launched);
            if !launch.is_over {
                self.wait(launch.mark);
            }
            if let Some(before) = before.filter(|before| !before.is_seen) {
                self.seen(before.launch.mark);
            }
        }
    }

    #[inline]
    fn wait(&mut self, mark: u32) {
        if let Some((_, count)) = self.waiting.iter_mut().rev().find(|(known, _)| *known == mark) {
            *count += 1;
        } else {
            // A thread may be late with a mark; those that nobody waits for need no place.
            self.waiting.retain(|&(_, count)| count > 0);
            self.waiting.push((mark, 1));
        }
    }

    #[inline]
    fn seen(&mut self, mark: u32) {
        let of_mark = self.waiting.iter_mut().rev().find(|(known, _)| *known == mark);
        if let Some((_, count)) = of_mark {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether a launch of an older mark than this has not been seen.
    pub(super) fn is_waiting_before(&self, mark: u32) -> bool {
        self.waiting.iter().any(|&(of, count)| of < mark && count > 0)
    }

    /// Waits no more for launches of older marks than this. How many those are.
    pub(super) fn forget_waiting_before(&mut self, mark: u32) -> u64 {
        let older = self.waiting.extract_if(.., |&mut (of, _)| of < mark);
        let waiting = older.map(|(_, count)| count).sum();
        for launched in self.places.iter_mut().flatten() {
            launched.is_seen |= launched.launch.mark < mark;
        }
        waiting
    }

    /// The threads that launched what has not been seen.
    pub(super) fn awaited_threads(&self) -> HashSet<u32> {
        let unseen = self.places.iter().flatten().filter(|launched| !launched.is_seen);
        unseen.map(|launched| launched.thread).collect()
    }

    /// Forgets what these threads launched, all of which has been seen: what else comes of it has no launch.
    pub(super) fn forget_threads(&mut self, gone: &HashMap<u32, u64>) {
        for place in &mut self.places {
            place.take_if(|launched| gone.contains_key(&launched.thread));
        }
    }

    /// The launch with this number. A graph's launches many kernels, so it stays.
    #[inline]
    pub(super) fn find(&mut self, correlation: u32) -> Option<Launched> {
        let at = self.place(correlation);
        let found = self.places.get_mut(at)?.as_mut()?;
        if found.launch.correlation != correlation {
            return None;
        }
        let is_first = !std::mem::replace(&mut found.is_seen, true);
        let found = *found;
        if is_first {
            self.seen(found.launch.mark);
        }
        Some(found)
    }

    /// Whether the place of this number is another launch's that is still waiting, or missing.
    fn waits_elsewhere(&self, correlation: u32) -> bool {
        match self.places.get(self.place(correlation)) {
            Some(Some(there)) => {
                there.is_needed(correlation) && there.launch.correlation != correlation
            }
            Some(None) => false,
            None => true,
        }
    }

    #[inline(always)]
    fn place(&self, correlation: u32) -> usize {
        correlation as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self, correlation: u32) {
        let len = (2 * self.places.len()).max(FIRST.min(self.most));
        let old = std::mem::replace(&mut self.places, vec![None; len]);
        for launched in old.into_iter().flatten().filter(|launched| launched.is_needed(correlation))
        {
            let at = self.place(launched.launch.correlation);
            if let Some(place) = self.places.get_mut(at) {
                *place = Some(launched);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(correlation: u32, mark: u32) -> Launch {
        Launch {
            correlation,
            mark,
            shadow_node: 0,
            python_node: 1,
            sessions: 1,
            is_named: false,
            is_over: false,
            is_graph: false,
        }
    }

    #[test]
    fn a_launch_is_found_until_its_place_is_needed() {
        let mut join = Join::default();
        assert_eq!(join.find(5), None);
        join.add(launch(5, 1), 2);
        assert_eq!(join.find(5).map(|found| (found.launch.mark, found.thread)), Some((1, 2)));
        // A graph's launch has many kernels.
        assert!(join.find(5).is_some());
        join.add(launch(5, 9), 2);
        assert_eq!(join.find(5).map(|found| found.launch.mark), Some(9));
        join.add(launch(5 + FIRST as u32, 3), 0);
        assert_eq!(join.find(5), None);
        assert_eq!(join.places.len(), FIRST);
    }

    #[test]
    fn launches_that_wait_make_the_table_grow_up_to_its_limit() {
        let mut join = Join { most: 4 * FIRST, ..Join::default() };
        let numbers = 0..4 * FIRST as u32;
        numbers.clone().for_each(|number| join.add(launch(number, 0), 0));
        assert_eq!(join.places.len(), 4 * FIRST);
        assert!(numbers.clone().all(|number| join.find(number).is_some()));
        join.add(launch(numbers.end, 0), 0);
        assert_eq!(join.find(0), None);
        join.add(launch(numbers.end + 1, 0), 0);
        join.add(launch(5 * numbers.end, 0), 0);
        assert_eq!(join.find(numbers.end), None, "the older one goes");
    }
}
