//! The sums of kernel durations for each context node that launched them.

use super::capture;
use super::threads::LaunchingThreads;
use crate::column::{Column, WallTimes};
use crate::merged::{MergedTree, NodeMapping, ROOT, SessionView};
use crate::names;
use crate::number_hash::NumberHash;
use marey_model::context::{CAPTURED_AT, ContextSource, NodeKind};
use std::collections::HashMap;
use std::hash::Hasher;

/// The sums of one session and phase.
#[derive(Debug, Default)]
pub(super) struct Sums {
    keys: Vec<KernelKey>,
    indices: HashMap<KernelKey, u32, NumberHash>,
    /// The sums, by the index of the key in `keys`.
    column: Column,
    /// The number of kernels without a duration, by the index of the key.
    untimed: HashMap<u32, u64, NumberHash>,
    last_index: u32,
    /// The sums of threads that were freed.
    folded: MergedTree,
}

/// The kernels of one sum: those of one name, launched at one node, on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelKey {
    /// The number of the thread in the decoder.
    pub(super) thread_number: u32,
    pub(super) node: u32,
    /// The number of the capture site, 0 for none.
    pub(super) site_number: u32,
    /// The id of the kernel's name, 0 if the node is named after it.
    pub(super) name_id: u32,
    pub(super) device: u32,
}

impl std::hash::Hash for KernelKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.thread_number) << 32 | u64::from(self.node));
        state.write_u64(
            u64::from(self.name_id) << 32
                | u64::from(self.device) ^ u64::from(self.site_number) << 8,
        );
    }
}

impl Sums {
    /// Adds a kernel, with its duration if it is known.
    #[inline]
    pub(super) fn add(&mut self, key: KernelKey, nanos: Option<u64>) {
        let is_last = self.keys.get(self.last_index as usize) == Some(&key);
        let index = if is_last { self.last_index } else { self.index_or_assign(key) };
        self.last_index = index;
        match nanos {
            Some(nanos) => self.column.record(index, nanos, nanos),
            None => *self.untimed.entry(index).or_insert(0) += 1,
        }
    }

    /// Returns the sums of the key with this index.
    fn times(&self, index: u32) -> WallTimes {
        let timed = self.column.copy(index).wall;
        let untimed = self.untimed.get(&index).copied().unwrap_or(0);
        WallTimes { count: timed.count + untimed, ..timed }
    }

    fn index_or_assign(&mut self, key: KernelKey) -> u32 {
        *self.indices.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() as u32 - 1
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.folded.is_empty()
    }

    /// Adds all sums to a tree.
    pub(super) fn add_to(
        &self,
        tree: &mut MergedTree,
        view: SessionView,
        threads: &LaunchingThreads,
    ) {
        tree.absorb_tree(&self.folded);
        let mut mappings: HashMap<u32, NodeMapping> = HashMap::new();
        for (key, index) in self.keys.iter().zip(0..) {
            let Some(thread) = threads.tree(key.thread_number) else { continue };
            let mapping = mappings
                .entry(key.thread_number)
                .or_insert_with(|| NodeMapping::new(thread, view, ROOT));
            let mut node = mapping.merged_node(tree, key.node);
            if key.site_number != 0 {
                node = capture_site_node(tree, node, key.site_number, view);
            }
            tree.add_kernel(node, key.name_id, key.device, &self.times(index));
        }
    }

    /// Folds the rows into a tree, so that their threads can be freed.
    pub(super) fn fold(&mut self, view: SessionView, threads: &LaunchingThreads) {
        if self.keys.is_empty() {
            return;
        }
        let mut folded = MergedTree::default();
        self.add_to(&mut folded, view, threads);
        *self = Self { folded, ..Self::default() };
    }
}

/// Returns the node of a capture site below the node of the graph launch.
fn capture_site_node(
    tree: &mut MergedTree,
    launch: u32,
    site_number: u32,
    view: SessionView,
) -> u32 {
    let captured_at = tree.child(launch, names::intern(CAPTURED_AT), NodeKind::Scope);
    let Some(site) = capture::capture_site(site_number) else {
        return captured_at;
    };
    let node = match view.context {
        ContextSource::Shadow => site.shadow_node,
        ContextSource::Python => site.python_node,
    };
    NodeMapping::new(&site.tree, view, captured_at).merged_node(tree, node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_launches_share_a_sum() {
        let mut sums = Sums::default();
        let key = KernelKey { thread_number: 0, node: 4, site_number: 0, name_id: 9, device: 0 };
        let other = KernelKey { device: 1, ..key };
        for nanos in 1..=10 {
            sums.add(key, Some(nanos));
            sums.add(other, Some(100 * nanos));
            sums.add(other, Some(100 * nanos));
        }
        assert_eq!(sums.keys, [key, other]);
        let (first, second) = (sums.times(0), sums.times(1));
        assert_eq!(
            (first.count, first.total_nanos, first.min_nanos, first.max_nanos),
            (10, 55, 1, 10)
        );
        assert_eq!((second.count, second.total_nanos), (20, 11_000));
    }
}
