//! The results of `compare` and `check` as tables for Python, JSON and readers of Arrow: metrics,
//! operations, kernels, renames and verdicts.

use crate::ask::Cell;
use crate::compare::{
    ChangeCategory, Comparison, MetricChange, OperationDifference, Rename, RenameReason,
    Significance,
};
use crate::gate::Verdict;
use crate::metric::Unit;
use crate::stats::Interval;
use crate::table::{ColumnType, Columns, Table};

const METRIC_COLUMNS: &Columns = &[
    ("metric", ColumnType::Text),
    ("title", ColumnType::Text),
    ("unit", ColumnType::Text),
    ("before", ColumnType::Real),
    ("after", ColumnType::Real),
    ("change", ColumnType::Real),
    ("change_low", ColumnType::Real),
    ("change_high", ColumnType::Real),
    ("change_percent", ColumnType::Real),
    ("low_percent", ColumnType::Real),
    ("high_percent", ColumnType::Real),
    ("significant", ColumnType::Text),
];

const OPERATION_COLUMNS: &Columns = &[
    ("path", ColumnType::Text),
    ("name", ColumnType::Text),
    ("kind", ColumnType::Text),
    ("category", ColumnType::Text),
    ("count_category", ColumnType::Text),
    ("before_count", ColumnType::Real),
    ("after_count", ColumnType::Real),
    ("before_nanos", ColumnType::Real),
    ("after_nanos", ColumnType::Real),
    ("before_self_nanos", ColumnType::Real),
    ("after_self_nanos", ColumnType::Real),
    ("change_nanos", ColumnType::Real),
    ("change_percent", ColumnType::Real),
];

const RENAME_COLUMNS: &Columns = &[
    ("what", ColumnType::Text),
    ("before", ColumnType::Text),
    ("after", ColumnType::Text),
    ("reason", ColumnType::Text),
];

const VERDICT_COLUMNS: &Columns = &[
    ("expression", ColumnType::Text),
    ("outcome", ColumnType::Text),
    ("metric", ColumnType::Text),
    ("unit", ColumnType::Text),
    ("before", ColumnType::Real),
    ("after", ColumnType::Real),
    ("judged", ColumnType::Real),
    ("judged_low", ColumnType::Real),
    ("judged_high", ColumnType::Real),
    ("threshold", ColumnType::Real),
    ("why", ColumnType::Text),
];

/// Returns the metrics of both runs, one per row, with 95 % intervals.
pub fn metrics(comparison: &Comparison) -> Table {
    Table { columns: METRIC_COLUMNS, rows: comparison.metrics.iter().map(metric_row).collect() }
}

/// Returns the host operations per step, one row for each path and kind, the largest change first.
pub fn operations(comparison: &Comparison) -> Table {
    Table {
        columns: OPERATION_COLUMNS,
        rows: comparison.operations.iter().map(difference_row).collect(),
    }
}

/// Returns the device activities per step, one row for each kernel, the largest change first.
pub fn kernels(comparison: &Comparison) -> Table {
    Table {
        columns: OPERATION_COLUMNS,
        rows: comparison.kernels.iter().map(difference_row).collect(),
    }
}

/// Returns the pairs that may be one operation or kernel under two names.
pub fn renames(comparison: &Comparison) -> Table {
    let rename_rows =
        |kind, differences: &[OperationDifference], renames: &[Rename]| -> Vec<Vec<Cell>> {
            let row = |rename: &Rename| {
                let path = |index: usize| text_cell(&differences[index].path.join("/"));
                vec![
                    text_cell(kind),
                    path(rename.removed_index),
                    path(rename.added_index),
                    text_cell(reason_text(rename.reason)),
                ]
            };
            renames.iter().map(row).collect()
        };
    let mut rows = rename_rows("operation", &comparison.operations, &comparison.renamed_operations);
    rows.extend(rename_rows("kernel", &comparison.kernels, &comparison.renamed_kernels));
    Table { columns: RENAME_COLUMNS, rows }
}

/// Returns the verdicts, one per row, with the interval of the number that is judged.
pub fn verdicts(verdicts: &[Verdict]) -> Table {
    Table { columns: VERDICT_COLUMNS, rows: verdicts.iter().map(verdict_row).collect() }
}

fn metric_row(metric_change: &MetricChange) -> Vec<Cell> {
    let [low, high] = interval_ends(metric_change.interval);
    let [low_percent, high_percent] = interval_ends(metric_change.interval_percent);
    vec![
        text_cell(&metric_change.metric.to_string()),
        text_cell(&metric_change.metric.title()),
        text_cell(unit_name(metric_change.metric.unit())),
        real_cell(metric_change.before),
        real_cell(metric_change.after),
        real_cell(metric_change.change),
        low,
        high,
        real_cell(metric_change.change_percent),
        low_percent,
        high_percent,
        text_cell(match metric_change.significance {
            Significance::Yes => "yes",
            Significance::No => "no",
            Significance::Unknown => "unknown",
        }),
    ]
}

