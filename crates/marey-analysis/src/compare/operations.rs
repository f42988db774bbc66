//! Matches the operations, or the kernels, of two runs by path and kind, and sorts them by the
//! change of their time.

use std::collections::HashMap;

use crate::change::relative_percent;
use crate::run_measurements::Operation;

use super::category::{ChangeCategory, Tolerance};

/// An operation or a kernel of either run.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationDifference {
    /// The names from the outermost ancestor to the operation. The path of a kernel is its name
    /// alone.
    pub path: Vec<String>,
    /// The kind.
    pub kind: String,
    /// The values per step before, or `None` if that run lacks the operation.
    pub before: Option<Operation>,
    /// The values per step after, or `None` if that run lacks the operation.
    pub after: Option<Operation>,
    /// The category of the change in time.
    pub category: ChangeCategory,
    /// The category of the change in count, as in HTA.
    pub count_category: ChangeCategory,
}

impl OperationDifference {
    /// Returns the change of the time per step. A missing side counts as 0.
    pub fn change_nanos(&self) -> f64 {
        nanos(self.after.as_ref()) - nanos(self.before.as_ref())
    }

    /// Returns the change in per cent of the time before. Infinite for an added operation.
    pub fn change_percent(&self) -> f64 {
        relative_percent(nanos(self.before.as_ref()), nanos(self.after.as_ref()))
    }
}

fn nanos(operation: Option<&Operation>) -> f64 {
    operation.map_or(0.0, |operation| operation.total_nanos)
}

/// Returns the operations of both sides, the largest change first.
pub(super) fn differences(
    before: &[Operation],
    after: &[Operation],
    tolerance: Tolerance,
) -> Vec<OperationDifference> {
    let mut pairs: HashMap<(&[String], &str), [Option<Operation>; 2]> = HashMap::new();
    for (side, operations) in [before, after].into_iter().enumerate() {
        for operation in operations {
            let pair = pairs.entry((&operation.path, &operation.kind)).or_default();
            match &mut pair[side] {
                Some(sum) => add(sum, operation),
                empty => *empty = Some(operation.clone()),
            }
        }
    }
    let difference =
        |((path, kind), [before, after]): ((&[String], &str), [Option<Operation>; 2])| {
            let category = |value_of: fn(&Operation) -> f64, tolerance| {
                ChangeCategory::from_change(
                    before.as_ref().map(value_of),
                    after.as_ref().map(value_of),
                    tolerance,
                )
            };
            OperationDifference {
                path: path.to_vec(),
                kind: kind.to_owned(),
                category: category(|operation| operation.total_nanos, tolerance),
                count_category: category(|operation| operation.count, Tolerance::ROUNDING),
                before,
                after,
            }
        };
    let mut differences: Vec<OperationDifference> = pairs.into_iter().map(difference).collect();
    differences.sort_by(|a, b| {
        let by_size = b.change_nanos().abs().total_cmp(&a.change_nanos().abs());
        by_size.then_with(|| (&a.path, &a.kind).cmp(&(&b.path, &b.kind)))
    });
    differences
}

/// Adds an operation with the same path and kind, such as the same function on another thread.
fn add(sum: &mut Operation, other: &Operation) {
    sum.count += other.count;
    sum.total_nanos += other.total_nanos;
    sum.self_nanos += other.self_nanos;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_one_path_and_kind_are_added() {
        let operation = |kind: &str, count, total_nanos, self_nanos| Operation {
            path: vec!["step".to_owned()],
            kind: kind.to_owned(),
            count,
            total_nanos,
            self_nanos,
        };
        let before = [
            operation("scope", 2.0, 30.0, 5.0),
            operation("scope", 3.0, 40.0, 6.0),
            operation("module", 1.0, 9.0, 9.0),
        ];
        let found = differences(&before, &[], Tolerance::default());
        let before: Vec<_> = found.into_iter().filter_map(|difference| difference.before).collect();
        assert_eq!(
            before,
            [operation("scope", 5.0, 70.0, 11.0), operation("module", 1.0, 9.0, 9.0)]
        );
    }
}
