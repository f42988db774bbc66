//! Which launch a correlation number is of.
//!
//! Numbers rise with each call of a device's interface, so the launches that a device has still to
//! work off lie close together: a table that is indexed by the number's low bits needs neither hashes
//! nor buckets. A launch whose place is taken by a later one has nearly always been worked off; where
//! it has not, the table grows, up to a limit: what comes of a launch that had to go then is counted as
//! an activity without one.

use super::launches::Launch;
use std::collections::{BTreeMap, HashSet};

/// A launch, and the thread that it was logged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launched {
    pub(super) launch: Launch,
    /// Number of the thread among those of the decoder.
    pub(super) thread: u32,
    /// Whether something that it launched has been seen.
    pub(super) is_seen: bool,
}

/// The launches that are waiting for what they launched.
#[derive(Debug)]
pub(super) struct Join {
    places: Vec<Option<Launched>>,
    most: usize,
    /// By mark, how many launches of it have not been seen.
    waiting: BTreeMap<u32, u64>,
}

/// The first table, and the largest: 3 MB and 48 MB.
const FIRST: usize = 1 << 16;
const MOST: usize = 1 << 20;

impl Default for Join {
    fn default() -> Self {
        Self { places: Vec::new(), most: MOST, waiting: BTreeMap::new() }
    }
}

impl Join {
    /// A launch was logged. A number that comes again is another launch's.
    #[inline]
    pub(super) fn add(&mut self, launch: Launch, thread: u32) {
        let launched = Launched { launch, thread, is_seen: launch.is_over };
        while self.waits_elsewhere(launch.correlation) && self.places.len() < self.most {
            self.grow();
        }
        let at = self.place(launch.correlation);
        if let Some(place) = self.places.get_mut(at) {
            let before = place.replace(launched);
            if !launch.is_over {
                *self.waiting.entry(launch.mark).or_default() += 1;
            }
            if let Some(before) = before.filter(|before| !before.is_seen) {
                self.seen(before.launch.mark);
            }
        }
    }

    fn seen(&mut self, mark: u32) {
        if let Some(count) = self.waiting.get_mut(&mark) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&mark);
            }
        }
    }

    /// Whether a launch of an older mark than this has not been seen.
    pub(super) fn is_waiting_before(&self, mark: u32) -> bool {
        self.waiting.range(..mark).next().is_some()
    }

    /// Waits for nothing any more.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
        self.places.iter_mut().flatten().for_each(|launched| launched.is_seen = true);
    }

    /// The threads that launched what has not been seen.
    pub(super) fn awaited_threads(&self) -> HashSet<u32> {
        let unseen = self.places.iter().flatten().filter(|launched| !launched.is_seen);
        unseen.map(|launched| launched.thread).collect()
    }

    /// Forgets what these threads launched, all of which has been seen: what else comes of it has no launch.
    pub(super) fn forget_threads(&mut self, gone: &HashSet<u32>) {
        for place in &mut self.places {
            place.take_if(|launched| gone.contains(&launched.thread));
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
            Some(Some(there)) => !there.is_seen && there.launch.correlation != correlation,
            Some(None) => false,
            None => true,
        }
    }

    #[inline(always)]
    fn place(&self, correlation: u32) -> usize {
        correlation as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self) {
        let len = (2 * self.places.len()).max(FIRST.min(self.most));
        let old = std::mem::replace(&mut self.places, vec![None; len]);
        for launched in old.into_iter().flatten().filter(|launched| !launched.is_seen) {
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
