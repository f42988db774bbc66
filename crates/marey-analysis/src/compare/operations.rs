//! Operations and kernels of two runs, by path.

use std::collections::HashMap;

use crate::change::relative_percent;
use crate::measured::Operation;

use super::category::{Category, Tolerance};

/// An operation or a kernel of either run.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The names from the outermost to its own; of a kernel its own alone.
    pub path: Vec<String>,
    /// What it is.
    pub kind: String,
    /// What it took per step before; `None` if it was not there.
    pub before: Option<Operation>,
    /// What it takes per step after; `None` if it is not there.
    pub after: Option<Operation>,
    /// What became of its time.
    pub category: Category,
    /// What became of how often it runs: HTA's categories.
    pub count_category: Category,
}

impl Difference {
    /// By how much more time it takes per step. What is not there takes none.
    pub fn change_nanos(&self) -> f64 {
        nanos(self.after.as_ref()) - nanos(self.before.as_ref())
    }

    /// The same in per cent of what it took before; infinite for what is added.
    pub fn change_percent(&self) -> f64 {
        relative_percent(nanos(self.before.as_ref()), nanos(self.after.as_ref()))
    }
}

fn nanos(operation: Option<&Operation>) -> f64 {
    operation.map_or(0.0, |operation| operation.total_nanos)
}

/// Everything that either has, what changed most first.
pub(super) fn differences(
    before: &[Operation],
    after: &[Operation],
    tolerance: Tolerance,
) -> Vec<Difference> {
    let mut pairs: HashMap<(&[String], &str), [Option<Operation>; 2]> = HashMap::new();
    for (side, operations) in [before, after].into_iter().enumerate() {
        for operation in operations {
            let pair = pairs.entry((&operation.path, &operation.kind)).or_default();
            match &mut pair[side] {
                Some(known) => add(known, operation),
                free => *free = Some(operation.clone()),
            }
        }
    }
    let difference =
        |((path, kind), [before, after]): ((&[String], &str), [Option<Operation>; 2])| {
            let of = |part: fn(&Operation) -> f64, tolerance| {
                Category::of(before.as_ref().map(part), after.as_ref().map(part), tolerance)
            };
            Difference {
                path: path.to_vec(),
                kind: kind.to_owned(),
                category: of(|operation| operation.total_nanos, tolerance),
                count_category: of(|operation| operation.count, Tolerance::ROUNDING),
                before,
                after,
            }
        };
    let mut differences: Vec<Difference> = pairs.into_iter().map(difference).collect();
    differences.sort_by(|a, b| {
        let by_size = b.change_nanos().abs().total_cmp(&a.change_nanos().abs());
        by_size.then_with(|| (&a.path, &a.kind).cmp(&(&b.path, &b.kind)))
    });
    differences
}

/// Two entries of one place, such as two threads in the same function, are one.
fn add(known: &mut Operation, other: &Operation) {
    known.count += other.count;
    known.total_nanos += other.total_nanos;
    known.self_nanos += other.self_nanos;
}
