//! Access to several columns of a [`Graph`] node by node, for writers that emit one node at a time.
//!
//! The cost is proportional to the number of values. [`Graph::column`] returns an entry for every
//! node, which would be quadratic in the size of a profile whose nodes all have metrics of their
//! own.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter::zip;
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::{Metric, NodeId, Values};

use super::column::{Cells, INCLUSIVE, add, have_exact_sums, to_sparse_metric};
use super::sum::{BLOCK, LANES, sum};
use super::{Graph, OwnMetric};

/// A metric that at least one node in this many has is summed as a dense column instead of value by
/// value.
const DENSE_NODES_PER_VALUE: usize = 16;

/// The values of several columns, node by node.
pub struct CellsByNode<'a> {
    columns: Vec<Cow<'a, Metric>>,
    /// Offsets into `cells` for each node, and the total number at the end.
    offsets: Vec<usize>,
    cells: Vec<CellIndex>,
}

/// The position of a value in [`CellsByNode::columns`].
#[derive(Clone, Copy, Default)]
struct CellIndex {
    /// Index of the column.
    column_index: u32,
    /// Index among the values of the column.
    value_index: u32,
}

impl CellsByNode<'_> {
    /// The values of a node, each with the index of its column among the requested labels.
    pub fn node_cells(&self, node: usize) -> impl Iterator<Item = (usize, MetricValue)> {
        self.cells[self.offsets[node]..self.offsets[node + 1]].iter().map(|cell| {
            let column = cell.column_index as usize;
            (column, self.columns[column].values.get(cell.value_index as usize))
        })
    }
}

impl Graph {
    /// Returns the columns with these labels. The values are those of [`Graph::column`]. A column
    /// that does not exist is empty.
    pub fn cells_by_node<'a>(&'a self, labels: &[&str]) -> CellsByNode<'a> {
        let metrics_by_key: HashMap<&str, &OwnMetric> =
            self.metrics.iter().map(|entry| (&*entry.metric.key, entry)).collect();
        let terms = LazyCell::new(|| SumTerms::from_graph(self));
        let columns = labels.iter().map(|label| {
            if let Some(column) = self.columns.iter().find(|column| &*column.label == *label) {
                return Cow::Owned(pack_cells(column.label.clone(), &column.cells));
            }
            let metric_of_sums =
                label.strip_suffix(INCLUSIVE).and_then(|key| metrics_by_key.get(key));
            match metric_of_sums.filter(|entry| entry.is_inclusive) {
                Some(entry) => Cow::Owned(self.sum_metric(entry, &terms)),
                None => metrics_by_key.get(label).map_or_else(
                    || Cow::Owned(Metric::new(Arc::from(*label))),
                    |entry| Cow::Borrowed(&entry.metric),
                ),
            }
        });
        index_by_node(columns.collect(), self.nodes.len())
    }

    /// Returns the labels of all metrics that have only numeric values, and the labels of their
    /// sums.
    pub fn numeric_labels(&self) -> HashSet<String> {
        let mut labels = HashSet::new();
        for OwnMetric { metric, is_inclusive } in
            self.metrics.iter().filter(|entry| is_numeric(entry))
        {
            labels.insert(metric.key.to_string());
            if *is_inclusive {
                labels.insert(format!("{}{INCLUSIVE}", metric.key));
            }
        }
        labels
    }

    /// The sums of a metric over subtrees, for the nodes that have one.
    fn sum_metric(&self, entry: &OwnMetric, terms: &SumTerms) -> Metric {
        let Metric { key, nodes, values } = &entry.metric;
        if nodes.len() * DENSE_NODES_PER_VALUE >= self.nodes.len() {
            return pack_cells(key.clone(), &self.sum_cells(entry));
        }
        let node_indexes = || nodes.iter().map(|node| node.index());
        let ints_as_floats: Vec<f64> = match values {
            Values::Ints(ints) => ints.iter().map(|&int| int as f64).collect(),
            Values::Floats(_) | Values::Texts(_) | Values::Mixed(_) => Vec::new(),
        };
        match values {
            Values::Ints(_) if have_exact_sums(&ints_as_floats) => {
                let (nodes, sums) = self.sum_numbers(zip(node_indexes(), ints_as_floats), terms);
                let sums = sums.into_iter().map(|sum| sum as i64);
                Metric { key: key.clone(), nodes, values: Values::Ints(sums.collect()) }
            }
            Values::Floats(floats) => {
                let (nodes, sums) =
                    self.sum_numbers(zip(node_indexes(), floats.iter().copied()), terms);
                Metric { key: key.clone(), nodes, values: Values::Floats(sums) }
            }
            values => {
                let values_by_node = node_indexes()
                    .enumerate()
                    .map(|(value_index, node)| (node, values.get(value_index)));
                self.sum_values(key, values_by_node)
            }
        }
    }

    /// Returns the sums of `values` over subtrees, for the nodes that have one, in ascending order
    /// of nodes. Rounds as [`Graph::column`] does.
    fn sum_numbers(
        &self,
        values: impl Iterator<Item = (usize, f64)>,
        terms: &SumTerms,
    ) -> (Vec<NodeId>, Vec<f64>) {
        let mut pending: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (node, value) in values.filter(|(_, value)| !value.is_nan()) {
            pending.insert(node, vec![(0, value)]);
        }
        let mut sums = Vec::new();
        // Nodes are popped in descending order, so each node comes after all of its descendants.
        while let Some((node, mut addends)) = pending.pop_last() {
            addends.sort_unstable_by_key(|&(position, _)| position);
            let sum = sum_sparse(&addends, 0, terms.counts[node]);
            if sum.is_nan() {
                continue;
            }
            sums.push((NodeId(node as u32), sum));
            if let Some(parent) = self.nodes[node].parent {
                pending.entry(parent).or_default().push((terms.positions[node], sum));
            }
        }
        sums.into_iter().rev().unzip()
    }

    /// Like [`Self::sum_numbers`], for values that are not all real numbers.
    fn sum_values(
        &self,
        key: &Arc<str>,
        values: impl Iterator<Item = (usize, MetricValue)>,
    ) -> Metric {
        let mut pending: BTreeMap<usize, Option<MetricValue>> =
            values.map(|(node, value)| (node, Some(value))).collect();
        let mut sums = Vec::new();
        while let Some((node, sum)) = pending.pop_last() {
            let Some(value) = sum else { continue };
            if let Some(parent) = self.nodes[node].parent {
                let parent_sum = pending.entry(parent).or_default();
                *parent_sum = add(parent_sum.take(), value.clone(), key);
            }
            sums.push((NodeId(node as u32), value));
        }
        let (nodes, values) = sums.into_iter().rev().unzip();
        Metric { key: key.clone(), nodes, values: Values::Mixed(values) }
    }
}

