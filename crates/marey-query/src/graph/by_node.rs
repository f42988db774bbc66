//! Columns node by node, at the cost of the values that there are.
//!
//! [`Graph::column`] has a place for every node. Of a profile in which every node has a metric of
//! its own that would be the square of what the file says.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter::zip;
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::{EXACT, Metric, NodeId, Values};

use super::column::{Cells, INCLUSIVE, add};
use super::sum::{BLOCK, LANES, sum};
use super::{Graph, Own};

/// A metric that one node in so many has is added up as a whole column.
const MANY: usize = 16;

/// The values of several columns, node by node.
pub struct CellsByNode<'a> {
    columns: Vec<Cow<'a, Metric>>,
    /// Where the places of each node start, and where the last one's end.
    starts: Vec<usize>,
    places: Vec<Place>,
}

/// Where a value is.
#[derive(Clone, Copy, Default)]
struct Place {
    column: u32,
    /// Position among the column's values.
    rank: u32,
}

impl CellsByNode<'_> {
    /// The values of a node, each with the position of its column among the labels asked for.
    pub fn of(&self, node: usize) -> impl Iterator<Item = (usize, MetricValue)> {
        self.places[self.starts[node]..self.starts[node + 1]].iter().map(|place| {
            let column = place.column as usize;
            (column, self.columns[column].values.get(place.rank as usize))
        })
    }
}

impl Graph {
    /// The columns of these labels, with the values that [`Graph::column`] gives; one that does not
    /// exist is empty.
    pub fn cells_by_node<'a>(&'a self, labels: &[&str]) -> CellsByNode<'a> {
        let known: HashMap<&str, &Own> =
            self.own.iter().map(|own| (&*own.metric.key, own)).collect();
        let terms = LazyCell::new(|| Terms::of(self));
        let columns = labels.iter().map(|label| {
            if let Some(set) = self.columns.iter().find(|column| &*column.label == *label) {
                return Cow::Owned(packed(set.label.clone(), &set.cells));
            }
            let summed = label.strip_suffix(INCLUSIVE).and_then(|key| known.get(key));
            match summed.filter(|own| own.is_inclusive) {
                Some(own) => Cow::Owned(self.sums(own, &terms)),
                None => known.get(label).map_or_else(
                    || Cow::Owned(Metric::new(Arc::from(*label))),
                    |own| Cow::Borrowed(&own.metric),
                ),
            }
        });
        by_node(columns.collect(), self.nodes.len())
    }

    /// Labels of the profile's metrics, and of their sums, that are numbers wherever they are.
    pub fn numeric(&self) -> HashSet<String> {
        let mut labels = HashSet::new();
        for Own { metric, is_inclusive } in self.own.iter().filter(|own| is_numeric(own)) {
            labels.insert(metric.key.to_string());
            if *is_inclusive {
                labels.insert(format!("{}{INCLUSIVE}", metric.key));
            }
        }
        labels
    }

    /// The metric's sums over subtrees, for the nodes that have one.
    fn sums(&self, own: &Own, terms: &Terms) -> Metric {
        let Metric { key, nodes, values } = &own.metric;
        if nodes.len() * MANY >= self.nodes.len() {
            return packed(key.clone(), &self.summed_cells(own));
        }
        let pairs = || nodes.iter().map(|node| node.index());
        match values {
            Values::Ints(wholes) if wholes.iter().all(|&whole| whole.unsigned_abs() <= EXACT) => {
                let reals = wholes.iter().map(|&whole| whole as f64);
                let (nodes, sums) = self.summed_numbers(zip(pairs(), reals), terms);
                let values = if sums.iter().any(|sum| sum.abs() > EXACT as f64) {
                    Values::Floats(sums)
                } else {
                    Values::Ints(sums.iter().map(|&sum| sum as i64).collect())
                };
                Metric { key: key.clone(), nodes, values }
            }
            Values::Floats(reals) => {
                let (nodes, sums) = self.summed_numbers(zip(pairs(), reals.iter().copied()), terms);
                Metric { key: key.clone(), nodes, values: Values::Floats(sums) }
            }
            other => {
                self.summed_values(key, pairs().enumerate().map(|(at, node)| (node, other.get(at))))
            }
        }
    }

    fn summed_numbers(
        &self,
        own: impl Iterator<Item = (usize, f64)>,
        terms: &Terms,
    ) -> (Vec<NodeId>, Vec<f64>) {
        let mut open: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (node, value) in own.filter(|(_, value)| !value.is_nan()) {
            open.insert(node, vec![(0, value)]);
        }
        let mut sums = Vec::new();
        // The nodes below another come after it.
        while let Some((at, mut parts)) = open.pop_last() {
            parts.sort_unstable_by_key(|&(place, _)| place);
            let sum = sum_of_few(&parts, 0, terms.counts[at]);
            if sum.is_nan() {
                continue;
            }
            sums.push((NodeId(at as u32), sum));
            if let Some(parent) = self.nodes[at].parent {
                open.entry(parent).or_default().push((terms.places[at], sum));
            }
        }
        sums.into_iter().rev().unzip()
    }

    /// The same for what is not all real numbers.
    fn summed_values(
        &self,
        key: &Arc<str>,
        own: impl Iterator<Item = (usize, MetricValue)>,
    ) -> Metric {
        let mut open: BTreeMap<usize, Option<MetricValue>> =
            own.map(|(node, value)| (node, Some(value))).collect();
        let mut sums = Vec::new();
        while let Some((at, sum)) = open.pop_last() {
            let Some(value) = sum else { continue };
            if let Some(parent) = self.nodes[at].parent {
                let above = open.entry(parent).or_default();
                *above = add(above.take(), value.clone(), key);
            }
            sums.push((NodeId(at as u32), value));
        }
        let (nodes, values) = sums.into_iter().rev().unzip();
        Metric { key: key.clone(), nodes, values: Values::Any(values) }
    }
}

