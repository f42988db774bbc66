//! Compares two runs, *before* and *after*: their metrics, operations and kernels, for `marey
//! compare` and the gates of `marey check`.

mod category;
mod function_name;
mod metrics;
mod operations;
mod renames;

pub use category::{ChangeCategory, Tolerance};
pub use metrics::{MetricChange, Significance};
pub use operations::OperationDifference;
pub use renames::{Rename, RenameReason};

use crate::run_measurements::{Kernel, Operation, RunMeasurements};

/// Lowest number of steps on each side for which significance is judged.
pub(crate) const MIN_STEPS: usize = 5;

/// The differences of two runs, improvements as well as regressions.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The name of the run before.
    pub before: String,
    /// The name of the run after.
    pub after: String,
    /// The metrics. Steps, their times and memory are always listed, others if a side has them.
    pub metrics: Vec<MetricChange>,
    /// Operations by path and kind, the largest change of time first.
    pub operations: Vec<OperationDifference>,
    /// Pairs in `operations` that may be renames. They are only suggestions: both operations remain
    /// separate entries.
    pub renamed_operations: Vec<Rename>,
    /// Kernels by name, the largest change of time first.
    pub kernels: Vec<OperationDifference>,
    /// Pairs in `kernels` that may be renames.
    pub renamed_kernels: Vec<Rename>,
}

/// Compares two runs. Changes within the tolerance count as unchanged.
pub fn compare(
    before: &RunMeasurements,
    after: &RunMeasurements,
    tolerance: Tolerance,
) -> Comparison {
    let operations = operations::differences(&before.operations, &after.operations, tolerance);
    let renamed_operations = renames::suggest(&operations, &before.operations, &after.operations);
    let (kernels_before, kernels_after) =
        (kernels_as_operations(&before.kernels), kernels_as_operations(&after.kernels));
    let kernels = operations::differences(&kernels_before, &kernels_after, tolerance);
    let renamed_kernels = renames::suggest(&kernels, &kernels_before, &kernels_after);
    Comparison {
        before: before.name.clone(),
        after: after.name.clone(),
        metrics: metrics::metric_changes(before, after),
        operations,
        renamed_operations,
        kernels,
        renamed_kernels,
    }
}

/// Returns the kernels as a flat tree of operations, the longest first.
fn kernels_as_operations(kernels: &[Kernel]) -> Vec<Operation> {
    let mut sorted: Vec<&Kernel> = kernels.iter().collect();
    sorted
        .sort_by(|a, b| b.total_nanos.total_cmp(&a.total_nanos).then_with(|| a.name.cmp(&b.name)));
    let operation = |kernel: &Kernel| Operation {
        path: vec![kernel.name.clone()],
        kind: "kernel".into(),
        count: kernel.count,
        total_nanos: kernel.total_nanos,
        self_nanos: kernel.total_nanos,
    };
    sorted.into_iter().map(operation).collect()
}