/// Returns the cells that have a value, as a metric. Values keep their types, unlike in a metric
/// that is written to a file.
fn pack_cells(key: Arc<str>, cells: &Cells) -> Metric {
    let Cells::Values(values) = cells else { return to_sparse_metric(key, cells) };
    let values = (0..).map(NodeId).zip(values.iter().cloned());
    let (nodes, values) = values.filter_map(|(node, value)| Some((node, value?))).unzip();
    Metric { key, nodes, values: Values::Mixed(values) }
}

/// The order in which the terms of each node's sum are added. The first term is the node's own
/// value. The sums of its children follow in the order in which the program created them.
struct SumTerms {
    /// The position of each node in the sum of its parent.
    positions: Vec<usize>,
    /// The number of terms in the sum of each node.
    counts: Vec<usize>,
}

impl SumTerms {
    fn from_graph(graph: &Graph) -> Self {
        let mut nodes_by_creation: Vec<usize> = (0..graph.nodes.len()).collect();
        nodes_by_creation.sort_unstable_by_key(|&node| graph.nodes[node].creation_rank);
        let mut terms =
            Self { positions: vec![0; graph.nodes.len()], counts: vec![1; graph.nodes.len()] };
        for node in nodes_by_creation {
            if let Some(parent) = graph.nodes[node].parent {
                terms.positions[node] = terms.counts[parent];
                terms.counts[parent] += 1;
            }
        }
        terms
    }
}

/// Returns the result of [`sum`] for `count` terms of which all are 0 except `terms`. Each term
/// comes with its position, and positions begin at `first_position`.
fn sum_sparse(terms: &[(usize, f64)], first_position: usize, count: usize) -> f64 {
    if terms.is_empty() {
        return 0.0;
    }
    if count <= BLOCK {
        let mut block = [0.0; BLOCK];
        for (position, term) in terms {
            block[position - first_position] = *term;
        }
        return sum(&mut block[..count]);
    }
    let half = count / 2;
    let half = half - half % LANES;
    let middle = first_position + half;
    let left_count = terms.partition_point(|&(position, _)| position < middle);
    let (left, right) = terms.split_at(left_count);
    sum_sparse(left, first_position, half) + sum_sparse(right, middle, count - half)
}