/// The cells that have a value. Unlike in a metric that is written, none changes its type.
fn packed(key: Arc<str>, cells: &Cells) -> Metric {
    let there = (0..cells.len()).filter_map(|at| Some((NodeId(at as u32), cells.get(at)?)));
    if let Cells::Numbers { .. } = cells {
        let mut metric = Metric::new(key);
        there.for_each(|(node, value)| metric.push(node, value));
        return metric;
    }
    let (nodes, values) = there.unzip();
    Metric { key, nodes, values: Values::Any(values) }
}

/// What is added up where: a node's own value is the first term of its sum, then come those of its
/// children as the program met them.
struct Terms {
    /// The place of each node in the sum of the node above.
    places: Vec<usize>,
    /// How many terms the sum of each node has.
    counts: Vec<usize>,
}

impl Terms {
    fn of(graph: &Graph) -> Self {
        let mut first_seen: Vec<usize> = (0..graph.nodes.len()).collect();
        first_seen.sort_unstable_by_key(|&at| graph.nodes[at].seen);
        let mut terms =
            Self { places: vec![0; graph.nodes.len()], counts: vec![1; graph.nodes.len()] };
        for at in first_seen {
            if let Some(parent) = graph.nodes[at].parent {
                terms.places[at] = terms.counts[parent];
                terms.counts[parent] += 1;
            }
        }
        terms
    }
}

/// What [`sum`] gives for `count` terms of which all are nothing but these, by place. The places
/// start at `start`.
fn sum_of_few(terms: &[(usize, f64)], start: usize, count: usize) -> f64 {
    if terms.is_empty() {
        return 0.0;
    }
    if count <= BLOCK {
        let mut block = [0.0; BLOCK];
        for (place, term) in terms {
            block[place - start] = *term;
        }
        return sum(&mut block[..count]);
    }
    let half = count / 2;
    let half = half - half % LANES;
    let middle = start + half;
    let (left, right) = terms.split_at(terms.partition_point(|&(place, _)| place < middle));
    sum_of_few(left, start, half) + sum_of_few(right, middle, count - half)
}