fn difference_row(difference: &OperationDifference) -> Vec<Cell> {
    let (before, after) = (difference.before.as_ref(), difference.after.as_ref());
    vec![
        text_cell(&difference.path.join("/")),
        text_cell(difference.path.last().map_or("", String::as_str)),
        text_cell(&difference.kind),
        text_cell(difference.category.as_str()),
        text_cell(difference.count_category.as_str()),
        real_cell(before.map(|side| side.count)),
        real_cell(after.map(|side| side.count)),
        real_cell(before.map(|side| side.total_nanos)),
        real_cell(after.map(|side| side.total_nanos)),
        real_cell(before.map(|side| side.self_nanos)),
        real_cell(after.map(|side| side.self_nanos)),
        Cell::Real(difference.change_nanos()),
        Cell::Real(difference.change_percent()),
    ]
}

fn verdict_row(verdict: &Verdict) -> Vec<Cell> {
    let [low, high] = interval_ends(verdict.interval);
    vec![
        text_cell(&verdict.expression),
        text_cell(&verdict.outcome.to_string()),
        text_cell(&verdict.metric.to_string()),
        text_cell(unit_name(verdict.metric.unit())),
        real_cell(verdict.before),
        real_cell(verdict.after),
        real_cell(verdict.change),
        low,
        high,
        Cell::Real(verdict.threshold.number()),
        text_cell(&verdict.why),
    ]
}

impl ChangeCategory {
    /// The name of the category.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Increased => "increased",
            Self::Decreased => "decreased",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Returns as text the reason why two names may denote the same operation.
pub const fn reason_text(reason: RenameReason) -> &'static str {
    match reason {
        RenameReason::SamePosition => "same position and children",
        RenameReason::SimilarName => "similar name",
        RenameReason::PartOfName => "one name is part of the other",
        RenameReason::SameFunction => "same function",
        RenameReason::SameNameInside => "same name below a renamed parent",
    }
}

const fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::Nanos => "ns",
        Unit::Bytes => "bytes",
        Unit::BytesPerStep => "bytes per step",
        Unit::Percent => "percent",
        Unit::Flag => "flag",
    }
}

fn text_cell(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn real_cell(value: Option<f64>) -> Cell {
    value.map_or(Cell::Null, Cell::Real)
}

fn interval_ends(interval: Option<Interval>) -> [Cell; 2] {
    [
        real_cell(interval.map(|interval| interval.low)),
        real_cell(interval.map(|interval| interval.high)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::compare::{Tolerance, compare};
    use crate::metric::{Metric, Quantity};
    use crate::run_measurements::{Operation, RunMeasurements};

    /// A run of equal steps with one operation, which takes a third of a step.
    fn run(operation: &str, step_nanos: f64) -> RunMeasurements {
        RunMeasurements {
            step_nanos: vec![step_nanos; 9],
            operations: vec![Operation {
                path: vec!["step".into(), operation.into()],
                kind: "operator".into(),
                count: 2.0,
                total_nanos: step_nanos / 3.0,
                self_nanos: step_nanos / 6.0,
            }],
            ..RunMeasurements::default()
        }
    }

    fn cell<'a>(table: &'a Table, row: usize, column: &str) -> &'a Cell {
        let at = table.columns.iter().position(|(name, _)| *name == column).unwrap();
        &table.rows[row][at]
    }

    #[test]
    fn a_metric_has_its_change_with_interval_and_unit() {
        let table = metrics(&compare(&run("a", 3e6), &run("a", 6e6), Tolerance::default()));
        let name = Metric::mean(Quantity::StepTime).to_string();
        let row = (0..table.rows.len()).find(|&row| cell(&table, row, "metric").text() == name);
        let value = |column| cell(&table, row.unwrap(), column).clone();
        for (column, number) in [
            ("before", 3e6),
            ("after", 6e6),
            ("change", 3e6),
            ("change_low", 3e6),
            ("change_high", 3e6),
            ("change_percent", 100.0),
            ("low_percent", 100.0),
            ("high_percent", 100.0),
        ] {
            assert_eq!(value(column), Cell::Real(number), "{column}");
        }
        assert_eq!((value("unit").text(), value("significant").text()), ("ns", "yes"));
    }

    #[test]
    fn an_operation_has_its_times_on_both_sides() {
        let table = operations(&compare(&run("a", 3e6), &run("a", 6e6), Tolerance::default()));
        let value = |column| cell(&table, 0, column).clone();
        for (column, number) in [
            ("before_count", 2.0),
            ("before_nanos", 1e6),
            ("after_nanos", 2e6),
            ("before_self_nanos", 5e5),
            ("after_self_nanos", 1e6),
            ("change_nanos", 1e6),
            ("change_percent", 100.0),
        ] {
            assert_eq!(value(column), Cell::Real(number), "{column}");
        }
        assert_eq!((value("path").text(), value("name").text()), ("step/a", "a"));
        assert_eq!(
            (value("category").text(), value("count_category").text()),
            ("increased", "unchanged")
        );
    }

    #[test]
    fn a_rename_has_both_paths_and_a_reason() {
        let comparison = compare(&run("mm_1", 3e6), &run("mm_2", 3e6), Tolerance::default());
        let table = renames(&comparison);
        let row: Vec<&str> = table.rows[0].iter().map(Cell::text).collect();
        assert_eq!(row, ["operation", "step/mm_1", "step/mm_2", "same function"]);
        assert_eq!(cell(&operations(&comparison), 0, "change_nanos"), &Cell::Real(-1e6));
    }
}
