//! Nodes and their columns, as read and as changed.

use marey_model::metric::MetricValue;
use marey_model::profile::Device;
use marey_query::graph::{Cells, Graph, NameStyle};

use crate::{STEP, graph, keys, profile, show};

#[test]
fn siblings_are_sorted_by_name_and_metrics_on_the_root_are_summed() {
    let graph = graph(STEP);
    assert_eq!(
        show(&graph, &["time(ns) (inc)", "time(ns)", "count (inc)", "note"]),
        "ROOT 100 0 10 -
  step 100 - 10 -
    backward 59 - 6 -
      matmul 59 59 6 -
    forward 41 1 4 hello
      add 10 10 1 -
      matmul 30 30 3 -
"
    );
    assert_eq!(keys(&graph.inclusive()), ["time(ns)", "count"]);
    assert_eq!(keys(&graph.exclusive()), ["note"]);
    let creation_ranks: Vec<usize> = graph.nodes().iter().map(|node| node.creation_rank).collect();
    assert_eq!(creation_ranks, [0, 1, 5, 6, 2, 4, 3]);
    assert_eq!(graph.children(Some(1)).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(graph.children(None).collect::<Vec<_>>(), [0]);
}

#[test]
fn launch_metadata_and_empty_leaves_are_left_out() {
    let some = graph(
        "
ROOT
  empty
    emptier
  measured time(ns)=5
    __proton_launch_metadata:k
      k time(ns)=7
  __proton_launch_metadata
    k time(ns)=9
  __proton_launch_metadata_like time(ns)=1
",
    );
    assert_eq!(
        show(&some, &["time(ns)"]),
        "ROOT -\n  __proton_launch_metadata_like 1\n  measured 5\n"
    );
    assert_eq!(show(&Graph::new(profile("ROOT")), &[]), "ROOT\n");
    let dropped = graph("ROOT\n  __proton_launch_metadata\n    k a=1 b=1\n  k b=1 c=1\n");
    assert_eq!(keys(&dropped.exclusive()), ["b", "c"]);
}

#[test]
fn a_metric_named_like_the_sums_of_another_does_not_hide_them() {
    let graph = graph("ROOT t=0\n  k t=5 t~(inc)=99\n");
    assert_eq!(graph.numbers("t (inc)").unwrap(), [5.0, 5.0]);
}

#[test]
fn whole_numbers_beyond_2_to_the_53_stay_exact() {
    let big = (1_i64 << 53) + 1;
    let graph = graph(&format!("ROOT stamp={big}\n  a stamp=1\n"));
    assert_eq!(graph.column("stamp").unwrap().get(0), Some(MetricValue::Int(big)));
    assert_eq!(graph.column("stamp (inc)").unwrap().get(0), Some(MetricValue::Int(big + 1)));
}

#[test]
fn sums_of_whole_numbers_are_exact_and_stay_in_64_bits() {
    let sum = |first: i64, second: i64| {
        let graph = graph(&format!("ROOT n=0\n  a n={first}\n  b n={second}\n"));
        graph.column("n (inc)").unwrap().get(0)
    };
    let odd = (1_i64 << 53) + 1;
    assert_eq!(sum(odd - 1, 1), Some(MetricValue::Int(odd)));
    assert_eq!(sum(i64::MAX, 1), Some(MetricValue::Int(i64::MAX)));
}

#[test]
fn whole_and_real_numbers_of_one_metric_are_added() {
    // The metric is mixed because of a number that no real number represents.
    let big = (1_i64 << 53) + 1;
    for (first, second) in [("0.5", "3"), ("3", "0.5")] {
        let text = format!("ROOT n=0\n  a n={big}\n  x\n    b n={first}\n    c n={second}\n");
        let sum = graph(&text).column("n (inc)").unwrap().get(2);
        assert_eq!(sum, Some(MetricValue::Float(3.5)), "{first} {second}");
    }
}

#[test]
fn columns_can_be_set_and_names_shown_in_another_style() {
    let mut graph = graph("ROOT n=0\n  /a/f.py:3@g n=1\n");
    graph.set_column("n", Cells::Numbers { values: vec![0.0, 5.0], are_whole: true });
    graph.set_column("extra", Cells::Numbers { values: vec![1.0, f64::NAN], are_whole: false });
    graph.style_names(NameStyle::FileFunction);
    assert_eq!(show(&graph, &["n (inc)", "extra"]), "ROOT@ROOT 5 1.0\n  f.py@g 5 -\n");
    assert_eq!(&*graph.nodes()[1].profile_name, "/a/f.py:3@g");
}

#[test]
fn devices_and_names_can_be_replaced() {
    let mut profile = profile("ROOT n=0\n  k n=1\n");
    profile.devices = vec![Device { id: "3".into(), ..Device::default() }];
    profile.meta.version = Some(7);
    let mut graph = Graph::new(profile);
    assert_eq!((graph.devices()[0].id.as_str(), graph.meta().version), ("3", Some(7)));
    graph.set_devices(Vec::new());
    assert!(graph.devices().is_empty());
    graph.set_names(["all", "kernel"].into_iter().map(Into::into));
    assert_eq!(show(&graph, &["n (inc)"]), "all 1\n  kernel 1\n");
}
