//! The table that joins activities with their launches by correlation id.
//!
//! Correlation ids increase with each call, so the launches that a device has not finished have ids
//! close together. A table indexed by the low bits of the id therefore needs neither hashes nor
//! buckets. If a later launch takes the slot of an earlier one, the earlier one has nearly always
//! finished. If it has not, the table grows, up to a limit. Beyond the limit the older launch is
//! dropped, and its activities count as activities without a launch.

use super::launches::{FLAGS_WORD, IDS_WORD, IS_CANCELLED, KIND_MASK, Launch, LaunchKind};
use crate::ring::Record;
use std::collections::{HashMap, HashSet};
use std::hint::black_box;

/// A launch, and the thread that logged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launched {
    pub(super) launch: Launch,
    /// The number of the thread in the decoder.
    pub(super) thread_number: u32,
}

/// A slot of the table: the record of a launch. Its last word also contains the flags below, and
/// the thread above them. An empty slot is all zeros.
#[derive(Clone, Copy, Debug)]
struct LaunchSlot(Record);

/// Flag: an activity of the launch was seen.
const HAS_ACTIVITY: u64 = 1 << 8;
/// Flag: the slot is occupied.
const IS_OCCUPIED: u64 = 1 << 9;
const THREAD_SHIFT: u32 = u32::BITS;

impl LaunchSlot {
    #[inline(always)]
    fn new(record: Record, thread_number: u32) -> Self {
        let [ids, nodes, sessions, flags] = record;
        let is_silent = flags & KIND_MASK == LaunchKind::Silent.flag_bits();
        let has_activity = if is_silent || flags & IS_CANCELLED != 0 { HAS_ACTIVITY } else { 0 };
        Self([
            ids,
            nodes,
            sessions,
            flags | has_activity | IS_OCCUPIED | u64::from(thread_number) << THREAD_SHIFT,
        ])
    }

    #[inline(always)]
    fn correlation_id(&self) -> u32 {
        self.0[IDS_WORD] as u32
    }

    #[inline(always)]
    fn stamp(&self) -> u32 {
        (self.0[IDS_WORD] >> 32) as u32
    }

    #[inline(always)]
    fn thread_number(&self) -> u32 {
        (self.0[FLAGS_WORD] >> THREAD_SHIFT) as u32
    }

    #[inline(always)]
    fn is_occupied(&self) -> bool {
        self.0[FLAGS_WORD] & IS_OCCUPIED != 0
    }

    /// Whether the slot contains a launch without an activity so far.
    #[inline(always)]
    fn is_waiting(&self) -> bool {
        self.0[FLAGS_WORD] & (IS_OCCUPIED | HAS_ACTIVITY) == IS_OCCUPIED
    }

    /// Whether activities of the launch may still come, given the newest correlation id.
    #[inline(always)]
    fn is_needed(&self, newest_id: u32) -> bool {
        let is_open_graph =
            self.0[FLAGS_WORD] & (KIND_MASK | IS_CANCELLED) == LaunchKind::Graph.flag_bits();
        self.is_waiting()
            || is_open_graph && newest_id.wrapping_sub(self.correlation_id()) < MAX_GRAPH_AGE
    }
}

/// The kernels of a graph are expected before this many further launches.
const MAX_GRAPH_AGE: u32 = MAX_SLOTS as u32;

/// The launches whose activities are still expected.
#[derive(Debug)]
pub(super) struct LaunchTable {
    slots: Vec<Record>,
    max_slots: usize,
    /// The number of launches without an activity, by stamp. The newest stamp is last; there are
    /// few.
    waiting_counts: Vec<(u32, u64)>,
}

/// The initial size, 512 KB, which stays in a cache, and the maximum size, 32 MB.
const INITIAL_SLOTS: usize = 1 << 14;
const MAX_SLOTS: usize = 1 << 20;

