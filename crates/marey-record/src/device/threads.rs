//! The threads that have launched something.

use crate::thread::ThreadTree;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The trees of such threads, by numbers of the decoder's own.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    trees: HashMap<u32, Arc<ThreadTree>>,
    numbers: HashMap<u64, u32>,
    next: u32,
    /// Those that have ended, oldest first. The devices may be at work for them still.
    ended: Vec<u32>,
    /// So many of them are kept.
    most_ended: usize,
}

/// Trees of ended threads that are kept; of more, the older half goes, but those that something is awaited of.
const MOST_ENDED: usize = 512;

impl Threads {
    /// The number of a thread, which is its own for as long as its tree is kept.
    pub(super) fn number(&mut self, tree: &Arc<ThreadTree>) -> u32 {
        let Self { trees, numbers, next, .. } = self;
        *numbers.entry(tree.generation).or_insert_with(|| {
            trees.insert(*next, Arc::clone(tree));
            *next += 1;
            *next - 1
        })
    }

    /// The tree of a thread.
    pub(crate) fn tree(&self, number: u32) -> Option<&Arc<ThreadTree>> {
        self.trees.get(&number)
    }

    /// A thread has ended.
    pub(super) fn ended(&mut self, tree: &ThreadTree) {
        self.ended.extend(self.numbers.remove(&tree.generation));
    }

    /// Whether it is time to let the oldest go.
    pub(super) fn are_many(&self) -> bool {
        self.ended.len() > self.most_ended.max(MOST_ENDED)
    }

    /// Lets the older half of the ended ones go, except the awaited. Those that went, and the generations
    /// of their trees.
    pub(super) fn forget_ended(&mut self, awaited: &HashSet<u32>) -> HashMap<u32, u64> {
        let older = self.ended.len() / 2;
        let unawaited = self.ended[..older].iter().filter(|number| !awaited.contains(number));
        let gone: HashMap<u32, u64> = unawaited
            .filter_map(|number| Some((*number, self.trees.get(number)?.generation)))
            .collect();
        self.ended.retain(|number| !gone.contains_key(number));
        self.trees.retain(|number, _| !gone.contains_key(number));
        // Where most are awaited, looking again soon would find the same.
        self.most_ended = 2 * self.ended.len();
        gone
    }
}
