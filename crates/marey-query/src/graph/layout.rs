//! The order of nodes.

use super::{Graph, Node};

impl Graph {
    /// Takes `nodes`, of which each stands after its parent, into viewer order. Gives the new
    /// position of each.
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
        for at in (0..self.nodes.len()).rev() {
            let end = self.nodes[at].end;
            if let Some(parent) = self.nodes[at].parent {
                let above = &mut self.nodes[parent].end;
                *above = end.max(*above);
            }
        }
        new_from_old
    }
}

/// Pre-order with siblings by name; of equal names the one first seen comes first.
fn viewer_order(nodes: &[Node]) -> Vec<usize> {
    // Siblings side by side: the roots, then the children of node 0, and so on.
    let group = |node: &Node| node.parent.map_or(0, |parent| parent + 1);
    let mut starts = vec![0; nodes.len() + 2];
    for node in nodes {
        starts[group(node) + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut next = starts.clone();
    let mut siblings = vec![0; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        let slot = &mut next[group(node)];
        siblings[*slot] = at;
        *slot += 1;
    }
    // The last sibling first: the walk takes from the end.
    let family = |group: usize| starts[group]..starts[group + 1];
    let rank = |at: usize| (&*nodes[at].frame, nodes[at].seen);
    for group in 0..=nodes.len() {
        siblings[family(group)].sort_unstable_by(|&a, &b| rank(b).cmp(&rank(a)));
    }
    let mut order = Vec::with_capacity(nodes.len());
    let mut waiting = siblings[family(0)].to_vec();
    while let Some(at) = waiting.pop() {
        order.push(at);
        waiting.extend_from_slice(&siblings[family(at + 1)]);
    }
    order
}