fn by_node(columns: Vec<Cow<'_, Metric>>, node_count: usize) -> CellsByNode<'_> {
    let mut starts = vec![0; node_count + 1];
    for (node, _) in columns.iter().flat_map(|column| values_of(column)) {
        starts[node + 1] += 1;
    }
    for at in 0..node_count {
        starts[at + 1] += starts[at];
    }
    let mut next = starts.clone();
    let mut places = vec![Place::default(); starts[node_count]];
    for (column, metric) in columns.iter().enumerate() {
        for (node, rank) in values_of(metric) {
            places[next[node]] = Place { column: column as u32, rank: rank as u32 };
            next[node] += 1;
        }
    }
    CellsByNode { columns, starts, places }
}

/// Each node with a value, and the value's rank. NaN among real numbers is none.
fn values_of(metric: &Metric) -> impl Iterator<Item = (usize, usize)> {
    let is_there =
        |rank: usize| !matches!(&metric.values, Values::Floats(reals) if reals[rank].is_nan());
    let pairs = metric.nodes.iter().enumerate().map(|(rank, node)| (node.index(), rank));
    pairs.filter(move |&(_, rank)| is_there(rank))
}

fn is_numeric(own: &Own) -> bool {
    match &own.metric.values {
        Values::Ints(_) | Values::Floats(_) => true,
        Values::Texts(texts) => texts.is_empty(),
        Values::Any(values) => {
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

    /// A profile whose node `at + 1` hangs from one before it; `values` go to the metrics in turn.
    fn graph(parents: &[u32], values: Vec<(u32, MetricValue)>, metric_count: usize) -> Graph {
        let name = |at: usize| Arc::from(format!("{}", at * 7 % 11));
        let mut nodes = vec![Node { name: name(0), kind: None, parent: None }];
        // In pre-order a node hangs from the last one or from one above that.
        let mut path = vec![0];
        for (at, &up) in parents.iter().enumerate() {
            path.truncate((path.len() - up as usize % path.len()).max(1));
            let parent = path.last().copied().map(NodeId);
            path.push(at as u32 + 1);
            nodes.push(Node { name: name(at + 1), kind: None, parent });
        }
        let mut metrics: Vec<Metric> =
            (0..metric_count).map(|at| Metric::new(Arc::from(format!("m{at}")))).collect();
        for (at, (node, value)) in values.into_iter().enumerate() {
            let metric = &mut metrics[at % metric_count];
            let node = NodeId(node % nodes.len() as u32);
            if !metric.nodes.contains(&node) {
                metric.push(node, value);
            }
        }
        // Every other one is added up.
        for metric in metrics.iter_mut().step_by(2).filter(|m| !m.nodes.contains(&NodeId::ROOT)) {
            metric.push(NodeId::ROOT, MetricValue::Int(0));
        }
        metrics.iter_mut().for_each(Metric::sort);
        metrics.retain(|metric| !metric.nodes.is_empty());
        // A node without metrics would not be shown.
        let mut there = Metric::new("there".into());
        (1..nodes.len()).for_each(|at| there.push(NodeId(at as u32), MetricValue::Int(1)));
        metrics.push(there);
        Graph::new(Profile { nodes, metrics, ..Profile::default() })
    }

    fn labels(graph: &Graph) -> Vec<String> {
        graph.labels().iter().map(ToString::to_string).collect()
    }

    fn check(graph: &Graph) {
        let labels = labels(graph);
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let cells = graph.cells_by_node(&labels);
        let columns: Vec<_> = labels.iter().filter_map(|label| graph.column(label)).collect();
        assert_eq!(columns.len(), labels.len());
        for node in 0..graph.nodes().len() {
            let places = columns.iter().enumerate();
            let expected: Vec<_> =
                places.filter_map(|(at, cells)| Some((at, cells.get(node)?))).collect();
            // NaN in a mixed metric differs from itself.
            let found: Vec<_> = cells.of(node).collect();
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
        fn values_are_those_of_the_columns(
            parents in vec(0_u32..4, 1..400),
            values in vec((any::<u32>(), value()), 0..90),
            metric_count in 1_usize..9,
        ) {
            check(&graph(&parents, values, metric_count));
        }

        #[test]
        fn few_terms_are_grouped_as_all_are(
            count in 1_usize..1000,
            few in vec((any::<prop::sample::Index>(), -1e12..1e12), 1..40),
        ) {
            let mut terms = vec![0.0; count];
            let few: BTreeMap<usize, f64> =
                few.iter().map(|(at, term)| (at.index(count), *term)).collect();
            for (&at, &term) in &few {
                terms[at] = term;
            }
            let few: Vec<(usize, f64)> = few.into_iter().collect();
            prop_assert_eq!(sum_of_few(&few, 0, count).to_bits(), sum(&mut terms).to_bits());
        }
    }

    #[test]
    fn a_wide_family_is_added_up_to_the_last_bit() {
        let parents: Vec<u32> = (0..3000).map(|_| 1).collect();
        let real = |at: u32| MetricValue::Float(0.1 + f64::from(at) * 1e9);
        let values = (0..120).map(|at| (at * 25 + 1, real(at))).collect();
        check(&graph(&parents, values, 2));
    }

    #[test]
    fn a_sum_beyond_what_a_real_number_holds_is_a_real_one() {
        let half = MetricValue::Int(1 << 53);
        check(&graph(&[1; 100], vec![(3, half.clone()), (4, half)], 1));
    }

    #[test]
    fn a_column_that_was_set_hides_the_metric() {
        let mut graph = graph(&[1; 40], vec![(3, MetricValue::Int(5))], 1);
        let cells = Cells::real(vec![1.5; graph.nodes().len()]);
        graph.set_column("m0 (inc)", cells);
        check(&graph);
        assert_eq!(graph.cells_by_node(&["absent"]).of(0).count(), 0);
    }

    #[test]
    fn numeric_are_metrics_without_texts_and_lists() {
        let text = MetricValue::Text("x".into());
        let values = [MetricValue::Int(1), text, MetricValue::Float(0.5), MetricValue::Int(2)];
        let graph = graph(&[1; 40], values.into_iter().map(|value| (3, value)).collect(), 4);
        let mut numeric: Vec<_> = graph.numeric().into_iter().collect();
        numeric.sort();
        assert_eq!(numeric, ["m0", "m0 (inc)", "m2", "m2 (inc)", "m3", "there"]);
    }
}
