//! A graph without some of its nodes.

use std::collections::HashMap;
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::Metric;

use super::column::{self, Cells};
use super::sum::sum;
use super::{Column, Graph, Node, Own};

impl Graph {
    /// The graph of the nodes that are kept. Each hangs from the nearest node above it that is
    /// kept; siblings that then have one name become one, and their numbers are added.
    ///
    /// # Panics
    /// If there is not one flag a node.
    #[must_use]
    pub fn squash(&self, is_kept: &[bool]) -> Self {
        assert_eq!(is_kept.len(), self.nodes.len(), "one flag a node");
        let mut nodes: Vec<Node> = Vec::new();
        let mut known = HashMap::new();
        // Of a node that is left out: the place of the nearest one above it.
        let mut places: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            let above = node.parent.and_then(|parent| places[parent]);
            places.push(if is_kept[at] {
                Some(*known.entry((above, node.frame.clone())).or_insert_with(|| {
                    nodes.push(Node { parent: above, ..node.clone() });
                    nodes.len() - 1
                }))
            } else {
                above
            });
        }
        let mut graph = Self {
            nodes: Vec::new(),
            own: Vec::new(),
            columns: Vec::new(),
            devices: self.devices.clone(),
            meta: self.meta.clone(),
        };
        let has_merged = nodes.len() < is_kept.iter().filter(|is_kept| **is_kept).count();
        let arranged = graph.arrange(nodes);
        let place = |at: usize| is_kept[at].then_some(places[at]).flatten().map(|at| arranged[at]);
        let move_metric = |metric: &Metric| {
            if has_merged { merged_metric(metric, place) } else { column::moved(metric, place) }
        };
        graph.own =
            self.own.iter().map(|own| Own { metric: move_metric(&own.metric), ..*own }).collect();
        let count = graph.nodes.len();
        let columns = self.columns.iter().filter(|column| !self.is_sum(&column.label));
        graph.columns = columns.map(|column| moved_column(column, count, place)).collect();
        graph
    }
}

/// The metric with the numbers of nodes that come to one place added up.
fn merged_metric(metric: &Metric, place: impl Fn(usize) -> Option<usize>) -> Metric {
    let mut moves: Vec<(usize, MetricValue)> = metric
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(rank, node)| Some((place(node.index())?, metric.values.get(rank))))
        .collect();
    moves.sort_by_key(|(node, _)| *node);
    let mut merged = Metric::new(metric.key.clone());
    let mut moves = moves.into_iter().peekable();
    while let Some((node, mut value)) = moves.next() {
        while let Some((_, next)) = moves.next_if(|(next, _)| *next == node) {
            value = match (value, next) {
                (text @ MetricValue::Text(_), _) => text,
                (value, next) => match column::add(Some(value.clone()), next, &metric.key) {
                    Some(sum) => sum,
                    None => value,
                },
            };
        }
        merged.push(marey_model::profile::NodeId(node as u32), value);
    }
    merged
}

fn moved_column(column: &Column, count: usize, place: impl Fn(usize) -> Option<usize>) -> Column {
    let cells = match &column.cells {
        Cells::Numbers { values, are_whole } => {
            let mut moved = vec![f64::NAN; count];
            for (at, &value) in values.iter().enumerate() {
                if let Some(new) = place(at) {
                    moved[new] = sum(&mut [moved[new], value]);
                }
            }
            Cells::Numbers { values: moved, are_whole: *are_whole }
        }
        Cells::Values(values) => {
            let mut moved = vec![None; count];
            for (at, value) in values.iter().enumerate() {
                if let Some(new) = place(at)
                    && moved[new].is_none()
                {
                    moved[new].clone_from(value);
                }
            }
            Cells::Values(moved)
        }
    };
    Column { label: Arc::clone(&column.label), cells }
}
