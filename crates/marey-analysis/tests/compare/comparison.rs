//! Comparisons of two runs, by example.

use marey_analysis::compare::{
    ChangeCategory, Comparison, Rename, RenameReason, Significance, Tolerance, compare,
};
use marey_analysis::metric::{Metric, Quantity, Summary};
use marey_analysis::run_measurements::{Kernel, Operation, RunMeasurements};

/// Operations from lines of `path count total_us`; slashes separate the names of a path.
fn operations(text: &str) -> Vec<Operation> {
    let operation = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let nanos = words[2].parse::<f64>().unwrap() * 1e3;
        Operation {
            path: words[0].split('/').map(str::to_owned).collect(),
            kind: "operator".into(),
            count: words[1].parse().unwrap(),
            total_nanos: nanos,
            self_nanos: nanos,
        }
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(operation).collect()
}

fn compare_operations(before: &str, after: &str) -> Comparison {
    let run = |text| RunMeasurements { operations: operations(text), ..RunMeasurements::default() };
    compare(&run(before), &run(after), Tolerance::default())
}

fn compare_kernels(before: &[&str], after: &[&str]) -> Comparison {
    let run = |names: &[&str]| RunMeasurements {
        kernels: names
            .iter()
            .map(|name| Kernel { name: (*name).into(), count: 2.0, total_nanos: 1e4 })
            .collect(),
        ..RunMeasurements::default()
    };
    compare(&run(before), &run(after), Tolerance::default())
}

/// `before -> after: reason` for each suggested rename, sorted.
fn suggested_renames(comparison: &Comparison) -> Vec<String> {
    let rename_lines = |differences: &[marey_analysis::compare::OperationDifference],
                        renames: &[Rename]| {
        let line = |rename: &Rename| {
            let (before, after) = (
                differences[rename.removed_index].path.join("/"),
                differences[rename.added_index].path.join("/"),
            );
            format!("{before} -> {after}: {:?}", rename.reason)
        };
        renames.iter().map(line).collect::<Vec<_>>()
    };
    let mut lines = rename_lines(&comparison.operations, &comparison.renamed_operations);
    lines.extend(rename_lines(&comparison.kernels, &comparison.renamed_kernels));
    lines.sort();
    lines
}

#[test]
fn metrics_include_those_of_prism_with_their_significance() {
    let run = |name: &str, factor: f64, peak| RunMeasurements {
        name: name.into(),
        step_nanos: (0..20).map(|index| factor * (1e6 + f64::from(index % 3) * 1e3)).collect(),
        scalars: vec![
            (Metric { quantity: Quantity::TotalTime, summary: Summary::Total }, Some(factor * 2e7)),
            (Quantity::GpuMemory.default_metric(), peak),
            (Metric::percent(Quantity::GpuIdle), None),
        ],
        series: vec![(Quantity::ExposedCommunication, vec![factor * 1e5; 20])],
        ..RunMeasurements::default()
    };
    let (before, after) = (run("a", 1.0, Some(1e9)), run("b", 1.1, None));
    let comparison = compare(&before, &after, Tolerance::default());
    let names: Vec<String> = comparison.metrics.iter().map(|row| row.metric.to_string()).collect();
    assert_eq!(
        names,
        [
            "steps.count",
            "total_time.total",
            "step_time.mean",
            "step_time.p50",
            "step_time.p90",
            "gpu_memory.peak",
            "gpu_memory.growing",
            "exposed_communication.mean",
        ]
    );
    let row =
        |name: &str| comparison.metrics.iter().find(|row| row.metric.to_string() == name).unwrap();
    let steps = row("steps.count");
    assert_eq!((steps.before, steps.after, steps.change), (Some(20.0), Some(20.0), Some(0.0)));
    let median = row("step_time.p50");
    assert_eq!(median.before, Some(1.001e6));
    assert!((median.change_percent.unwrap() - 10.0).abs() < 1e-9);
    assert!(median.interval_percent.unwrap().contains(10.0));
    assert_eq!(median.significance, Significance::Yes);
    assert_eq!(row("total_time.total").significance, Significance::Unknown);
    let peak = row("gpu_memory.peak");
    assert_eq!((peak.before, peak.after, peak.change_percent), (Some(1e9), None, None));
    // Every step changed by the same factor, so the interval has no width.
    let exposed = row("exposed_communication.mean").interval_percent.unwrap();
    assert!((exposed.low - 10.0).abs() < 1e-9 && (exposed.high - 10.0).abs() < 1e-9);
}

#[test]
fn significance_is_unknown_with_few_steps() {
    let run = |steps: usize| RunMeasurements {
        step_nanos: vec![1.0; steps],
        ..RunMeasurements::default()
    };
    let significance = |before, after| {
        let comparison = compare(&run(before), &run(after), Tolerance::default());
        [2, 4].map(|index| comparison.metrics[index].significance)
    };
    assert_eq!(significance(4, 20), [Significance::Unknown; 2]);
    assert_eq!(significance(5, 20), [Significance::No, Significance::Unknown]);
    assert_eq!(significance(10, 20), [Significance::No; 2]);
}

