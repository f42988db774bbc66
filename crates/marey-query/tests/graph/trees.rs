//! Properties of all graphs.

use marey_model::metric::MetricValue;
use marey_model::profile::{Metric, Node, NodeId, Profile};
use marey_query::graph::{ColumnOperator, Graph, Side};
use proptest::prelude::*;

fn trees() -> impl Strategy<Value = Profile> {
    let node = (0..1000_usize, 0..4_u8, proptest::option::of(-100..100_i64));
    proptest::collection::vec(node, 0..60).prop_map(|nodes| {
        // Children of random nodes, then sorted into pre-order.
        let mut children: Vec<Vec<usize>> = vec![Vec::new()];
        for (index, (parent, ..)) in nodes.iter().enumerate() {
            children.push(Vec::new());
            children[parent % (index + 1)].push(index + 1);
        }
        let mut profile = Profile::default();
        let mut metric = Metric::new("n".into());
        let mut pending = vec![(0, None)];
        while let Some((index, parent)) = pending.pop() {
            let id = NodeId(profile.nodes.len() as u32);
            let (name, value) = match index {
                0 => ("ROOT".to_owned(), Some(0)),
                index => (format!("f{}", nodes[index - 1].1), nodes[index - 1].2),
            };
            profile.nodes.push(Node { name: name.as_str().into(), kind: None, parent });
            if let Some(value) = value {
                metric.push(id, MetricValue::Int(value));
            }
            pending.extend(children[index].iter().rev().map(|&child| (child, Some(id))));
        }
        profile.metrics.push(metric);
        profile.check().unwrap();
        profile
    })
}

fn assert_is_preorder(graph: &Graph) {
    for (index, node) in graph.nodes().iter().enumerate() {
        assert!(node.parent.is_none_or(
            |parent| parent < index && graph.nodes()[parent].subtree_end >= node.subtree_end
        ));
        assert!(node.subtree_end > index && node.subtree_end <= graph.nodes().len());
        let names: Vec<&str> =
            graph.children(Some(index)).map(|child| &*graph.nodes()[child].profile_name).collect();
        assert!(names.is_sorted());
        assert!(
            graph.children(Some(index)).all(|child| graph.nodes()[child].parent == Some(index))
        );
    }
}

proptest! {
    #[test]
    fn the_root_has_the_sum_of_all_values(profile in trees()) {
        let graph = Graph::new(profile.clone());
        assert_is_preorder(&graph);
        let total: f64 = profile.metrics[0].nodes.iter().map(|&node| match profile.metrics[0].get(node) {
            Some(MetricValue::Int(value)) => value as f64,
            other => panic!("{other:?}"),
        }).sum();
        prop_assert_eq!(graph.numbers("n (inc)").unwrap()[0].to_bits(), (total + 0.0).to_bits());
    }

    #[test]
    fn squashing_any_nodes_keeps_the_sum_of_the_others(profile in trees(), seed in any::<u64>()) {
        let graph = Graph::new(profile.clone());
        let is_kept: Vec<bool> =
            (0..graph.nodes().len()).map(|index| seed.rotate_left(index as u32 * 7) & 1 == 1).collect();
        let squashed = graph.squash(&is_kept);
        assert_is_preorder(&squashed);
        let sum = |graph: &Graph, keep: &dyn Fn(usize) -> bool| -> f64 {
            let values = graph.numbers("n").unwrap();
            values.iter().enumerate().filter(|(index, value)| keep(*index) && !value.is_nan()).map(|(_, value)| value).sum()
        };
        let (kept, chosen) = (sum(&squashed, &|_| true), sum(&graph, &|index| is_kept[index]));
        prop_assert!((kept - chosen).abs() < 1e-9);
        prop_assert!(squashed.nodes().len() <= is_kept.iter().filter(|is_kept| **is_kept).count());
    }

    #[test]
    fn a_union_has_the_nodes_of_both_and_a_graph_minus_itself_is_zero(a in trees(), b in trees()) {
        let (a, b) = (Graph::new(a), Graph::new(b));
        let combined = a.combine(&b, ColumnOperator::Add, None);
        assert_is_preorder(&combined);
        let only = |side| combined.nodes().iter().filter(|node| node.side == side).count();
        prop_assert_eq!(a.nodes().len(), only(Side::Both) + only(Side::Left));
        prop_assert_eq!(b.nodes().len(), only(Side::Both) + only(Side::Right));
        let zero = a.combine(&a, ColumnOperator::Subtract, None);
        prop_assert!(zero.nodes().iter().all(|node| node.side == Side::Both));
        prop_assert!(zero.numbers("n (inc)").unwrap().iter().all(|value| value.is_nan() || *value == 0.0));
    }
}
