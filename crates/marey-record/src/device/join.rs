//! Which launch a correlation number is of.
//!
//! Numbers rise with each call of a device's interface, so the launches that a device has still to
//! work off lie close together: a table that is indexed by the number's low bits needs neither hashes
//! nor buckets. A launch whose place is taken by a later one has nearly always been worked off; where
//! it has not, the table grows, up to a limit: what comes of a launch that had to go then is counted as
//! an activity without one.

use super::launches::{IS_OVER, KIND_BITS, Launch, LaunchKind};
use crate::ring::Record;
use std::collections::{HashMap, HashSet};
use std::hint::black_box;

/// A launch, and the thread that it was logged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launched {
    pub(super) launch: Launch,
    /// Number of the thread among those of the decoder.
    pub(super) thread: u32,
}

/// What a place of the table holds: the record of a launch, with the flags below beside the launch's own,
/// and its thread above them. Zeros are none.
#[derive(Clone, Copy, Debug)]
struct Place(Record);

/// Something that the launch has launched was seen.
const IS_SEEN: u64 = 1 << 8;
/// The place is taken.
const IS_TAKEN: u64 = 1 << 9;
const THREAD_SHIFT: u32 = u32::BITS;

impl Place {
    #[inline(always)]
    fn of(record: Record, thread: u32) -> Self {
        let [numbers, nodes, sessions, flags] = record;
        let is_silent = flags & KIND_BITS == LaunchKind::Silent.flags();
        let seen = if is_silent || flags & IS_OVER != 0 { IS_SEEN } else { 0 };
        Self([
            numbers,
            nodes,
            sessions,
            flags | seen | IS_TAKEN | u64::from(thread) << THREAD_SHIFT,
        ])
    }

    #[inline(always)]
    fn correlation(&self) -> u32 {
        self.0[0] as u32
    }

    #[inline(always)]
    fn mark(&self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    #[inline(always)]
    fn thread(&self) -> u32 {
        (self.0[3] >> THREAD_SHIFT) as u32
    }

    #[inline(always)]
    fn is_taken(&self) -> bool {
        self.0[3] & IS_TAKEN != 0
    }

    /// Whether a launch is there of which nothing was seen.
    #[inline(always)]
    fn is_waiting(&self) -> bool {
        self.0[3] & (IS_TAKEN | IS_SEEN) == IS_TAKEN
    }

    /// Whether something may still come of it, when this is the newest number.
    #[inline(always)]
    fn is_needed(&self, newest: u32) -> bool {
        let is_open_graph = self.0[3] & (KIND_BITS | IS_OVER) == LaunchKind::Graph.flags();
        self.is_waiting() || is_open_graph && newest.wrapping_sub(self.correlation()) < GRAPH_AGE
    }
}

/// A graph's kernels come within so many launches of its own.
const GRAPH_AGE: u32 = MOST as u32;

/// The launches that are waiting for what they launched.
#[derive(Debug)]
pub(super) struct Join {
    places: Vec<Record>,
    most: usize,
    /// How many launches of each mark have not been seen; the newest mark last, and few of them.
    waiting: Vec<(u32, u64)>,
}

/// The first table, and the largest: 512 KB, which stay in a cache, and 32 MB.
const FIRST: usize = 1 << 14;
const MOST: usize = 1 << 20;

impl Default for Join {
    fn default() -> Self {
        Self { places: Vec::new(), most: MOST, waiting: Vec::new() }
    }
}

impl Join {
    /// A launch was logged. A number that comes again is another launch's.
    #[inline]
    pub(super) fn add(&mut self, record: Record, thread: u32) {
        let new = Place::of(record, thread);
        let correlation = new.correlation();
        while self.waits_elsewhere(correlation) && self.places.len() < self.most {
            self.grow(correlation);
        }
        let at = self.at(correlation);
        let Some(place) = self.places.get_mut(at) else { return };
        let before = Place(std::mem::replace(place, new.0));
        if new.is_waiting() {
            self.wait(new.mark());
        }
        if before.is_waiting() {
            self.seen(before.mark());
        }
    }

