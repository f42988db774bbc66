//! The behaviour of graphs that viewers rely on, by example and by property.

#![expect(clippy::unwrap_used, reason = "a panic fails the test at the right line")]

use std::fmt::Write;

use marey_model::metric::MetricValue;
use marey_model::profile::{Device, Metric, Node, NodeId, Profile};
use marey_query::graph::{
    Cells, DifferenceLabels, Filter, FilterError, Graph, MetricError, NameStyle, Operator, Side,
    Threshold, side_by_side,
};
use proptest::prelude::*;

/// A profile from lines `name metric=value …`, two spaces per level. Words are texts, `~` is a
/// space.
fn profile(text: &str) -> Profile {
    let mut profile = Profile::default();
    let mut path: Vec<NodeId> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let mut words = line.split_whitespace();
        let id = NodeId(profile.nodes.len() as u32);
        path.truncate(depth);
        let name = words.next().unwrap().into();
        profile.nodes.push(Node { name, kind: None, parent: path.last().copied() });
        path.push(id);
        for word in words {
            let word = word.replace('~', " ");
            let (key, value) = word.split_once('=').unwrap();
            let value = value
                .parse()
                .map(MetricValue::Int)
                .or_else(|_| value.parse().map(MetricValue::Float))
                .unwrap_or_else(|_| MetricValue::Text(value.into()));
            let known = profile.metrics.iter().position(|metric| &*metric.key == key);
            let index = known.unwrap_or_else(|| {
                profile.metrics.push(Metric::new(key.into()));
                profile.metrics.len() - 1
            });
            profile.metrics[index].push(id, value);
        }
    }
    profile.check().unwrap();
    profile
}

fn graph(text: &str) -> Graph {
    Graph::new(profile(text))
}

/// Every node with its columns, two spaces per level.
fn show(graph: &Graph, labels: &[&str]) -> String {
    let columns: Vec<Cells> = labels.iter().map(|label| graph.column(label).unwrap()).collect();
    let mut text = String::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        write!(text, "{}{}", "  ".repeat(node.depth), node.name).unwrap();
        for column in &columns {
            match column.get(index) {
                None => text.push_str(" -"),
                Some(MetricValue::Int(value)) => write!(text, " {value}").unwrap(),
                Some(MetricValue::Float(value)) => write!(text, " {value:?}").unwrap(),
                Some(MetricValue::Text(value)) => write!(text, " {value}").unwrap(),
                Some(list) => write!(text, " {list:?}").unwrap(),
            }
        }
        let side = match node.side {
            Side::Both => "",
            Side::Left => " <",
            Side::Right => " >",
        };
        writeln!(text, "{side}").unwrap();
    }
    text
}

const STEP: &str = "
ROOT time(ns)=0 count=0
  step
    forward time(ns)=1 note=hello
      matmul time(ns)=30 count=3
      add time(ns)=10 count=1
    backward
      matmul time(ns)=59 count=6