impl Default for LaunchTable {
    fn default() -> Self {
        Self { slots: Vec::new(), max_slots: MAX_SLOTS, waiting_counts: Vec::new() }
    }
}

impl LaunchTable {
    /// Adds a launch. A repeated id replaces the earlier launch.
    #[inline]
    pub(super) fn add(&mut self, record: Record, thread_number: u32) {
        let new_slot = LaunchSlot::new(record, thread_number);
        let correlation_id = new_slot.correlation_id();
        while self.is_slot_unavailable(correlation_id) && self.slots.len() < self.max_slots {
            self.grow(correlation_id);
        }
        let index = self.index_of(correlation_id);
        let Some(slot) = self.slots.get_mut(index) else { return };
        let previous = LaunchSlot(std::mem::replace(slot, new_slot.0));
        if new_slot.is_waiting() {
            self.count_waiting(new_slot.stamp());
        }
        if previous.is_waiting() {
            self.uncount_waiting(previous.stamp());
        }
    }

    #[inline]
    fn count_waiting(&mut self, stamp: u32) {
        match self.waiting_counts.last_mut() {
            Some((newest, count)) if *newest == stamp => *count += 1,
            _ => self.count_waiting_slow(stamp),
        }
    }

    /// Counts a launch whose stamp is not the newest one. A thread may log late with an older
    /// stamp.
    #[cold]
    fn count_waiting_slow(&mut self, stamp: u32) {
        if let Some((_, count)) =
            self.waiting_counts.iter_mut().rev().find(|(counted_stamp, _)| *counted_stamp == stamp)
        {
            *count += 1;
        } else {
            // Stamps without waiting launches are dropped.
            self.waiting_counts.retain(|&(_, count)| count > 0);
            self.waiting_counts.push((stamp, 1));
        }
    }

