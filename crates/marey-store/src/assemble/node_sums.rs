//! Sums spans and samples by context node during an assembly, and writes the sums to the table
//! `rollups`.

use std::collections::BTreeMap;
use std::mem;

use hashbrown::HashMap;
use marey_model::loss::LossCause;

use super::Assembler;
use super::processes::shift_extents;
use super::sampled::SampledSum;
use crate::StoreError;
use crate::rollup::{NO_NODE, Rollup, SpanTimes, Totals};
use crate::sums::{self, NodeInfo};

/// Maximum number of nodes in a flame graph of samples. A short file can describe a deep stack on
/// many threads.
const MAX_SAMPLED_NODES: usize = 1 << 20;

/// The context nodes of all threads, each a (thread, context) pair, with their sums.
#[derive(Debug)]
pub(super) struct NodeSums {
    /// The node of each context on the first thread that has the context, or [`NO_NODE`].
    first_nodes: Vec<u32>,
    /// Nodes on other threads, by thread and context.
    on_other_threads: HashMap<(u32, u32), u32>,
    /// Thread, context and name of each node.
    nodes: Vec<[u32; 3]>,
    totals: Vec<Totals>,
    rollup: Rollup,
}

impl NodeSums {
    /// Creates an empty set for a run of `span_count` spans. Their number decides how fine the
    /// rollups are.
    pub(super) fn new(span_count: u64) -> Self {
        let (first_nodes, on_other_threads, nodes, totals) =
            (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        Self { first_nodes, on_other_threads, nodes, totals, rollup: Rollup::new(0, span_count) }
    }

    /// Returns the node of a context on a thread, and adds it if it is new. `name_id` is the name
    /// of the context.
    pub(super) fn get_or_add_node(&mut self, thread_id: u32, context_id: u32, name_id: u32) -> u32 {
        let next_node = self.nodes.len() as u32;
        let index = context_id as usize;
        if self.first_nodes.len() <= index {
            self.first_nodes.resize(index + 1, NO_NODE);
        }
        let node = match self.first_nodes[index] {
            NO_NODE => {
                self.first_nodes[index] = next_node;
                next_node
            }
            first_node if self.nodes[first_node as usize][0] == thread_id => first_node,
            _ => *self.on_other_threads.entry((thread_id, context_id)).or_insert(next_node),
        };
        if node == next_node {
            self.nodes.push([thread_id, context_id, name_id]);
            self.totals.push(Totals::default());
            self.rollup.add_node();
        }
        node
    }

    /// Adds a span that has ended. The spans inside it must have been added before.
    pub(super) fn add(&mut self, span: &SpanTimes) {
        self.totals[span.node as usize].add(span.duration_nanos, span.children_nanos);
        self.rollup.add(span);
    }
}

impl Assembler {
    /// Writes the sums of spans and of samples.
    pub(super) fn write_sums(
        &mut self,
        mut node_sums: NodeSums,
        shift_nanos: i64,
    ) -> Result<(), StoreError> {
        self.add_samples(&mut node_sums);
        let NodeSums { nodes, totals, rollup, .. } = node_sums;
        for (&[thread_id, ..], _) in
            nodes.iter().zip(&totals).filter(|(_, node_totals)| node_totals.is_saturated())
        {
            self.lose(self.threads[thread_id as usize].process_id, LossCause::Unsupported, 1);
        }
        let extents_nanos = shift_extents(&self.extents, shift_nanos);
        let node_info = |node: u32| {
            let [thread_id, context_id, name_id] = nodes[node as usize];
            let (start_nanos, _) =
                extents_nanos[self.threads[thread_id as usize].process_id as usize];
            NodeInfo { thread_id, context_id, name_id, start_nanos }
        };
        sums::write(&totals, rollup, node_info, None, &mut self.parts)
    }

    /// Adds each sample to its context and to all contexts around it. Counts of calls are added
    /// only to the context itself.
    fn add_samples(&mut self, node_sums: &mut NodeSums) {
        // Contexts are taken in descending order of their ids. Parents have lower ids than their
        // children, so each sum is complete when it is taken.
        let mut pending_sums = BTreeMap::new();
        for ((thread_id, context_id), SampledSum { count, nanos }) in
            mem::take(&mut self.sampled_sums)
        {
            pending_sums.insert((context_id, thread_id), [count, nanos, nanos]);
        }
        while let Some(((context_id, thread_id), [count, nanos, self_nanos])) =
            pending_sums.pop_last()
        {
            let Some(parent_id) = self.names.parent(context_id) else { continue };
            if node_sums.nodes.len() >= MAX_SAMPLED_NODES {
                let process_id = self.threads[thread_id as usize].process_id;
                self.lose(process_id, LossCause::Unsupported, 1);
                continue;
            }
            let node =
                node_sums.get_or_add_node(thread_id, context_id, self.names.name_id(context_id));
            let sums = &mut node_sums.totals[node as usize].sums;
            sums.count = sums.count.saturating_add(count.round() as i64);
            sums.total_nanos = sums.total_nanos.saturating_add(nanos.round() as i64);
            sums.self_nanos = sums.self_nanos.saturating_add(self_nanos.round() as i64);
            let parent_sums = pending_sums.entry((parent_id, thread_id)).or_insert([0.0; 3]);
            parent_sums[0] += if self.sampled.counts_calls { 0.0 } else { count };
            parent_sums[1] += nanos;
        }
    }
}
