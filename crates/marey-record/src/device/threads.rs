//! The table of the threads that have launched work, kept until their launches have finished.

use crate::thread::ThreadTree;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The trees of these threads, by the numbers that the decoder assigns.
#[derive(Debug, Default)]
pub(crate) struct LaunchingThreads {
    trees: HashMap<u32, Arc<ThreadTree>>,
    numbers: HashMap<u64, u32>,
    next_number: u32,
    /// Threads that have ended, oldest first. Devices may still execute their launches.
    ended: Vec<u32>,
    /// The number of ended threads at which the next attempt to remove some is made.
    max_ended: usize,
}

/// The minimum of that number. Once it is exceeded, the older half is removed, except threads whose
/// launches are still waiting.
const MAX_ENDED: usize = 512;

impl LaunchingThreads {
    /// Returns the number of a thread, which is valid as long as its tree is kept.
    pub(super) fn number_or_assign(&mut self, tree: &Arc<ThreadTree>) -> u32 {
        let Self { trees, numbers, next_number, .. } = self;
        *numbers.entry(tree.generation).or_insert_with(|| {
            trees.insert(*next_number, Arc::clone(tree));
            *next_number += 1;
            *next_number - 1
        })
    }

    /// Returns the tree of a thread.
    pub(crate) fn tree(&self, number: u32) -> Option<&Arc<ThreadTree>> {
        self.trees.get(&number)
    }

    /// Adds a thread to the ended ones.
    pub(super) fn mark_ended(&mut self, tree: &ThreadTree) {
        self.ended.extend(self.numbers.remove(&tree.generation));
    }

    /// Whether there are too many ended threads.
    pub(super) fn has_too_many_ended(&self) -> bool {
        self.ended.len() > self.max_ended.max(MAX_ENDED)
    }

    /// Removes the older half of the ended threads, except those in `awaited`. Returns the removed
    /// threads, with the generations of their trees.
    pub(super) fn remove_ended(&mut self, awaited: &HashSet<u32>) -> HashMap<u32, u64> {
        let older_half = self.ended.len() / 2;
        let unawaited = self.ended[..older_half].iter().filter(|number| !awaited.contains(number));
        let removed: HashMap<u32, u64> = unawaited
            .filter_map(|number| Some((*number, self.trees.get(number)?.generation)))
            .collect();
        self.ended.retain(|number| !removed.contains_key(number));
        self.trees.retain(|number, _| !removed.contains_key(number));
        // If most of the rest is awaited, an attempt soon after this one would find the same.
        self.max_ended = 2 * self.ended.len();
        removed
    }
}
