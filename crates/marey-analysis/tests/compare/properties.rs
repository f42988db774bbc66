//! Properties that hold for all runs.

use std::collections::BTreeSet;

use marey_analysis::compare::{
    ChangeCategory, Comparison, OperationDifference, Rename, Tolerance, compare,
};
use marey_analysis::gate::{Gate, Judge, Outcome};
use marey_analysis::metric::{Metric, Quantity};
use marey_analysis::run_measurements::{Kernel, Operation, RunMeasurements};
use marey_analysis::stats::{Stat, mad, median, percentile, theil_sen};
use proptest::prelude::*;

/// A tree in which the parents of every node exist.
fn tree() -> impl Strategy<Value = Vec<Operation>> {
    let word = prop_oneof!["[ab]{1,3}", Just("linear".into()), Just("linear_fp8".to_owned())];
    let path = prop::collection::vec(word, 1..4);
    prop::collection::vec((path, 1..4_u8, 0.0..1e6), 0..12).prop_map(|nodes| {
        let mut seen = BTreeSet::new();
        let mut operations = Vec::new();
        for (path, count, nanos) in nodes {
            for depth in 1..=path.len() {
                if seen.insert(path[..depth].to_vec()) {
                    operations.push(Operation {
                        path: path[..depth].to_vec(),
                        kind: "operator".into(),
                        count: f64::from(count),
                        total_nanos: nanos,
                        self_nanos: nanos,
                    });
                }
            }
        }
        operations
    })
}

fn kernels() -> impl Strategy<Value = Vec<Kernel>> {
    let name = "(void )?(gemm|relu|softmax)(<[ab]{1,2}>)?(_[0-9])?";
    prop::collection::btree_map(name, (1..4_u8, 0.0..1e6), 0..6).prop_map(|kernels| {
        let kernel =
            |(name, (count, total_nanos))| Kernel { name, count: f64::from(count), total_nanos };
        kernels.into_iter().map(kernel).collect()
    })
}

fn run() -> impl Strategy<Value = RunMeasurements> {
    let steps = prop::collection::vec(prop_oneof![0.0..1e9, Just(0.0), Just(5e5)], 0..40);
    let scalar = prop::option::of(prop_oneof![-1e6..1e9, Just(0.0)]);
    (steps.clone(), steps, scalar, tree(), kernels()).prop_map(
        |(step_nanos, idle, peak, operations, kernels)| RunMeasurements {
            name: "run".into(),
            step_nanos,
            series: vec![(Quantity::GpuIdle, idle)],
            scalars: vec![
                (Quantity::GpuMemory.default_metric(), peak),
                (Metric::percent(Quantity::GpuIdle), peak),
            ],
            operations,
            kernels,
        },
    )
}

/// The category with both sides swapped.
fn mirror(category: ChangeCategory) -> ChangeCategory {
    match category {
        ChangeCategory::Added => ChangeCategory::Removed,
        ChangeCategory::Removed => ChangeCategory::Added,
        ChangeCategory::Increased => ChangeCategory::Decreased,
        ChangeCategory::Decreased => ChangeCategory::Increased,
        ChangeCategory::Unchanged => ChangeCategory::Unchanged,
    }
}

type Row<'a> =
    (&'a [String], Option<&'a Operation>, Option<&'a Operation>, ChangeCategory, ChangeCategory);

fn row(row: &OperationDifference) -> Row<'_> {
    let OperationDifference { path, before, after, category, count_category, .. } = row;
    (path, before.as_ref(), after.as_ref(), *category, *count_category)
}

fn rows(differences: &[OperationDifference]) -> Vec<Row<'_>> {
    differences.iter().map(row).collect()
}

fn pairs<'a>(
    differences: &'a [OperationDifference],
    renames: &[Rename],
) -> BTreeSet<(&'a [String], &'a [String], String)> {
    let pair = |rename: &Rename| {
        let path = |index: usize| &*differences[index].path;
        (path(rename.removed_index), path(rename.added_index), format!("{:?}", rename.reason))
    };
    renames.iter().map(pair).collect()
}

