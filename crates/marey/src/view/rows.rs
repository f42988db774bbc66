//! Which nodes are shown, and in which order.

use marey_formats::hatchet::{NodeId, Profile};
use marey_model::metric::MetricValue;
use marey_model::wall;

use super::columns::Column;
use super::{Sort, ViewArgs};

/// The nodes to show, each after its parent.
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// Nodes that `--depth` and `--threshold` leave out.
    pub(super) hidden: usize,
}

/// A node to show.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) node: NodeId,
    /// Levels below the root.
    pub(super) depth: usize,
    /// Whether no sibling follows.
    pub(super) is_last: bool,
}

pub(super) fn choose(profile: &Profile, first: Option<&Column>, args: &ViewArgs) -> Rows {
    let sizes: Vec<f64> = match first {
        Some(column) => column.values.iter().map(|value| size(value.as_ref())).collect(),
        None => vec![0.0; profile.nodes.len()],
    };
    let limit = args.threshold / 100.0 * first.map_or(0.0, |column| whole(profile, column, &sizes));
    let is_kept = kept(profile, &sizes, limit);
    let max_depth = args.depth.unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    let mut waiting = vec![Row { node: NodeId::ROOT, depth: 0, is_last: true }];
    while let Some(row) = waiting.pop() {
        if row.depth < max_depth {
            let mut children = profile.nodes[row.node.index()].children.clone();
            children.retain(|child| is_kept[child.index()]);
            if args.sort == Sort::Total {
                children.sort_by(|a, b| sizes[b.index()].total_cmp(&sizes[a.index()]));
            }
            // The last one waits at the bottom.
            waiting.extend(children.iter().rev().enumerate().map(|(from_end, &node)| Row {
                node,
                depth: row.depth + 1,
                is_last: from_end == 0,
            }));
        }
        rows.push(row);
    }
    let hidden = profile.nodes.len() - rows.len();
    Rows { rows, hidden }
}

/// Nodes that reach the limit, and the way to them.
fn kept(profile: &Profile, sizes: &[f64], limit: f64) -> Vec<bool> {
    let mut is_kept: Vec<bool> = sizes.iter().map(|&size| limit <= 0.0 || size >= limit).collect();
    for (index, node) in profile.nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent {
            is_kept[parent.index()] |= is_kept[index];
        }
    }
    is_kept
}

/// What percentages refer to: the root's sum of a metric that is rolled up; of the wall total, in
/// which each node includes those below it, the top level; of any other metric, all nodes.
fn whole(profile: &Profile, column: &Column, sizes: &[f64]) -> f64 {
    if profile.is_rolled_up(&column.key) {
        return sizes[NodeId::ROOT.index()];
    }
    let sum = |sizes: &mut dyn Iterator<Item = f64>| sizes.filter(|size| *size > 0.0).sum();
    if &*column.key == wall::TOTAL {
        return sum(&mut profile.root().children.iter().map(|child| sizes[child.index()]));
    }
    sum(&mut sizes.iter().copied())
}

/// A value as far as order goes; what is no number comes last.
fn size(value: Option<&MetricValue>) -> f64 {
    match value {
        Some(MetricValue::Int(value)) => *value as f64,
        Some(MetricValue::Float(value)) if !value.is_nan() => *value,
        _ => f64::NEG_INFINITY,
    }
}