";

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
    assert_eq!(
        graph.inclusive().iter().map(|key| &**key).collect::<Vec<_>>(),
        ["time(ns)", "count"]
    );
    assert_eq!(graph.exclusive().iter().map(|key| &**key).collect::<Vec<_>>(), ["note"]);
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
    assert_eq!(dropped.exclusive().iter().map(|key| &**key).collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn times_rates_averages_and_shares_follow_their_formulas() {
    let mut graph = graph(
        "
ROOT time(us)=0 count=0 bytes=0 flops16=0
  k time(us)=2000 count=4 bytes=6000000000 flops16=1e12 cpu_time(ms)=8 wait(s)=3
  l time(us)=2000 count=4 bytes=2000000000 flops16=3e12 wait(s)=1
",
    );
    let requested = [
        "time/ms",
        "avg_time/us",
        "gbyte/s",
        "TFLOP16/s",
        "time/%",
        "cpu_time/s",
        "wait/%",
        "wait/ms",
        "Count",
        "bytes",
    ];
    let derived = graph.derive(&requested).unwrap();
    assert_eq!(
        derived.labels,
        [
            "time/ms (inc)",
            "avg_time/us (inc)",
            "gbyte/s (inc)",
            "tflop16/s (inc)",
            "time/% (inc)",
            "cpu_time/s (inc)",
            "wait/%",
            "wait/ms",
            "count (inc)",
            "bytes (inc)",
        ]
    );
    // Operations are in Proton's order, which is not the one with the least rounding.
    let rounded = |label: &str| -> Vec<f64> {
        graph.numbers(label).unwrap().iter().map(|value| (value * 1e9).round() / 1e9).collect()
    };
    assert_eq!(rounded("time/ms (inc)"), [4.0, 2.0, 2.0]);
    assert_eq!(rounded("avg_time/us (inc)"), [500.0, 500.0, 500.0]);
    assert_eq!(rounded("gbyte/s (inc)"), [2000.0, 3000.0, 1000.0]);
    assert_eq!(rounded("tflop16/s (inc)"), [1000.0, 500.0, 1500.0]);
    assert_eq!(rounded("time/% (inc)"), [100.0, 50.0, 50.0]);
    assert_eq!(rounded("cpu_time/s (inc)")[1].to_bits(), 0.008_f64.to_bits());
    assert_eq!(rounded("wait/%")[1..], [75.0, 25.0]);
    assert_eq!(rounded("wait/ms")[1..], [3000.0, 1000.0]);
}

#[test]
fn short_names_resolve_to_the_closest_metric_of_the_profile() {
    let mut gpu = graph(STEP);
    let labels = gpu.derive(&["total", "self", "calls"]).unwrap().labels;
    assert_eq!(labels, ["time(ns) (inc)", "time(ns)", "count (inc)"]);
    let mut host = graph(
        "
ROOT tokens=0
  a tokens=4 wall_count=2 wall_total~(ns)=20 wall_p50(ns)=9
",
    );
    let labels = host.derive(&["calls", "count", "TOKENS", "tokens/%"]).unwrap().labels;
    assert_eq!(labels, ["wall_count", "wall_count", "tokens (inc)", "tokens/% (inc)"]);
}

#[test]
fn shares_of_wall_totals_refer_to_the_top_level() {
    let mut graph = graph(
        "
ROOT
  a wall_total~(ns)=80 wall_self~(ns)=30
    b wall_total~(ns)=50 wall_self~(ns)=50
  c wall_total~(ns)=20 wall_self~(ns)=20
",
    );
    let labels = graph.derive(&["total/%", "self/%", "total/us", "wall_total/%"]).unwrap().labels;
    let numbers = |label: &str| graph.numbers(label).unwrap();
    assert_eq!(numbers("total/%")[1..], [80.0, 50.0, 20.0]);
    assert_eq!(numbers("self/%")[1..], [30.0, 50.0, 20.0]);
    // Under its full name, the metric has the same share as in Proton's viewer.
    assert!((numbers("wall_total/%")[1] - 80.0 / 1.5).abs() < 1e-9);
    let reaching = Filter { threshold: Some(Threshold::Percent(45.0)), ..Filter::default() };
    for label in ["total/%", "total/us", "wall_total (ns)", "wall_total/%"] {
        let filtered = graph.filter(&reaching, label).unwrap();
        assert_eq!(filtered.nodes().len(), 3, "{label} {labels:?}");
    }
    let nearest = |graph: &mut Graph, metric: &str| match graph.derive(&[metric]) {
        Err(MetricError::Unknown { nearest, .. }) => nearest,
        other => panic!("{other:?}"),
    };
    assert_eq!(nearest(&mut graph, "time/ms"), ["total", "self"]);
    assert!(!nearest(&mut graph, "total/%/%").contains(&"total/%".to_owned()));
}

#[test]
fn a_metric_of_the_file_is_shown_if_its_name_cannot_be_derived() {
    let mut host = graph("ROOT\n  step util=0.5 gbyte/s=7\n");
    assert_eq!(host.derive(&["util", "gbyte/s"]).unwrap().labels, ["util", "gbyte/s"]);
    let mut gpu = graph(
        "
ROOT time(ns)=0 bytes=0
  k time(ns)=2 bytes=6 gbyte/s=1
",
    );
    assert_eq!(gpu.derive(&["gbyte/s"]).unwrap().labels, ["gbyte/s (inc)"]);
    for (requested, needed) in
        [("tflop/s", "flops"), ("avg_time/ms", "count"), ("cpu_time/s", "cpu_time")]
    {
        match gpu.derive(&[requested]) {
            Err(MetricError::Unknown { metric, needed_by: Some(needed_by), .. }) => {
                assert_eq!((metric.as_str(), needed_by.as_str()), (needed, requested));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(gpu.derive(&["avg_avg_time/us"]).is_err());
}

#[test]
fn a_metric_named_like_the_sums_of_another_does_not_hide_them() {
    let graph = graph("ROOT t=0\n  k t=5 t~(inc)=99\n");
    assert_eq!(graph.numbers("t (inc)").unwrap(), [5.0, 5.0]);
}

#[test]
fn a_share_of_a_metric_without_sums_refers_to_all_nodes() {
    let mut graph = graph("ROOT\n  a time~(ns)=90\n  b time~(ns)=10\n");
    let label = graph.derive(&["time/us"]).unwrap().labels.remove(0);
    let reaching = Filter { threshold: Some(Threshold::Percent(50.0)), ..Filter::default() };
    assert_eq!(graph.filter(&reaching, &label).unwrap().nodes().len(), 2);
}

#[test]
fn a_derived_metric_can_be_written_and_derived_again() {
    let mut graph = graph(STEP);
    let label = graph.derive(&["time/%"]).unwrap().labels.remove(0);
    let mut round_trip = Graph::new(graph.to_profile());
    round_trip.derive(&["time/%"]).unwrap();
    let twice = round_trip.to_profile();
    twice.check().unwrap();
    assert_eq!(twice.metrics.iter().filter(|metric| *metric.key == *label).count(), 1);
}

#[test]
fn patterns_have_pythons_syntax() {
    let graph = graph("ROOT\n  f<float>\n    leaf n=1\n  a[b] n=1\n  a&~b n=1\n  x] n=1\n");
    for (pattern, name) in [
        (r"\w\<float\>", "f<float>"),
        (r"a[[]b", "a[b]"),
        (r"[a-z[]+b\]\Z", "a[b]"),
        (r"a[&&~]{2}b", "a&~b"),
        (r"x[]]", "x]"),
        (r"x[^]a]|x\]", "x]"),
        (r"(?P<first>a)\[", "a[b]"),
    ] {
        let include = Filter { include: Some(pattern.into()), ..Filter::default() };
        let filtered = graph.filter(&include, "").unwrap();
        assert_eq!(&*filtered.nodes()[1].name, name, "{pattern}");
        assert!(filtered.nodes().len() <= 3, "{pattern}");
    }
}

#[test]
fn an_unknown_metric_is_answered_with_the_most_similar_names() {
    let mut graph = graph(STEP);
    let MetricError::Unknown { metric, nearest, available, .. } =
        graph.derive(&["coutn"]).unwrap_err()
    else {
        panic!("another error");
    };
    assert_eq!((metric.as_str(), nearest[0].as_str()), ("coutn", "count"));
    assert!(available.contains(&"time".to_owned()));
    assert!(!available.contains(&"util".to_owned()));
    assert_eq!(
        graph.derive(&["nothing like it"]).unwrap_err().to_string(),
        "Metric nothing like it is not found. Use the --list flag to list available metrics"
    );
    assert!(matches!(graph.derive(&["count/ms"]), Err(MetricError::Unit { .. })));
    assert!(matches!(graph.derive(&["note/%"]), Err(MetricError::NotANumber { .. })));
}

#[test]
fn util_is_the_larger_share_with_notes_on_unknown_peaks() {
    let device = |id: &str, arch: &str| Device {
        family: "CUDA".into(),
        id: id.into(),
        arch: Some(arch.into()),
        bus_width_bits: Some(6144),
        clock_rate_khz: Some(1_980_000),
        memory_clock_rate_khz: Some(2_619_000),
        num_sms: Some(132),
    };
    let mut profile = profile(
        "
ROOT time(ns)=0 flops16=0 bytes=0
  compute time(ns)=1000000 flops16=494115789473.68 device_id=0x device_type=CUDA
  memory time(ns)=1000000 flops16=1.0 bytes=1005696000 device_id=0x device_type=CUDA
  elsewhere time(ns)=1000000 flops16=1.0 bytes=1 device_id=9x device_type=CUDA
  unknown time(ns)=1000000 flops16=1e12 bytes=1 device_id=1x device_type=CUDA
",
    );
    profile.devices = vec![device("0x", "90"), device("1x", "77")];
    let mut graph = Graph::new(profile);
    let derived = graph.derive(&["util"]).unwrap();
    let util = graph.numbers("util").unwrap();
    let node_util =
        |name: &str| util[graph.nodes().iter().position(|node| &*node.name == name).unwrap()];
    assert!((node_util("compute") - 0.5).abs() < 1e-3, "{}", node_util("compute"));
    assert!((node_util("memory") - 0.25).abs() < 1e-3, "{}", node_util("memory"));
    assert!(node_util("ROOT").is_nan() && node_util("unknown").is_nan());
    assert_eq!(node_util("elsewhere").to_bits(), 0.0_f64.to_bits());
    assert_eq!(derived.notes.len(), 2, "{:?}", derived.notes);
    assert!(derived.notes.iter().any(|note| note.contains("77")));
}

#[test]
fn filters_recompute_sums_of_metrics_and_keep_derived_values() {
    let mut graph = graph(STEP);
    graph.derive(&["time/%"]).unwrap();
    let filtered = |filter: Filter| {
        let remaining = graph.filter(&filter, "time(ns) (inc)").unwrap();
        show(&remaining, &["time(ns) (inc)", "time/% (inc)"])
    };
    assert_eq!(
        filtered(Filter { include: Some("for".into()), ..Filter::default() }),
        "ROOT 41 100.0\n  step 41 100.0\n    forward 41 41.0\n      add 10 10.0\n      matmul 30 30.0\n"
    );
    assert_eq!(
        filtered(Filter { exclude: Some("ackward|matmul".into()), ..Filter::default() }),
        "ROOT 11 100.0\n  step 11 100.0\n    backward - 59.0\n    forward 11 41.0\n      add 10 10.0\n"
    );
    let reaching = |threshold| Filter { threshold: Some(threshold), ..Filter::default() };
    let large = "ROOT 60 100.0\n  step 60 100.0\n    backward 59 59.0\n      matmul 59 59.0\n    forward 1 41.0\n";
    assert_eq!(filtered(reaching(Threshold::Value(41.0))), large);
    assert_eq!(filtered(reaching(Threshold::Percent(41.0))), large);
}

#[test]
fn empty_results_and_bad_patterns_are_errors() {
    let graph = graph(STEP);
    let failure = |include: Option<&str>, exclude: Option<&str>, threshold| {
        let filter = Filter {
            include: include.map(Into::into),
            exclude: exclude.map(Into::into),
            threshold,
        };
        graph.filter(&filter, "time(ns) (inc)").unwrap_err()
    };
    assert_eq!(
        failure(Some("tep"), None, None).to_string(),
        "nothing is left of the profile: no name matches `tep`"
    );
    assert!(failure(None, Some("ROOT"), None).to_string().contains("matches every root"));
    assert!(matches!(failure(None, None, Some(Threshold::Value(1e9))), FilterError::Empty { .. }));
    assert!(matches!(failure(Some("("), None, None), FilterError::Pattern { .. }));
    assert!(
        graph
            .filter(&Filter { include: Some(r"(?!f)\w+ward".into()), ..Filter::default() }, "")
            .is_ok()
    );
}

#[test]
fn squashing_reattaches_children_and_merges_siblings_of_one_name() {
    let graph = graph(STEP);
    let is_kept: Vec<bool> = graph
        .nodes()
        .iter()
        .map(|node| !matches!(&*node.name, "step" | "forward" | "backward"))
        .collect();
    assert_eq!(
        show(&graph.squash(&is_kept), &["time(ns)", "count"]),
        "ROOT 0 0\n  add 10 1\n  matmul 89 9\n"
    );
    let is_kept: Vec<bool> = graph.nodes().iter().map(|node| node.depth >= 2).collect();
    let forest = graph.squash(&is_kept);
    assert_eq!(forest.children(None).count(), 2);
}

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
    let difference = graph(LATER).combine(&graph(STEP), Operator::Subtract, Some(&labels));
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
    let all = graph(LATER).combine(&graph(STEP), Operator::Divide, None);
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
fn siblings_of_one_name_stay_separate_until_a_filter() {
    let text = "
ROOT n=0
  x n=1
  x n=2
    y n=4
";
    let twins = graph(text);
    assert_eq!(show(&twins, &["n (inc)"]), "ROOT 7\n  x 1\n  x 6\n    y 4\n");
    let with_itself = twins.combine(&twins, Operator::Subtract, None);
    assert_eq!(with_itself.numbers("n (inc)").unwrap(), [0.0; 4]);
    let filter = Filter { include: Some("x".into()), ..Filter::default() };
    assert_eq!(show(&twins.filter(&filter, "").unwrap(), &["n (inc)"]), "ROOT 7\n  x 7\n    y 4\n");
}

#[test]
fn whole_numbers_beyond_2_to_the_53_stay_exact() {
    let big = (1_i64 << 53) + 1;
    let graph = graph(&format!("ROOT stamp={big}\n  a stamp=1\n"));
    assert_eq!(graph.column("stamp").unwrap().get(0), Some(MetricValue::Int(big)));
    assert_eq!(graph.column("stamp (inc)").unwrap().get(0), Some(MetricValue::Int(big + 1)));
}

#[test]
fn columns_can_be_set_and_names_shown_in_another_style() {
    let mut graph = graph("ROOT n=0\n  /a/f.py:3@g n=1\n");
    graph.set_column("n", Cells::Numbers { values: vec![0.0, 5.0], are_whole: true });
    graph.set_column("extra", Cells::Numbers { values: vec![1.0, f64::NAN], are_whole: false });
    graph.style_names(NameStyle::FileFunction);
    assert_eq!(show(&graph, &["n (inc)", "extra"]), "ROOT@ROOT 5 1.0\n  f.py@g 5 -\n");
    assert_eq!(&*graph.nodes()[1].frame, "/a/f.py:3@g");
}

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
        assert!(
            node.parent
                .is_none_or(|parent| parent < index && graph.nodes()[parent].end >= node.end)
        );
        assert!(node.end > index && node.end <= graph.nodes().len());
        let names: Vec<&str> =
            graph.children(Some(index)).map(|child| &*graph.nodes()[child].frame).collect();
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
        let combined = a.combine(&b, Operator::Add, None);
        assert_is_preorder(&combined);
        let only = |side| combined.nodes().iter().filter(|node| node.side == side).count();
        prop_assert_eq!(a.nodes().len(), only(Side::Both) + only(Side::Left));
        prop_assert_eq!(b.nodes().len(), only(Side::Both) + only(Side::Right));
        let zero = a.combine(&a, Operator::Subtract, None);
        prop_assert!(zero.nodes().iter().all(|node| node.side == Side::Both));
        prop_assert!(zero.numbers("n (inc)").unwrap().iter().all(|value| value.is_nan() || *value == 0.0));
    }
}

fn keys(keys: &[std::sync::Arc<str>]) -> Vec<&str> {
    keys.iter().map(|key| &**key).collect()
}

#[test]
fn a_combination_with_another_graph_applies_the_operator_to_each_node() {
    let (later, step) = (graph(LATER), graph(STEP));
    for (operator, expected) in [
        (Operator::Add, 50.0),
        (Operator::Subtract, -10.0),
        (Operator::Multiply, 600.0),
        (Operator::Divide, 20.0 / 30.0),
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
    let all = left.combine(&right, Operator::Add, None);
    assert_eq!(keys(&all.inclusive()), ["a", "b"]);
    assert_eq!(keys(&all.exclusive()), ["own"]);
    assert_eq!(all.numbers("set").unwrap()[1].to_bits(), 7.0_f64.to_bits());
    let one = left.combine(&right, Operator::Add, Some(&["a".into()]));
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

#[test]
fn only_metrics_that_can_be_derived_are_available() {
    for (metrics, available, unavailable) in [
        ("time(ns)", vec!["time/ms", "time/%"], vec!["avg_time/ms", "util", "gbyte/s"]),
        ("count", vec!["count"], vec!["time/ms", "avg_time/ms"]),
        ("device_id", vec![], vec!["util"]),
    ] {
        let graph = graph(&format!("ROOT {metrics}=0\n  k {metrics}=1\n"));
        let names = graph.available_metrics();
        for name in available {
            assert!(names.contains(&name.to_owned()), "{metrics}: {name}");
        }
        for name in unavailable {
            assert!(!names.contains(&name.to_owned()), "{metrics}: {name}");
        }
    }
}

#[test]
fn a_time_in_microseconds_is_shown_in_milliseconds() {
    let mut graph = graph("ROOT\n  k wait(us)=500\n");
    graph.derive(&["wait/ms"]).unwrap();
    assert_eq!(graph.numbers("wait/ms").unwrap()[1].to_bits(), 0.5_f64.to_bits());
}

#[test]
fn util_uses_the_device_of_the_nodes_family_if_two_have_one_number() {
    let device = |family: &str, arch: &str| Device {
        family: family.into(),
        id: "0".into(),
        arch: Some(arch.into()),
        bus_width_bits: Some(6144),
        clock_rate_khz: Some(1_980_000),
        memory_clock_rate_khz: Some(2_619_000),
        num_sms: Some(132),
    };
    let mut profile = profile(
        "
ROOT time(ns)=0 bytes=0
  k time(ns)=1000000 bytes=1060000000 device_id=0 device_type=HIP
",
    );
    profile.devices = vec![device("CUDA", "90"), device("HIP", "gfx942")];
    let mut graph = Graph::new(profile);
    graph.derive(&["util"]).unwrap();
    // 1.06 GB in a millisecond, of 5.3 TB/s.
    assert!((graph.numbers("util").unwrap()[1] - 0.2).abs() < 1e-9);
}

#[test]
fn a_metric_that_is_summed_into_parents_takes_precedence_over_one_of_its_name() {
    let mut graph = graph("ROOT Bytes=0\n  k bytes(x)=5 Bytes=1\n");
    assert_eq!(graph.derive(&["bytes"]).unwrap().labels, ["Bytes (inc)"]);
}

#[test]
fn wall_times_are_suggested_for_time_only_in_a_profile_that_has_them() {
    let mut graph = graph("ROOT\n  k times=1\n");
    let Err(MetricError::Unknown { nearest, .. }) = graph.derive(&["time"]) else {
        panic!("another result");
    };
    assert_eq!(nearest, ["times"]);
}

#[test]
fn labels_are_found_by_label_by_metric_and_by_derived_name() {
    let mut graph = graph(STEP);
    graph.derive(&["time/%"]).unwrap();
    for (name, label) in [
        ("time(ns)", "time(ns)"),
        ("time", "time(ns) (inc)"),
        ("self", "time(ns)"),
        ("time/%", "time/% (inc)"),
    ] {
        assert_eq!(graph.label_of(name).unwrap(), label);
    }
    assert!(matches!(graph.label_of("time/ms"), Err(MetricError::Unknown { .. })));
}

#[test]
fn short_names_exist_for_wall_times_only() {
    let word = marey_query::graph::short_name;
    assert_eq!(word("wall_total (ns)").or(word("wall_total")), Some("total"));
    assert_eq!(word("bytes"), None);
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