    #[inline]
    fn wait(&mut self, mark: u32) {
        match self.waiting.last_mut() {
            Some((newest, count)) if *newest == mark => *count += 1,
            _ => self.wait_with_another(mark),
        }
    }

    /// A thread may be late with a mark.
    #[cold]
    fn wait_with_another(&mut self, mark: u32) {
        if let Some((_, count)) = self.waiting.iter_mut().rev().find(|(known, _)| *known == mark) {
            *count += 1;
        } else {
            // Those that nobody waits for need no place.
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

    /// Waits no more for launches of older marks than this. How many were kernels, each of which leaves a
    /// record.
    pub(super) fn forget_waiting_before(&mut self, mark: u32) -> u64 {
        self.waiting.retain(|&(of, _)| of >= mark);
        let mut kernels = 0;
        for record in &mut self.places {
            let place = Place(*record);
            if place.is_taken() && place.mark() < mark {
                let is_kernel = record[3] & KIND_BITS == LaunchKind::Kernel.flags();
                kernels += u64::from(is_kernel && place.is_waiting());
                record[3] |= IS_SEEN;
            }
        }
        kernels
    }

    /// The threads that launched what has not been seen.
    pub(super) fn awaited_threads(&self) -> HashSet<u32> {
        let launches = self.places.iter().copied().map(Place);
        launches.filter(Place::is_waiting).map(|place| place.thread()).collect()
    }

    /// Forgets what these threads launched, all of which has been seen: what else comes of it has no launch.
    pub(super) fn forget_threads(&mut self, gone: &HashMap<u32, u64>) {
        for record in &mut self.places {
            let place = Place(*record);
            if place.is_taken() && gone.contains_key(&place.thread()) {
                *record = Record::default();
            }
        }
    }

    /// The launch with this number. A graph's launches many kernels, so it stays.
    #[inline]
    pub(super) fn find(&mut self, correlation: u32) -> Option<Launched> {
        let at = self.at(correlation);
        let record = self.places.get_mut(at)?;
        let found = Place(*record);
        if !found.is_taken() || found.correlation() != correlation {
            return None;
        }
        record[3] |= IS_SEEN;
        if found.is_waiting() {
            self.seen(found.mark());
        }
        Some(Launched { launch: Launch::of(found.0), thread: found.thread() })
    }

    /// Whether the place of this number is another launch's that is still waiting, or missing.
    #[inline]
    fn waits_elsewhere(&self, correlation: u32) -> bool {
        match self.places.get(self.at(correlation)) {
            Some(&record) => {
                let there = Place(record);
                there.is_needed(correlation) && there.correlation() != correlation
            }
            None => true,
        }
    }

    #[inline(always)]
    fn at(&self, correlation: u32) -> usize {
        correlation as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self, correlation: u32) {
        let len = (2 * self.places.len()).max(FIRST.min(self.most));
        let old = std::mem::replace(&mut self.places, resident(len));
        for place in old.into_iter().map(Place).filter(|place| place.is_needed(correlation)) {
            let at = self.at(place.correlation());
            if let Some(free) = self.places.get_mut(at) {
                *free = place.0;
            }
        }
    }
}

/// Returns an empty table of which every page has been written to: a page that is read first and written
/// to afterwards costs a second fault and an interrupt of every processor.
fn resident(len: usize) -> Vec<Record> {
    const PAGE: usize = 4096 / size_of::<Record>();
    let mut table = vec![Record::default(); len];
    table.iter_mut().step_by(PAGE).for_each(|first| *first = black_box(Record::default()));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(correlation: u32, mark: u32) -> Record {
        let launch = Launch {
            correlation,
            mark,
            shadow_node: 0,
            python_node: 1,
            sessions: 1,
            is_named: false,
            is_over: false,
            kind: LaunchKind::Kernel,
        };
        launch.record()
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
