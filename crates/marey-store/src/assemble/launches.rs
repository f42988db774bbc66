//! Finds the context that launched an activity, by correlation id and external correlation id, for
//! the assembly of imported traces.
//!
//! Calls and activities both grow with a trace, and most calls launch nothing. So a small filter
//! first collects the ids that activities refer to, and only the calls and operators that pass it
//! are kept.

use crate::row::GpuActivity;

/// Filters of the ids that activities refer to.
#[derive(Debug, Default)]
pub(super) struct LaunchIds {
    correlation_ids: IdFilter,
    external_ids: IdFilter,
}

/// A set of (process, id) pairs that may report false positives, like a Bloom filter with one hash.
/// It takes at most a megabyte.
#[derive(Debug, Default)]
struct IdFilter {
    /// Bits, in blocks that are allocated when their first bit is set.
    blocks: Vec<Option<Box<[u64; BLOCK_WORDS]>>>,
}

/// Number of bits. Ids of one process that differ by a multiple of this share a bit.
const FILTER_BITS: u64 = 1 << 23;
const BLOCK_WORDS: usize = 1 << 10;

impl IdFilter {
    /// Returns the block, the word in the block and the bit in the word. Ids mostly count up, so
    /// the ids of a short trace are in one block.
    const fn position(process_id: u32, id: u64) -> (usize, usize, u64) {
        let bit = id.wrapping_add((process_id as u64) << 16) % FILTER_BITS;
        let word = (bit / u64::BITS as u64) as usize;
        (word / BLOCK_WORDS, word % BLOCK_WORDS, 1 << (bit % u64::BITS as u64))
    }

    fn add(&mut self, process_id: u32, id: u64) {
        let (block, word, bit) = Self::position(process_id, id);
        if self.blocks.len() <= block {
            self.blocks.resize(block + 1, None);
        }
        self.blocks[block].get_or_insert_with(|| Box::new([0; BLOCK_WORDS]))[word] |= bit;
    }

    fn may_contain(&self, process_id: u32, id: u64) -> bool {
        let (block, word, bit) = Self::position(process_id, id);
        let block = self.blocks.get(block).and_then(Option::as_ref);
        block.is_some_and(|block| block[word] & bit != 0)
    }
}

impl LaunchIds {
    /// Adds the ids of an activity whose context is still unknown.
    pub(super) fn add(&mut self, activity: &GpuActivity) {
        if activity.context_id.is_none() {
            let process_id = activity.process_id;
            if let Some(correlation_id) = activity.correlation_id {
                self.correlation_ids.add(process_id, correlation_id);
            }
            if let Some(external_id) = activity.external_id {
                self.external_ids.add(process_id, external_id);
            }
        }
    }
}

/// Contexts of calls and operators, by the ids that activities refer to.
#[derive(Debug, Default)]
pub(super) struct Launches {
    launch_ids: LaunchIds,
    /// The context around each call, by process.
    calls: Vec<ContextPairs>,
    /// The context of each operator, by process.
    operators: Vec<ContextPairs>,
}

/// (id, context) pairs. Pairs with equal ids are in the order in which their spans began. Ids
/// mostly grow with time, so sorting the pairs costs less than a hash table.
type ContextPairs = Vec<(u64, u32)>;

impl Launches {
    pub(super) fn new(launch_ids: LaunchIds) -> Self {
        Self { launch_ids, calls: Vec::new(), operators: Vec::new() }
    }

    /// Adds a call with its correlation id and the context of its parent.
    pub(super) fn add_call(&mut self, process_id: u32, correlation_id: u64, context_id: u32) {
        if self.launch_ids.correlation_ids.may_contain(process_id, correlation_id) {
            contexts_of(&mut self.calls, process_id).push((correlation_id, context_id));
        }
    }

    /// Adds an operator with its external correlation id and its own context.
    pub(super) fn add_operator(&mut self, process_id: u32, external_id: u64, context_id: u32) {
        if self.launch_ids.external_ids.may_contain(process_id, external_id) {
            contexts_of(&mut self.operators, process_id).push((external_id, context_id));
        }
    }

    /// Prepares for lookups, after all calls and operators were added.
    pub(super) fn sort(&mut self) {
        self.launch_ids = LaunchIds::default();
        for contexts in self.calls.iter_mut().chain(&mut self.operators) {
            contexts.sort_by_key(|&(id, _)| id);
        }
    }

    /// Returns the context in which an activity was launched. If nested calls have its correlation
    /// id, the outermost wins, as in the views. If several operators have its external id, the last
    /// wins.
    pub(super) fn context(&self, activity: &GpuActivity) -> Option<u32> {
        let process_id = activity.process_id as usize;
        let called = activity.correlation_id.and_then(|correlation_id| {
            let calls = self.calls.get(process_id)?;
            let first = calls.partition_point(|&(id, _)| id < correlation_id);
            let (id, context_id) = *calls.get(first)?;
            (id == correlation_id).then_some(context_id)
        });
        called.or_else(|| {
            let external_id = activity.external_id?;
            let operators = self.operators.get(process_id)?;
            let end = operators.partition_point(|&(id, _)| id <= external_id);
            let (id, context_id) = *operators[..end].last()?;
            (id == external_id).then_some(context_id)
        })
    }
}

fn contexts_of(contexts: &mut Vec<ContextPairs>, process_id: u32) -> &mut ContextPairs {
    let index = process_id as usize;
    if contexts.len() <= index {
        contexts.resize(index + 1, Vec::new());
    }
    &mut contexts[index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_filter_reports_every_added_id(
            numbers in prop::collection::vec((0_u32..3, any::<u64>()), 0..100),
        ) {
            let mut set = IdFilter::default();
            for &(process_id, id) in &numbers {
                set.add(process_id, id);
            }
            for (process_id, id) in numbers {
                prop_assert!(set.may_contain(process_id, id));
            }
        }
    }

    #[test]
    fn a_short_trace_keeps_only_calls_that_activities_refer_to() {
        let mut launch_ids = LaunchIds::default();
        (0..1_000).for_each(|n| launch_ids.correlation_ids.add(0, 3 * n));
        let mut launches = Launches::new(launch_ids);
        (0..3_000).for_each(|n| launches.add_call(0, n, 7));
        assert_eq!(launches.calls[0].len(), 1_000);
        assert!(launches.launch_ids.correlation_ids.blocks.iter().flatten().count() == 1);
    }
}