    #[inline]
    fn uncount_waiting(&mut self, stamp: u32) {
        let entry =
            self.waiting_counts.iter_mut().rev().find(|(counted_stamp, _)| *counted_stamp == stamp);
        if let Some((_, count)) = entry {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether a launch with an older stamp still has no activity.
    pub(super) fn is_waiting_before(&self, stamp: u32) -> bool {
        self.waiting_counts.iter().any(|&(waiting_stamp, count)| waiting_stamp < stamp && count > 0)
    }

    /// Stops waiting for launches with older stamps. Returns how many of them were kernels, each of
    /// which should have had a record.
    pub(super) fn stop_waiting_before(&mut self, stamp: u32) -> u64 {
        self.waiting_counts.retain(|&(waiting_stamp, _)| waiting_stamp >= stamp);
        let mut kernel_count = 0;
        for record in &mut self.slots {
            let slot = LaunchSlot(*record);
            if slot.is_occupied() && slot.stamp() < stamp {
                let is_kernel = record[FLAGS_WORD] & KIND_MASK == LaunchKind::Kernel.flag_bits();
                kernel_count += u64::from(is_kernel && slot.is_waiting());
                record[FLAGS_WORD] |= HAS_ACTIVITY;
            }
        }
        kernel_count
    }

    /// Returns the threads with launches that have no activity yet.
    pub(super) fn awaited_threads(&self) -> HashSet<u32> {
        let launches = self.slots.iter().copied().map(LaunchSlot);
        launches.filter(LaunchSlot::is_waiting).map(|slot| slot.thread_number()).collect()
    }

    /// Removes the launches of these threads. Each of them had an activity; its later activities
    /// have no launch.
    pub(super) fn remove_threads(&mut self, removed: &HashMap<u32, u64>) {
        for record in &mut self.slots {
            let slot = LaunchSlot(*record);
            if slot.is_occupied() && removed.contains_key(&slot.thread_number()) {
                *record = Record::default();
            }
        }
    }

    /// Returns the launch with this correlation id. It stays in the table, because a graph launch
    /// has many kernels.
    #[inline]
    pub(super) fn find(&mut self, correlation_id: u32) -> Option<Launched> {
        let index = self.index_of(correlation_id);
        let record = self.slots.get_mut(index)?;
        let slot = LaunchSlot(*record);
        if !slot.is_occupied() || slot.correlation_id() != correlation_id {
            return None;
        }
        record[FLAGS_WORD] |= HAS_ACTIVITY;
        if slot.is_waiting() {
            self.uncount_waiting(slot.stamp());
        }
        Some(Launched { launch: Launch::decode(slot.0), thread_number: slot.thread_number() })
    }

    /// Whether the slot of this id does not exist, or holds another launch that is still needed.
    #[inline]
    fn is_slot_unavailable(&self, correlation_id: u32) -> bool {
        match self.slots.get(self.index_of(correlation_id)) {
            Some(&record) => {
                let occupant = LaunchSlot(record);
                occupant.is_needed(correlation_id) && occupant.correlation_id() != correlation_id
            }
            None => true,
        }
    }

    #[inline(always)]
    fn index_of(&self, correlation_id: u32) -> usize {
        correlation_id as usize & self.slots.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self, correlation_id: u32) {
        let len = (2 * self.slots.len()).max(INITIAL_SLOTS.min(self.max_slots));
        let old_slots = std::mem::replace(&mut self.slots, resident_table(len));
        for slot in
            old_slots.into_iter().map(LaunchSlot).filter(|slot| slot.is_needed(correlation_id))
        {
            let index = self.index_of(slot.correlation_id());
            if let Some(free_slot) = self.slots.get_mut(index) {
                *free_slot = slot.0;
            }
        }
    }
}

/// Returns an empty table whose pages are resident. It writes to each page first, because a page
/// that is read before it is written costs a second fault and an interrupt of every processor.
fn resident_table(len: usize) -> Vec<Record> {
    const PAGE_RECORDS: usize = 4096 / size_of::<Record>();
    let mut table = vec![Record::default(); len];
    table.iter_mut().step_by(PAGE_RECORDS).for_each(|first| *first = black_box(Record::default()));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(correlation_id: u32, stamp: u32) -> Record {
        let launch = Launch {
            correlation_id,
            stamp,
            shadow_node: 0,
            python_node: 1,
            sessions: 1,
            is_named: false,
            is_cancelled: false,
            kind: LaunchKind::Kernel,
        };
        launch.encode()
    }

    #[test]
    fn a_launch_is_found_until_its_slot_is_reused() {
        let mut table = LaunchTable::default();
        assert_eq!(table.find(5), None);
        table.add(launch(5, 1), 2);
        assert_eq!(
            table.find(5).map(|found| (found.launch.stamp, found.thread_number)),
            Some((1, 2))
        );
        // A graph launch has many kernels.
        assert!(table.find(5).is_some());
        table.add(launch(5, 9), 2);
        assert_eq!(table.find(5).map(|found| found.launch.stamp), Some(9));
        table.add(launch(5 + INITIAL_SLOTS as u32, 3), 0);
        assert_eq!(table.find(5), None);
        assert_eq!(table.slots.len(), INITIAL_SLOTS);
    }

    #[test]
    fn waiting_launches_grow_the_table_up_to_its_limit() {
        let mut table = LaunchTable { max_slots: 4 * INITIAL_SLOTS, ..LaunchTable::default() };
        let numbers = 0..4 * INITIAL_SLOTS as u32;
        numbers.clone().for_each(|number| table.add(launch(number, 0), 0));
        assert_eq!(table.slots.len(), 4 * INITIAL_SLOTS);
        assert!(numbers.clone().all(|number| table.find(number).is_some()));
        table.add(launch(numbers.end, 0), 0);
        assert_eq!(table.find(0), None);
        table.add(launch(numbers.end + 1, 0), 0);
        table.add(launch(5 * numbers.end, 0), 0);
        assert_eq!(table.find(numbers.end), None, "the older launch is dropped");
    }
}
