//! Small graphs for the tests of `marey view`.

use marey_model::metric::MetricValue;
use marey_model::profile::{Metric, Node, NodeId, Profile};
use marey_query::graph::Graph;

/// Returns ROOT with the children `c`, `a` and `b` in the order of recording, and `x` below `a`.
/// The orders by name, by recording and by `time (ns)` all differ.
pub(super) fn graph() -> Graph {
    let mut time = Metric::new("time (ns)".into());
    for (node, value) in [(1, 2.0), (2, 1.0), (3, 4.5), (4, 3.0)] {
        time.push(NodeId(node), MetricValue::Float(value));
    }
    let mut note = Metric::new("note".into());
    note.push(NodeId(2), MetricValue::Text("a\tb".into()));
    let mut shape = Metric::new("shape".into());
    shape.push(NodeId(3), MetricValue::Ints(vec![8, 128]));
    Graph::new(Profile {
        nodes: tree(&[
            ("ROOT", None),
            ("c", Some(0)),
            ("a", Some(0)),
            ("x", Some(2)),
            ("b", Some(0)),
        ]),
        metrics: vec![time, note, shape],
        ..Profile::default()
    })
}

/// Returns ROOT with one child of this name.
pub(super) fn named(name: &str) -> Graph {
    let mut count = Metric::new("count".into());
    count.push(NodeId(1), MetricValue::Int(1));
    Graph::new(Profile {
        nodes: tree(&[("ROOT", None), (name, Some(0))]),
        metrics: vec![count],
        ..Profile::default()
    })
}

fn tree(nodes: &[(&str, Option<u32>)]) -> Vec<Node> {
    let node = |&(name, parent): &(&str, Option<u32>)| Node {
        name: name.into(),
        kind: None,
        parent: parent.map(NodeId),
    };
    nodes.iter().map(node).collect()
}
