//! Arranges the nodes of a graph in the order of viewers: pre-order, with siblings sorted by name.

use super::Node;

/// Returns the nodes in viewer order, and the new index of each. Parents must precede their
/// children.
pub(super) fn arrange(nodes: Vec<Node>) -> (Vec<Node>, Vec<usize>) {
    let order = viewer_order(&nodes);
    let mut new_indexes = vec![0; nodes.len()];
    for (new_index, &old_index) in order.iter().enumerate() {
        new_indexes[old_index] = new_index;
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    let mut arranged: Vec<Node> = Vec::with_capacity(order.len());
    for old_index in order {
        let Some(mut node) = nodes[old_index].take() else { continue };
        node.parent = node.parent.map(|parent| new_indexes[parent]);
        node.depth = node.parent.map_or(0, |parent| arranged[parent].depth + 1);
        node.subtree_end = arranged.len() + 1;
        arranged.push(node);
    }
    for node in (0..arranged.len()).rev() {
        let end = arranged[node].subtree_end;
        if let Some(parent) = arranged[node].parent {
            let parent_end = &mut arranged[parent].subtree_end;
            *parent_end = end.max(*parent_end);
        }
    }
    (arranged, new_indexes)
}

/// Returns the nodes in pre-order with siblings sorted by name. Siblings with equal names keep the
/// order in which the program created them.
fn viewer_order(nodes: &[Node]) -> Vec<usize> {
    // Counting sort by parent. Group 0 has the roots, and group `n + 1` has the children of node
    // `n`.
    let group = |node: &Node| node.parent.map_or(0, |parent| parent + 1);
    let mut group_starts = vec![0; nodes.len() + 2];
    for node in nodes {
        group_starts[group(node) + 1] += 1;
    }
    for group in 1..group_starts.len() {
        group_starts[group] += group_starts[group - 1];
    }
    let mut next_slots = group_starts.clone();
    let mut siblings = vec![0; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let slot = &mut next_slots[group(node)];
        siblings[*slot] = index;
        *slot += 1;
    }
    // Siblings in descending order, because the walk pops from the end.
    let children_range = |group: usize| group_starts[group]..group_starts[group + 1];
    let sort_key = |node: usize| (&*nodes[node].profile_name, nodes[node].creation_rank);
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
