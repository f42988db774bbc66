//! Metrics that are derived: formulas, names, errors.

use marey_model::profile::Device;
use marey_query::graph::{Filter, Graph, MetricError, Threshold};

use crate::{STEP, graph, profile};

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
fn a_metric_that_is_summed_into_parents_takes_precedence_over_one_of_its_name() {
    let mut graph = graph("ROOT Bytes=0\n  k bytes(x)=5 Bytes=1\n");
    assert_eq!(graph.derive(&["bytes"]).unwrap().labels, ["Bytes (inc)"]);
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
fn wall_times_are_suggested_for_time_only_in_a_profile_that_has_them() {
    let mut graph = graph("ROOT\n  k times=1\n");
    let Err(MetricError::Unknown { nearest, .. }) = graph.derive(&["time"]) else {
        panic!("another result");
    };
    assert_eq!(nearest, ["times"]);
}

fn device(family: &str, id: &str, arch: &str) -> Device {
    Device {
        family: family.into(),
        id: id.into(),
        arch: Some(arch.into()),
        bus_width_bits: Some(6144),
        clock_rate_khz: Some(1_980_000),
        memory_clock_rate_khz: Some(2_619_000),
        num_sms: Some(132),
    }
}

#[test]
fn util_is_the_larger_share_with_notes_on_unknown_peaks() {
    let mut profile = profile(
        "
ROOT time(ns)=0 flops16=0 bytes=0
  compute time(ns)=1000000 flops16=494115789473.68 device_id=0x device_type=CUDA
  memory time(ns)=1000000 flops16=1.0 bytes=1005696000 device_id=0x device_type=CUDA
  elsewhere time(ns)=1000000 flops16=1.0 bytes=1 device_id=9x device_type=CUDA
  unknown time(ns)=1000000 flops16=1e12 bytes=1 device_id=1x device_type=CUDA
",
    );
    profile.devices = vec![device("CUDA", "0x", "90"), device("CUDA", "1x", "77")];
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
fn util_uses_the_device_of_the_nodes_family_if_two_have_one_number() {
    let mut profile = profile(
        "
ROOT time(ns)=0 bytes=0
  k time(ns)=1000000 bytes=1060000000 device_id=0 device_type=HIP
",
    );
    profile.devices = vec![device("CUDA", "0", "90"), device("HIP", "0", "gfx942")];
    let mut graph = Graph::new(profile);
    graph.derive(&["util"]).unwrap();
    // 1.06 GB in a millisecond, of 5.3 TB/s.
    assert!((graph.numbers("util").unwrap()[1] - 0.2).abs() < 1e-9);
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
