//! The results of `compare` and `check` as tables for Python, JSON and readers of Arrow: metrics,
//! operations, kernels, renames and verdicts.

use crate::ask::Cell;
use crate::compare::{
    ChangeCategory, Comparison, MetricChange, OperationDifference, Rename, RenameReason,
    Significance,
};
use crate::gate::Verdict;
use crate::metric::Unit;
use crate::run_measurements::Operation;
use crate::stats::Interval;
use crate::table::ColumnType::{Real, Text};
use crate::table::{Column, Columns, Table, header, real_cell, rows, text_cell};

const METRICS: [Column<MetricChange>; 12] = [
    ("metric", Text, |change| text_cell(&change.metric.to_string())),
    ("title", Text, |change| text_cell(&change.metric.title())),
    ("unit", Text, |change| text_cell(unit_name(change.metric.unit()))),
    ("before", Real, |change| real_cell(change.before)),
    ("after", Real, |change| real_cell(change.after)),
    ("change", Real, |change| real_cell(change.change)),
    ("change_low", Real, |change| low_end(change.interval)),
    ("change_high", Real, |change| high_end(change.interval)),
    ("change_percent", Real, |change| real_cell(change.change_percent)),
    ("low_percent", Real, |change| low_end(change.interval_percent)),
    ("high_percent", Real, |change| high_end(change.interval_percent)),
    ("significant", Text, |change| text_cell(significance_text(change.significance))),
];

const OPERATIONS: [Column<OperationDifference>; 13] = [
    ("path", Text, |row| text_cell(&row.path.join("/"))),
    ("name", Text, |row| text_cell(row.path.last().map_or("", String::as_str))),
    ("kind", Text, |row| text_cell(&row.kind)),
    ("category", Text, |row| text_cell(row.category.as_str())),
    ("count_category", Text, |row| text_cell(row.count_category.as_str())),
    ("before_count", Real, |row| side_cell(row.before.as_ref(), |side| side.count)),
    ("after_count", Real, |row| side_cell(row.after.as_ref(), |side| side.count)),
    ("before_nanos", Real, |row| side_cell(row.before.as_ref(), |side| side.total_nanos)),
    ("after_nanos", Real, |row| side_cell(row.after.as_ref(), |side| side.total_nanos)),
    ("before_self_nanos", Real, |row| side_cell(row.before.as_ref(), |side| side.self_nanos)),
    ("after_self_nanos", Real, |row| side_cell(row.after.as_ref(), |side| side.self_nanos)),
    ("change_nanos", Real, |row| Cell::Real(row.change_nanos())),
    ("change_percent", Real, |row| Cell::Real(row.change_percent())),
];

const RENAME_COLUMNS: &Columns =
    &[("what", Text), ("before", Text), ("after", Text), ("reason", Text)];

const VERDICTS: [Column<Verdict>; 11] = [
    ("expression", Text, |verdict| text_cell(&verdict.expression)),
    ("outcome", Text, |verdict| text_cell(&verdict.outcome.to_string())),
    ("metric", Text, |verdict| text_cell(&verdict.metric.to_string())),
    ("unit", Text, |verdict| text_cell(unit_name(verdict.metric.unit()))),
    ("before", Real, |verdict| real_cell(verdict.before)),
    ("after", Real, |verdict| real_cell(verdict.after)),
    ("judged", Real, |verdict| real_cell(verdict.change)),
    ("judged_low", Real, |verdict| low_end(verdict.interval)),
    ("judged_high", Real, |verdict| high_end(verdict.interval)),
    ("threshold", Real, |verdict| Cell::Real(verdict.threshold.number())),
    ("why", Text, |verdict| text_cell(&verdict.why)),
];

/// Returns the metrics of both runs, one per row, with 95 % intervals.
pub fn metrics(comparison: &Comparison) -> Table {
    Table { columns: &const { header(&METRICS) }, rows: rows(&METRICS, &comparison.metrics) }
}

/// Returns the host operations per step, one row for each path and kind, the largest change first.
pub fn operations(comparison: &Comparison) -> Table {
    difference_table(&comparison.operations)
}

/// Returns the device activities per step, one row for each kernel, the largest change first.
pub fn kernels(comparison: &Comparison) -> Table {
    difference_table(&comparison.kernels)
}

fn difference_table(differences: &[OperationDifference]) -> Table {
    Table { columns: &const { header(&OPERATIONS) }, rows: rows(&OPERATIONS, differences) }
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
    Table { columns: &const { header(&VERDICTS) }, rows: rows(&VERDICTS, verdicts) }
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

const fn significance_text(significance: Significance) -> &'static str {
    match significance {
        Significance::Yes => "yes",
        Significance::No => "no",
        Significance::Unknown => "unknown",
    }
}

fn side_cell(side: Option<&Operation>, number: fn(&Operation) -> f64) -> Cell {
    real_cell(side.map(number))
}

fn low_end(interval: Option<Interval>) -> Cell {
    real_cell(interval.map(|interval| interval.low))
}

fn high_end(interval: Option<Interval>) -> Cell {
    real_cell(interval.map(|interval| interval.high))
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
