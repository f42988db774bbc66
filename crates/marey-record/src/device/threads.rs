//! The threads that have launched something.

use crate::thread::ThreadTree;
use std::collections::HashMap;
use std::sync::Arc;

/// The trees of such threads, by numbers of the decoder's own.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    trees: HashMap<u32, Arc<ThreadTree>>,
    numbers: HashMap<u64, u32>,
    next: u32,
    /// Those that have ended, oldest first. The devices may be at work for them still.
    ended: Vec<u32>,
}

/// Trees of ended threads that are kept; of more, the older half goes.
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
        self.ended.len() > MOST_ENDED
    }

    /// Lets the older half of the ended ones go.
    pub(super) fn forget_ended(&mut self) {
        for number in self.ended.drain(..MOST_ENDED / 2) {
            self.trees.remove(&number);
        }
    }
}