fn differences_and_renames(comparison: &Comparison) -> [(&[OperationDifference], &[Rename]); 2] {
    [
        (&comparison.operations, &comparison.renamed_operations),
        (&comparison.kernels, &comparison.renamed_kernels),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_run_does_not_differ_from_itself(run in run()) {
        let comparison = compare(&run, &run, Tolerance { percent: 0.0, nanos: 0.0 });
        for row in &comparison.metrics {
            prop_assert!(row.change.is_none_or(|change| change == 0.0), "{row:?}");
            let is_zero = |interval: marey_analysis::stats::Interval| interval.low == 0.0 && interval.high == 0.0;
            prop_assert!(row.interval.is_none_or(is_zero) && row.interval_percent.is_none_or(is_zero), "{row:?}");
        }
        for (differences, renames) in differences_and_renames(&comparison) {
            prop_assert!(renames.is_empty());
            for row in differences {
                prop_assert_eq!((row.category, row.count_category), (ChangeCategory::Unchanged, ChangeCategory::Unchanged));
            }
        }
    }

    #[test]
    fn swapping_the_runs_mirrors_the_comparison(a in run(), b in run()) {
        let (forward, backward) = (compare(&a, &b, Tolerance::default()), compare(&b, &a, Tolerance::default()));
        prop_assert_eq!(forward.metrics.len(), backward.metrics.len());
        for (forward, backward) in forward.metrics.iter().zip(&backward.metrics) {
            prop_assert_eq!((forward.metric, forward.before, forward.after), (backward.metric, backward.after, backward.before));
            prop_assert_eq!(forward.change, backward.change.map(|change| -change));
            prop_assert_eq!(forward.significance, backward.significance);
            let ends = forward.interval.map(|interval| (interval.low, interval.high));
            prop_assert_eq!(ends, backward.interval.map(|interval| (-interval.high, -interval.low)));
        }
        for ((forward, suggested), (backward, suggested_back)) in differences_and_renames(&forward).into_iter().zip(differences_and_renames(&backward)) {
            let mirrored: Vec<Row> = rows(backward)
                .into_iter()
                .map(|(path, before, after, time, count)| (path, after, before, mirror(time), mirror(count)))
                .collect();
            prop_assert_eq!(rows(forward), mirrored);
            let mirrored: BTreeSet<_> =
                pairs(backward, suggested_back).into_iter().map(|(before, after, why)| (after, before, why)).collect();
            prop_assert_eq!(pairs(forward, suggested), mirrored);
        }
    }

    #[test]
    fn renames_pair_each_added_and_removed_operation_at_most_once(a in run(), b in run()) {
        for (differences, renames) in differences_and_renames(&compare(&a, &b, Tolerance::default())) {
            let mut seen = BTreeSet::new();
            for Rename { removed_index: before, added_index: after, .. } in renames {
                prop_assert_eq!(differences[*before].category, ChangeCategory::Removed);
                prop_assert_eq!(differences[*after].category, ChangeCategory::Added);
                prop_assert!(seen.insert(before) && seen.insert(after));
            }
        }
    }

    #[test]
    fn a_run_compared_with_itself_is_no_regression(
        run in run(),
        metric in prop::sample::select(vec!["step_time", "step_time.p90", "step_time.mean", "gpu_idle.p75", "gpu_memory"]),
        threshold in 0.0..20.0,
        is_above: bool,
    ) {
        let sign = if is_above { ">+" } else { "<-" };
        let gate: Gate = format!("{metric}{sign}{threshold}%").parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
        prop_assert_ne!(Judge::default().judge(&gate, &run, &run).outcome, Outcome::Regression);
    }

    #[test]
    fn any_text_is_a_condition_or_an_error(text in ".*") {
        let _result: Result<Gate, _> = text.parse();
    }

    #[test]
    fn near_conditions_parse_or_give_an_error(
        text in "[ ]?(step_time|gpu_memory|mfu|µ)?[.]?(p[0-9]{1,4}|peak|mean)?[ ]?[<>=]{0,2}[ ]?[-+]?[0-9.]{0,5}[ ]?(%|ms|pp|MB|µs|é)?"
    ) {
        match text.parse::<Gate>() {
            Ok(gate) => prop_assert!(gate.threshold.number().is_finite()),
            Err(error) => prop_assert!(error.column <= text.chars().count() + 1 && !error.to_string().is_empty()),
        }
    }

    #[test]
    fn statistics_stay_within_their_sample(sample in prop::collection::vec(-1e9..1e9, 1..50), percent in 0.0..100.0) {
        let least = sample.iter().copied().fold(f64::INFINITY, f64::min);
        let max_value = sample.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for value in [percentile(&sample, percent), median(&sample), Stat::Mean.compute(&sample)].into_iter().flatten() {
            prop_assert!(least - 1.0 <= value && value <= max_value + 1.0);
        }
        prop_assert!(mad(&sample).is_some_and(|mad| 0.0 <= mad && mad <= max_value - least));
        let line: Vec<(f64, f64)> = sample.iter().enumerate().map(|(index, _)| (index as f64, 2.0 * index as f64)).collect();
        prop_assert_eq!(theil_sen(&line), (line.len() > 1).then_some(2.0));
    }
}