fn index_by_node(columns: Vec<Cow<'_, Metric>>, node_count: usize) -> CellsByNode<'_> {
    let mut offsets = vec![0; node_count + 1];
    for (node, _) in columns.iter().flat_map(|column| nodes_with_value_index(column)) {
        offsets[node + 1] += 1;
    }
    for node in 0..node_count {
        offsets[node + 1] += offsets[node];
    }
    let mut next_offset = offsets.clone();
    let mut cells = vec![CellIndex::default(); offsets[node_count]];
    for (column_index, metric) in columns.iter().enumerate() {
        for (node, value_index) in nodes_with_value_index(metric) {
            cells[next_offset[node]] =
                CellIndex { column_index: column_index as u32, value_index: value_index as u32 };
            next_offset[node] += 1;
        }
    }
    CellsByNode { columns, offsets, cells }
}

/// Iterates over the nodes with a value, each with the rank of its value. NaN among real numbers is
/// a missing value.
fn nodes_with_value_index(metric: &Metric) -> impl Iterator<Item = (usize, usize)> {
    let has_value =
        |index: usize| !matches!(&metric.values, Values::Floats(floats) if floats[index].is_nan());
    let indexes =
        metric.nodes.iter().enumerate().map(|(value_index, node)| (node.index(), value_index));
    indexes.filter(move |&(_, value_index)| has_value(value_index))
}

fn is_numeric(entry: &OwnMetric) -> bool {
    match &entry.metric.values {
        Values::Ints(_) | Values::Floats(_) => true,
        Values::Texts(texts) => texts.is_empty(),
        Values::Mixed(values) => {
            values.iter().all(|value| matches!(value, MetricValue::Int(_) | MetricValue::Float(_)))
        }
    }
}

#[cfg(test)]
mod tests {
    use marey_model::profile::{Node, Profile};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A profile whose nodes are attached to earlier nodes. The metrics take `values` in turn.
    fn graph(parents: &[u32], values: Vec<(u32, MetricValue)>, metric_count: usize) -> Graph {
        let name = |index: usize| Arc::from(format!("{}", index * 7 % 11));
        let mut nodes = vec![Node { name: name(0), kind: None, parent: None }];
        // In pre-order, the parent of a node is the previous node or one of its ancestors.
        let mut path = vec![0];
        for (index, &levels_up) in parents.iter().enumerate() {
            path.truncate((path.len() - levels_up as usize % path.len()).max(1));
            let parent = path.last().copied().map(NodeId);
            path.push(index as u32 + 1);
            nodes.push(Node { name: name(index + 1), kind: None, parent });
        }
        let mut metrics: Vec<Metric> =
            (0..metric_count).map(|index| Metric::new(Arc::from(format!("m{index}")))).collect();
        for (index, (node, value)) in values.into_iter().enumerate() {
            let metric = &mut metrics[index % metric_count];
            let node = NodeId(node % nodes.len() as u32);
            if !metric.nodes.contains(&node) {
                metric.push(node, value);
            }
        }
        // Every other metric is summed into parents.
        for metric in
            metrics.iter_mut().step_by(2).filter(|metric| !metric.nodes.contains(&NodeId::ROOT))
        {
            metric.push(NodeId::ROOT, MetricValue::Int(0));
        }
        metrics.iter_mut().for_each(Metric::sort);
        metrics.retain(|metric| !metric.nodes.is_empty());
        // Nodes without metrics would be dropped.
        let mut presence = Metric::new("there".into());
        (1..nodes.len()).for_each(|index| presence.push(NodeId(index as u32), MetricValue::Int(1)));
        metrics.push(presence);
        Graph::new(Profile { nodes, metrics, ..Profile::default() })
    }

    fn labels(graph: &Graph) -> Vec<String> {
        graph.labels().iter().map(ToString::to_string).collect()
    }

    fn assert_nodes_match_columns(graph: &Graph) {
        let labels = labels(graph);
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let cells = graph.cells_by_node(&labels);
        let columns: Vec<_> = labels.iter().filter_map(|label| graph.column(label)).collect();
        assert_eq!(columns.len(), labels.len());
        for node in 0..graph.nodes().len() {
            let columns = columns.iter().enumerate();
            let expected: Vec<_> =
                columns.filter_map(|(index, cells)| Some((index, cells.get(node)?))).collect();
            // As text, since NaN in a mixed metric differs from itself.
            let found: Vec<_> = cells.node_cells(node).collect();
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "node {node}");
        }
    }

    fn value() -> impl Strategy<Value = MetricValue> {
        prop_oneof![
            8 => (-1e9..1e9).prop_map(MetricValue::Float),
            4 => (-9_i64..9).prop_map(MetricValue::Int),
            1 => any::<i64>().prop_map(MetricValue::Int),
            1 => Just(MetricValue::Float(f64::NAN)),
            1 => Just(MetricValue::Float(f64::INFINITY)),
            1 => "[a-c]".prop_map(|text| MetricValue::Text(text.into())),
            1 => vec(0_i64..9, 2).prop_map(MetricValue::Ints),
        ]
    }

    proptest! {
        #[test]
        fn values_by_node_equal_those_by_column(
            parents in vec(0_u32..4, 1..400),
            values in vec((any::<u32>(), value()), 0..90),
            metric_count in 1_usize..9,
        ) {
            assert_nodes_match_columns(&graph(&parents, values, metric_count));
        }

        #[test]
        fn sums_of_few_terms_are_grouped_like_sums_of_all(
            count in 1_usize..1000,
            sparse_values in vec((any::<prop::sample::Index>(), -1e12..1e12), 1..40),
        ) {
            let mut terms = vec![0.0; count];
            let sparse_values: BTreeMap<usize, f64> =
                sparse_values.iter().map(|(index, term)| (index.index(count), *term)).collect();
            for (&index, &term) in &sparse_values {
                terms[index] = term;
            }
            let sparse_values: Vec<(usize, f64)> = sparse_values.into_iter().collect();
            prop_assert_eq!(sum_sparse(&sparse_values, 0, count).to_bits(), sum(&mut terms).to_bits());
        }
    }

    #[test]
    fn sums_over_many_children_are_exact_to_the_last_bit() {
        let parents: Vec<u32> = (0..3000).map(|_| 1).collect();
        let real = |index: u32| MetricValue::Float(0.1 + f64::from(index) * 1e9);
        let values = (0..120).map(|index| (index * 25 + 1, real(index))).collect();
        assert_nodes_match_columns(&graph(&parents, values, 2));
    }

    #[test]
    fn a_column_that_was_set_hides_the_sums_of_a_metric() {
        let mut graph = graph(&[1; 40], vec![(3, MetricValue::Int(5))], 1);
        let cells = Cells::from_floats(vec![1.5; graph.nodes().len()]);
        graph.set_column("m0 (inc)", cells);
        assert_nodes_match_columns(&graph);
        assert_eq!(graph.cells_by_node(&["absent"]).node_cells(0).count(), 0);
    }

    #[test]
    fn metrics_with_texts_or_lists_are_not_numeric() {
        let text = MetricValue::Text("x".into());
        let values = [MetricValue::Int(1), text, MetricValue::Float(0.5), MetricValue::Int(2)];
        let graph = graph(&[1; 40], values.into_iter().map(|value| (3, value)).collect(), 4);
        let mut numeric: Vec<_> = graph.numeric_labels().into_iter().collect();
        numeric.sort();
        assert_eq!(numeric, ["m0", "m0 (inc)", "m2", "m2 (inc)", "m3", "there"]);
    }

    #[test]
    fn sums_of_whole_numbers_are_exact_whatever_their_size() {
        let exact = 1_i64 << 53;
        for values in
            [[exact - 1, 1, 0], [exact, 1, 0], [exact, 1, -5], [-exact, -1, 0], [exact, exact, 1]]
        {
            let sum = values.iter().sum();
            let values = zip(3.., values.map(MetricValue::Int)).collect();
            let graph = graph(&[1; 100], values, 1);
            assert_nodes_match_columns(&graph);
            let cells = graph.column("m0 (inc)").unwrap();
            assert_eq!(cells.get(0), Some(MetricValue::Int(sum)));
        }
    }
}
