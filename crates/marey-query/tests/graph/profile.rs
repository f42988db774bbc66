//! Graphs that are converted back to profiles.

use marey_query::graph::{Cells, Graph};

use crate::{graph, profile};

const SAMPLE: &str = "
ROOT time~(ns)=0
  z
    k time~(ns)=5 stream=1
  a time~(ns)=7
";

#[test]
fn a_profile_that_was_read_is_written_in_its_original_order() {
    let written = graph(SAMPLE).to_profile();
    assert_eq!(written.check(), Ok(()));
    assert_eq!(written, profile(SAMPLE));
}

#[test]
fn a_derived_column_is_written_without_the_mark_of_a_sum() {
    let mut graph = graph(SAMPLE);
    let label = graph.derive(&["time/ns"]).unwrap().labels.remove(0);
    let round_trip = Graph::new(graph.to_profile());
    assert_eq!(round_trip.numbers("time (ns) (inc)"), graph.numbers("time (ns) (inc)"));
    let cells = round_trip.numbers(&label).unwrap();
    assert!(cells[0].is_nan());
    assert_eq!(cells[1..], graph.numbers(&label).unwrap()[1..]);
}

#[test]
fn several_roots_or_a_root_with_own_values_get_a_new_root() {
    let graph = graph(SAMPLE);
    let below_root = graph.squash(&[false, true, true, true]).to_profile();
    assert_eq!(below_root.check(), Ok(()));
    assert_eq!(below_root.nodes.len(), 4);
    assert_eq!(below_root.metrics, profile(SAMPLE).metrics);
    let kernel = graph.squash(&[false, false, false, true]).to_profile();
    let names: Vec<&str> = kernel.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["ROOT", "k"]); // `stream` on the root would be summed
    assert_eq!(kernel.metric("stream"), profile("ROOT\n  k stream=1").metric("stream"));
}

#[test]
fn a_sum_that_was_set_is_not_written() {
    let mut graph = graph(SAMPLE);
    graph.set_column("time (ns) (inc)", Cells::Numbers { values: vec![1.0; 4], are_whole: false });
    assert_eq!(graph.to_profile(), profile(SAMPLE));
}
