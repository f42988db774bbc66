//! Two runs side by side: *before* and *after*.

mod category;
mod function_name;
mod metrics;
mod operations;
mod renames;

pub use category::{Category, Tolerance};
pub use metrics::{Change, Significance};
pub use operations::Difference;
pub use renames::{Reason, Rename};

use crate::measured::{Kernel, Measured, Operation};

/// With fewer steps than so many on a side, nothing is said about significance.
pub(crate) const MIN_STEPS: usize = 5;

/// What two runs differ in. Both directions are told: what became better and what became worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What the run before is called.
    pub before: String,
    /// What the run after is called.
    pub after: String,
    /// Numbers of the runs: always the steps, their times and the memory; others where a side has them.
    pub metrics: Vec<Change>,
    /// Operations by path and kind, those first whose time changed most.
    pub operations: Vec<Difference>,
    /// Positions in `operations` of what may be one under two names. Nothing is counted as one for it.
    pub renamed_operations: Vec<Rename>,
    /// Kernels by name, those first whose time changed most.
    pub kernels: Vec<Difference>,
    /// Positions in `kernels` of what may be one under two names.
    pub renamed_kernels: Vec<Rename>,
}

/// Compares two runs. What changes by no more than the tolerance is called unchanged.
pub fn compare(before: &Measured, after: &Measured, tolerance: Tolerance) -> Comparison {
    let operations = operations::differences(&before.operations, &after.operations, tolerance);
    let renamed_operations = renames::suggested(&operations, &before.operations, &after.operations);
    let (kernels_before, kernels_after) = (in_tree(&before.kernels), in_tree(&after.kernels));
    let kernels = operations::differences(&kernels_before, &kernels_after, tolerance);
    let renamed_kernels = renames::suggested(&kernels, &kernels_before, &kernels_after);
    Comparison {
        before: before.name.clone(),
        after: after.name.clone(),
        metrics: metrics::changes(before, after),
        operations,
        renamed_operations,
        kernels,
        renamed_kernels,
    }
}

/// Kernels as a tree without branches. They have no order of their own: the longest comes first.
fn in_tree(kernels: &[Kernel]) -> Vec<Operation> {
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
