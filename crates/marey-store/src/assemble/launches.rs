//! Where what devices did was launched, found by numbers.
//!
//! Both grow with a trace: calls, most of which launch nothing, and activities. So activities say first
//! which numbers they name, in a few bits, and of calls and operators only those are kept.

use crate::row::GpuActivity;

/// Numbers of calls and operators that activities name.
#[derive(Debug, Default)]
pub(super) struct Named {
    correlations: Numbers,
    externals: Numbers,
}

/// A set of numbers of processes, which may seem to have others too. It takes a megabyte at most.
#[derive(Debug, Default)]
struct Numbers {
    /// Bits of as many numbers as there are in a block, made when the first of them is added.
    blocks: Vec<Option<Box<[u64; BLOCK_WORDS]>>>,
}

/// Numbers of a process that are so far apart seem the same.
const NUMBERS: u64 = 1 << 23;
const BLOCK_WORDS: usize = 1 << 10;

impl Numbers {
    /// The block, the word in it and the bit in that. Numbers mostly count up, so those of a short trace
    /// are in one block.
    const fn place(process: u32, number: u64) -> (usize, usize, u64) {
        let bit = number.wrapping_add((process as u64) << 16) % NUMBERS;
        let word = (bit / u64::BITS as u64) as usize;
        (word / BLOCK_WORDS, word % BLOCK_WORDS, 1 << (bit % u64::BITS as u64))
    }

    fn add(&mut self, process: u32, number: u64) {
        let (block, word, bit) = Self::place(process, number);
        if self.blocks.len() <= block {
            self.blocks.resize(block + 1, None);
        }
        self.blocks[block].get_or_insert_with(|| Box::new([0; BLOCK_WORDS]))[word] |= bit;
    }

    fn may_have(&self, process: u32, number: u64) -> bool {
        let (block, word, bit) = Self::place(process, number);
        let block = self.blocks.get(block).and_then(Option::as_ref);
        block.is_some_and(|block| block[word] & bit != 0)
    }
}

impl Named {
    /// Adds the numbers that an activity without a context names.
    pub(super) fn add(&mut self, activity: &GpuActivity) {
        if activity.context_id.is_none() {
            let process = activity.process_id;
            if let Some(correlation) = activity.correlation_id {
                self.correlations.add(process, correlation);
            }
            if let Some(external) = activity.external_id {
                self.externals.add(process, external);
            }
        }
    }
}

/// Contexts of the calls and operators that activities name.
#[derive(Debug, Default)]
pub(super) struct Launches {
    named: Named,
    /// By process. Of calls, the context around them.
    calls: Vec<Contexts>,
    operators: Vec<Contexts>,
}

/// Contexts by number, those of one number in the order in which they began. Numbers mostly grow with
/// time, so sorting them takes less than a table.
type Contexts = Vec<(u64, u32)>;

impl Launches {
    pub(super) fn new(named: Named) -> Self {
        Self { named, calls: Vec::new(), operators: Vec::new() }
    }

    /// A call with this number, in this context.
    pub(super) fn add_call(&mut self, process: u32, correlation: u64, around: u32) {
        if self.named.correlations.may_have(process, correlation) {
            of_process(&mut self.calls, process).push((correlation, around));
        }
    }

    /// An operator with this number, which is this context.
    pub(super) fn add_operator(&mut self, process: u32, external: u64, context: u32) {
        if self.named.externals.may_have(process, external) {
            of_process(&mut self.operators, process).push((external, context));
        }
    }

    /// All calls and operators were added.
    pub(super) fn sort(&mut self) {
        self.named = Named::default();
        for contexts in self.calls.iter_mut().chain(&mut self.operators) {
            contexts.sort_by_key(|&(number, _)| number);
        }
    }

    /// Returns the context in which an activity was launched. Of several calls with its number, one
    /// inside the other, the outermost counts, as in the views; of several operators, the last.
    pub(super) fn context(&self, activity: &GpuActivity) -> Option<u32> {
        let process = activity.process_id as usize;
        let called = activity.correlation_id.and_then(|correlation| {
            let calls = self.calls.get(process)?;
            let first = calls.partition_point(|&(number, _)| number < correlation);
            let (number, around) = *calls.get(first)?;
            (number == correlation).then_some(around)
        });
        called.or_else(|| {
            let external = activity.external_id?;
            let operators = self.operators.get(process)?;
            let behind = operators.partition_point(|&(number, _)| number <= external);
            let (number, context) = *operators[..behind].last()?;
            (number == external).then_some(context)
        })
    }
}

fn of_process(contexts: &mut Vec<Contexts>, process: u32) -> &mut Contexts {
    let at = process as usize;
    if contexts.len() <= at {
        contexts.resize(at + 1, Vec::new());
    }
    &mut contexts[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_that_was_added_is_there(
            numbers in prop::collection::vec((0_u32..3, any::<u64>()), 0..100),
        ) {
            let mut set = Numbers::default();
            for &(process, number) in &numbers {
                set.add(process, number);
            }
            for (process, number) in numbers {
                prop_assert!(set.may_have(process, number));
            }
        }
    }

    #[test]
    fn of_a_short_trace_only_what_is_named_is_kept() {
        let mut named = Named::default();
        (0..1_000).for_each(|n| named.correlations.add(0, 3 * n));
        let mut launches = Launches::new(named);
        (0..3_000).for_each(|n| launches.add_call(0, n, 7));
        assert_eq!(launches.calls[0].len(), 1_000);
        assert!(launches.named.correlations.blocks.iter().flatten().count() == 1);
    }
}
