//! The threads of a spool, by their number in the spool and by the operating system's id.

use std::collections::{BTreeMap, HashMap};

use marey_model::spool::IdMap;

/// The highest number of a thread that a spool defines. Threads that have recorded nothing have
/// higher numbers. These were sampled or are in a window.
const LAST_NUMBER: u32 = u32::MAX / 2;

/// The threads of a spool.
#[derive(Debug, Default)]
pub(super) struct Threads {
    by_number: BTreeMap<u32, CollectedThread>,
    /// The number of the newest thread with each id of the operating system, which reuses the ids
    /// of ended threads.
    newest: HashMap<u64, u32>,
}

/// A thread of a spool.
#[derive(Debug)]
pub(super) struct CollectedThread {
    /// Position among the spool's threads, in the order of appearance.
    pub(super) position: u32,
    pub(super) os_id: u64,
    pub(super) name: String,
    /// The position of each node in [`super::outline::Outline::nodes`].
    pub(super) nodes: IdMap<u32>,
}

impl Threads {
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn get(&self, number: u32) -> Option<&CollectedThread> {
        self.by_number.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut CollectedThread> {
        self.by_number.get_mut(&number)
    }

    /// Returns the threads in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &CollectedThread> {
        self.by_number.values()
    }

    /// Returns the number of the newest thread with an id of the operating system.
    pub(super) fn newest_number(&self, os_id: u64) -> Option<u32> {
        self.newest.get(&os_id).copied()
    }

    /// Returns the newest thread with an id of the operating system.
    pub(super) fn newest(&self, os_id: u64) -> Option<&CollectedThread> {
        self.get(self.newest_number(os_id)?)
    }

    /// Defines a thread, or changes its name. A thread that was added before it recorded anything
    /// gets this number and keeps its position.
    pub(super) fn define(&mut self, number: u32, os_id: u64, name: &str) {
        if !self.by_number.contains_key(&number) {
            let added = self.newest_number(os_id).filter(|&number| number > LAST_NUMBER);
            let position = match added.and_then(|number| self.by_number.remove(&number)) {
                Some(thread) => thread.position,
                None => self.by_number.len() as u32,
            };
            self.by_number.insert(number, CollectedThread::new(position));
            self.newest.insert(os_id, number);
        }
        if let Some(thread) = self.by_number.get_mut(&number) {
            (thread.os_id, thread.name) = (os_id, name.to_owned());
        }
    }

    /// Returns the number of the newest thread with an id of the operating system. Adds a thread if
    /// there is none.
    pub(super) fn find_or_add(&mut self, os_id: u64) -> u32 {
        if let Some(number) = self.newest_number(os_id) {
            return number;
        }
        let position = self.by_number.len() as u32;
        let number = LAST_NUMBER + 1 + position;
        // A damaged spool may define this number. In that case nothing is added, so that no two
        // threads have the same position.
        self.by_number
            .entry(number)
            .or_insert(CollectedThread { os_id, ..CollectedThread::new(position) });
        self.newest.insert(os_id, number);
        number
    }
}

impl CollectedThread {
    fn new(position: u32) -> Self {
        Self { position, os_id: 0, name: String::new(), nodes: IdMap::default() }
    }
}
