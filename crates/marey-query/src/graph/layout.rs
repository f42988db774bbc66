//! Stores the nodes of a graph in the order of viewers: pre-order, with siblings sorted by name.

use super::{Graph, Node};

impl Graph {
    /// Stores `nodes` in viewer order. Parents must precede their children. Returns the new index
    /// of each node.
    pub(super) fn arrange(&mut self, nodes: Vec<Node>) -> Vec<usize> {
        let order = viewer_order(&nodes);
        let mut new_from_old = vec![0; nodes.len()];
        for (new, &old) in order.iter().enumerate() {
            new_from_old[old] = new;
        }
        let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
        self.nodes = Vec::with_capacity(order.len());
        for old in order {
            let Some(mut node) = nodes[old].take() else { continue };
            node.parent = node.parent.map(|parent| new_from_old[parent]);
            node.depth = node.parent.map_or(0, |parent| self.nodes[parent].depth + 1);
            node.end = self.nodes.len() + 1;
            self.nodes.push(node);
        }
        for node in (0..self.nodes.len()).rev() {
            let end = self.nodes[node].end;
            if let Some(parent) = self.nodes[node].parent {
                let parent_end = &mut self.nodes[parent].end;
                *parent_end = end.max(*parent_end);
            }
        }
        new_from_old
    }
}

/// Returns the nodes in pre-order with siblings sorted by name. Siblings with equal names keep the
/// order in which the program created them.
fn viewer_order(nodes: &[Node]) -> Vec<usize> {
    // Counting sort by parent. Group 0 has the roots, and group `n + 1` has the children of node
    // `n`.
    let group = |node: &Node| node.parent.map_or(0, |parent| parent + 1);
    let mut starts = vec![0; nodes.len() + 2];
    for node in nodes {
        starts[group(node) + 1] += 1;
    }
    for group in 1..starts.len() {
        starts[group] += starts[group - 1];
    }
    let mut next = starts.clone();
    let mut siblings = vec![0; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let slot = &mut next[group(node)];
        siblings[*slot] = index;
        *slot += 1;
    }
    // Siblings in descending order, because the walk pops from the end.
    let children_range = |group: usize| starts[group]..starts[group + 1];
    let sort_key = |node: usize| (&*nodes[node].frame, nodes[node].creation_rank);
    for group in 0..=nodes.len() {
        siblings[children_range(group)].sort_unstable_by(|&a, &b| sort_key(b).cmp(&sort_key(a)));
    }
    let mut order = Vec::with_capacity(nodes.len());
    let mut pending = siblings[children_range(0)].to_vec();
    while let Some(node) = pending.pop() {
        order.push(node);
        pending.extend_from_slice(&siblings[children_range(node + 1)]);
    }
    order
}