#[test]
fn operations_are_matched_by_path() {
    let comparison = compare_operations(
        "a 1 100\na/x 2 50\nb/x 1 10\ngone 1 7",
        "a 1 104\na/x 1 10\nb/x 1 30\nnew 1 9\nnew 1 1",
    );
    let rows: Vec<_> = comparison
        .operations
        .iter()
        .map(|row| (row.path.join("/"), row.category, row.count_category, row.change_nanos()))
        .collect();
    assert_eq!(
        rows,
        [
            ("a/x".to_owned(), ChangeCategory::Decreased, ChangeCategory::Decreased, -4e4),
            ("b/x".to_owned(), ChangeCategory::Increased, ChangeCategory::Unchanged, 2e4),
            ("new".to_owned(), ChangeCategory::Added, ChangeCategory::Added, 1e4),
            ("gone".to_owned(), ChangeCategory::Removed, ChangeCategory::Removed, -7e3),
            ("a".to_owned(), ChangeCategory::Unchanged, ChangeCategory::Unchanged, 4e3),
        ]
    );
    assert_eq!(comparison.operations[0].change_percent(), -80.0);
    assert_eq!(comparison.operations[2].after.as_ref().unwrap().count, 2.0);
    assert_eq!(comparison.operations[2].change_percent(), f64::INFINITY);
}

#[test]
fn possible_renames_are_suggested_with_a_reason() {
    let lines = |before, after| suggested_renames(&compare_operations(before, after));
    assert_eq!(
        lines("m 1 9\nm/linear 2 50\nm/rest 1 5", "m 1 9\nm/linear_fp8 2 30\nm/rest 1 5"),
        ["m/linear -> m/linear_fp8: PartOfName"]
    );
    assert_eq!(lines("attention 2 50", "attentive 3 50"), ["attention -> attentive: SimilarName"]);
    // torch.profiler leaves the overload out.
    assert_eq!(
        lines("aten::sum.dim_IntList 2 50", "aten::sum 2 50"),
        ["aten::sum.dim_IntList -> aten::sum: SameFunction"]
    );
    // With another parent, or far more calls, it is a different operation.
    assert!(lines("m 1 9\nn 1 9\nm/linear 2 50", "m 1 9\nn 1 9\nn/linears 2 50").is_empty());
    assert!(lines("q\u{e9} 1 1\nlinear 2 50", "q\u{e9} 1 1\nlinears 9 50").is_empty());
    // A common namespace alone does not make names similar.
    assert!(lines("k 1 1\naten::mm 2 50", "aten::gelu 2 900\nk 1 1").is_empty());
    // Children of a renamed operation are paired too.
    assert_eq!(
        lines(
            "Encoder 1 90\nEncoder/mm 2 50\nEncoder/mm/k 2 50",
            "Encoders 1 90\nEncoders/mm 9 50\nEncoders/mm/k 9 50"
        ),
        [
            "Encoder -> Encoders: PartOfName",
            "Encoder/mm -> Encoders/mm: SameNameInside",
            "Encoder/mm/k -> Encoders/mm/k: SameNameInside",
        ]
    );
    assert_eq!(
        lines("x 1 1\nBlock 3 50\nBlock/q 1 1", "x 1 1\nLayer 3 500\nLayer/q 1 1"),
        ["Block -> Layer: SamePosition", "Block/q -> Layer/q: SameNameInside"]
    );
    assert!(lines("x 1 1\nBlock 3 50", "Layer 3 50\nx 1 1").is_empty());
    assert!(lines("Block 3 50", "Layer 3 500").is_empty());
    assert!(lines("Block 3 50", "Layer 4 50").is_empty());
    // Each operation is in one pair, the most likely one.
    assert_eq!(
        lines("forward_a 1 5\nforward_b 1 5", "forward_ab 1 5"),
        ["forward_a -> forward_ab: PartOfName"]
    );
}

#[test]
fn kernels_are_matched_by_name_and_suggested_by_function() {
    let comparison = compare_kernels(
        &["void gemm<float, 128>(float*)", "_ZN2at4fillIfEEvi", "triton_poi_fused_add_0", "same"],
        &[
            "void gemm<half, 256>(half*)",
            "void at::fill<double>(int)",
            "triton_poi_fused_add_7",
            "same",
        ],
    );
    assert_eq!(
        suggested_renames(&comparison),
        [
            "_ZN2at4fillIfEEvi -> void at::fill<double>(int): SameFunction",
            "triton_poi_fused_add_0 -> triton_poi_fused_add_7: SameFunction",
            "void gemm<float, 128>(float*) -> void gemm<half, 256>(half*): SameFunction",
        ]
    );
    let same_kernel = comparison.kernels.iter().find(|row| row.path == ["same"]).unwrap();
    assert_eq!(same_kernel.category, ChangeCategory::Unchanged);
    // Kernels have no position among siblings.
    assert!(compare_kernels(&["abc"], &["xyz"]).renamed_kernels.is_empty());
    assert!(RenameReason::SameFunction > RenameReason::SimilarName);
}

#[test]
fn ten_thousand_new_names_are_compared_quickly() {
    let names = |prefix: &str| -> String {
        let lines = (0..10_000).map(|index| format!("{prefix}{index:05}x 1 {index}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let start = std::time::Instant::now();
    let comparison = compare_operations(&names("alpha"), &names("gamma"));
    assert_eq!(comparison.operations.len(), 20_000);
    println!("20,000 orphans: {:?}", start.elapsed());
}
