//! Two graphs as one: differences, ratios, columns side by side.

use marey_model::metric::MetricValue;
use marey_query::graph::{Cells, ColumnOperator, DifferenceLabels, Side, side_by_side};

use crate::{STEP, graph, keys, show};

const LATER: &str = "
ROOT time(ns)=0 count=0
  step
    forward time(ns)=2
      matmul time(ns)=20 count=3
      fused time(ns)=5 count=1
";

#[test]
fn combining_marks_sides_by_hatchets_rules() {
    let labels = ["time(ns) (inc)".to_owned()];
    let difference = graph(LATER).combine(&graph(STEP), ColumnOperator::Subtract, Some(&labels));
    assert_eq!(
        show(&difference, &["time(ns) (inc)"]),
        "ROOT -73.0
  step -73.0
    backward - >
      matmul - >
    forward -14.0
      add - >
      fused 5.0 <
      matmul -10.0
"
    );
    let all = graph(LATER).combine(&graph(STEP), ColumnOperator::Divide, None);
    assert_eq!(all.numbers("time(ns)").unwrap()[4].to_bits(), 2.0_f64.to_bits());
    assert!(all.column("note").unwrap().get(4).is_some());
}

#[test]
fn a_difference_has_both_values_their_difference_and_ratio() {
    let labels = ["time(ns) (inc)".to_owned()];
    let changed = graph(LATER).difference(&graph(STEP), &labels);
    let DifferenceLabels { before, after, difference, ratio } = DifferenceLabels::new(&labels[0]);
    assert_eq!(
        show(&changed, &[&before, &after, &difference, &ratio]),
        "ROOT 100.0 27.0 -73.0 0.27
  step 100.0 27.0 -73.0 0.27
    backward 59.0 - -59.0 - >
      matmul 59.0 - -59.0 - >
    forward 41.0 27.0 -14.0 0.6585365853658537
      add 10.0 - -10.0 - >
      fused - 5.0 5.0 - <
      matmul 30.0 20.0 -10.0 0.6666666666666666
"
    );
}

#[test]
fn side_by_side_graphs_have_a_column_per_graph() {
    let combined =
        side_by_side(&[("a", &graph(STEP)), ("b", &graph(LATER))], &["count (inc)".into()]);
    assert_eq!(
        show(&combined, &["a: count (inc)", "b: count (inc)"]).lines().skip(4).collect::<Vec<_>>(),
        ["    forward 4 4", "      add 1 - <", "      fused - 1 >", "      matmul 3 3"]
    );
}

#[test]
fn a_combination_with_another_graph_applies_the_operator_to_each_node() {
    let (later, step) = (graph(LATER), graph(STEP));
    for (operator, expected) in [
        (ColumnOperator::Add, 50.0),
        (ColumnOperator::Subtract, -10.0),
        (ColumnOperator::Multiply, 600.0),
        (ColumnOperator::Divide, 20.0 / 30.0),
    ] {
        let combined = later.combine(&step, operator, Some(&["time(ns)".into()]));
        let node = combined.nodes().iter().rposition(|node| &*node.name == "matmul").unwrap();
        let value: f64 = combined.numbers("time(ns)").unwrap()[node];
        assert_eq!(value.to_bits(), f64::to_bits(expected), "{operator:?}");
    }
}

#[test]
fn metrics_of_either_graph_stay_metrics_in_a_combination_of_all_columns() {
    let mut left = graph("ROOT a=0\n  k a=1 own=2\n");
    left.set_column("set", Cells::Numbers { values: vec![f64::NAN, 7.0], are_whole: false });
    let right = graph("ROOT b=0\n  k b=3\n");
    let all = left.combine(&right, ColumnOperator::Add, None);
    assert_eq!(keys(&all.inclusive()), ["a", "b"]);
    assert_eq!(keys(&all.exclusive()), ["own"]);
    assert_eq!(all.numbers("set").unwrap()[1].to_bits(), 7.0_f64.to_bits());
    let one = left.combine(&right, ColumnOperator::Add, Some(&["a".into()]));
    assert!(one.inclusive().is_empty() && one.exclusive().is_empty());
    assert_eq!(one.numbers("a").unwrap()[1].to_bits(), 1.0_f64.to_bits());
}

#[test]
fn graphs_lack_a_column_that_only_one_of_them_derived_or_set() {
    let mut derived = graph(STEP);
    derived.derive(&["time/ms"]).unwrap();
    derived.set_column("texts", Cells::Values(vec![Some(MetricValue::Text("x".into())); 7]));
    let plain = graph("ROOT time(ns)=0\n  k time(ns)=1 bytes=1\n");
    for (labels, expected) in [
        (vec!["time(ns) (inc)", "time/ms (inc)", "absent"], Some(("time/ms (inc)", Side::Right))),
        (vec!["absent"], Some(("absent", Side::Both))),
        (vec!["time(ns) (inc)", "time(ns)", "count", "count (inc)", "bytes", "texts"], None),
    ] {
        let expected = expected.map(|(label, side)| (label.to_owned(), side));
        let mirrored = expected.clone().map(|(label, side)| match side {
            Side::Right => (label, Side::Left),
            other => (label, other),
        });
        assert_eq!(derived.find_incompatible_label(&plain, &labels), expected, "{labels:?}");
        assert_eq!(plain.find_incompatible_label(&derived, &labels), mirrored, "{labels:?}");
    }
}
