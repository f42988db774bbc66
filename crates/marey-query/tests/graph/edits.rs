//! Columns that users set, remove and combine.

use marey_model::metric::MetricValue;
use marey_query::graph::{
    Cells, ColumnOperator, Filter, FilterError, Graph, MetricError, Threshold,
};

const SUMS: &str = "time (ns) (inc)";

/// `ROOT` with the children `a` and `b`, with these times, and `stalled_long_scoreboard` on `a`.
fn graph(a: i64, b: i64) -> Graph {
    crate::graph(&format!(
        "ROOT time~(ns)=0\n  a time~(ns)={a} stalled_long_scoreboard=9\n  b time~(ns)={b}"
    ))
}

#[test]
fn sums_that_were_set_are_kept_until_they_are_recomputed() {
    let mut changed = graph(1, 2);
    changed.set_column(SUMS, Cells::Numbers { values: vec![7.0; 3], are_whole: true });
    assert_eq!(changed.numbers(SUMS).unwrap(), [7.0; 3]);
    let only_a = Filter { include: Some("a".into()), ..Filter::default() };
    assert_eq!(changed.filter(&only_a, "").unwrap().numbers(SUMS).unwrap(), [1.0, 1.0]);
    changed.set_column("time (ns)", Cells::Values(vec![None, Some(MetricValue::Int(5)), None]));
    changed.update_sums();
    assert_eq!(changed.numbers(SUMS).unwrap()[..2], [5.0, 5.0]);
}

#[test]
fn removing_a_metric_keeps_its_sums_and_the_other_way_around() {
    let mut without_metric = graph(1, 2);
    without_metric.remove_column("time (ns)");
    assert!(without_metric.column("time (ns)").is_none());
    assert_eq!(without_metric.numbers(SUMS).unwrap(), [3.0, 1.0, 2.0]);
    let mut without_sums = graph(1, 2);
    without_sums.remove_column(SUMS);
    assert!(without_sums.column(SUMS).is_none());
    assert_eq!(without_sums.numbers("time (ns)").unwrap(), [0.0, 1.0, 2.0]);
    assert!(without_sums.inclusive().is_empty());
}

#[test]
fn a_filter_recomputes_the_sums_of_a_combined_metric() {
    let sum = graph(1, 2).combine(&graph(10, 20), ColumnOperator::Add, None);
    assert_eq!(sum.numbers(SUMS).unwrap(), [33.0, 11.0, 22.0]);
    let only_a = Filter { include: Some("a".into()), ..Filter::default() };
    assert_eq!(sum.filter(&only_a, "").unwrap().numbers(SUMS).unwrap(), [11.0, 11.0]);
    assert_eq!(sum.to_profile().check(), Ok(()));
}

#[test]
fn passing_applies_all_conditions_without_recomputing_sums() {
    let graph = graph(1, 2);
    let filter = |include: &str, limit| Filter {
        include: Some(include.into()),
        threshold: Some(Threshold::Value(limit)),
        ..Filter::default()
    };
    assert_eq!(graph.passing_nodes(&filter("a|b", 2.0), SUMS).unwrap(), [true, false, true]);
    // With recomputed sums the root would have 1.
    assert_eq!(graph.passing_nodes(&filter("a", 3.0), SUMS).unwrap(), [true, false, false]);
    let empty = graph.passing_nodes(&filter("b", 4.0), SUMS);
    assert!(matches!(empty, Err(FilterError::Empty { .. })));
}

#[test]
fn stall_reasons_are_found_by_their_documented_names() {
    let mut graph = graph(1, 2);
    let derived = graph.derive(&["StalledLongScoreboard", "StalledMemoryDependency"]).unwrap();
    assert_eq!(derived.labels, ["stalled_long_scoreboard"; 2]);
    let unknown = graph.derive(&["StalledNowhere"]);
    assert!(matches!(unknown, Err(MetricError::Unknown { .. })));
}

/// A column with this value on each of the three nodes.
fn filled(value: f64) -> Cells {
    Cells::Numbers { values: vec![value; 3], are_whole: false }
}

#[test]
fn removing_a_column_keeps_the_others() {
    let mut graph = graph(1, 2);
    graph.set_column("x", filled(1.0));
    graph.set_column("y", filled(2.0));
    graph.remove_column("x");
    assert!(graph.column("x").is_none());
    assert_eq!(graph.numbers("y").unwrap(), [2.0; 3]);
    // Not summed into parents, so there are no sums to keep.
    graph.remove_column("stalled_long_scoreboard");
    assert!(graph.column("stalled_long_scoreboard (inc)").is_none());
}

#[test]
fn sums_that_were_set_remain_when_their_metric_is_removed() {
    for (label, sums) in [(SUMS, [7.0; 3]), ("x", [3.0, 1.0, 2.0])] {
        let mut graph = graph(1, 2);
        graph.set_column(label, filled(7.0));
        graph.remove_column("time (ns)");
        assert_eq!(graph.numbers(SUMS).unwrap(), sums, "{label}");
    }
}
