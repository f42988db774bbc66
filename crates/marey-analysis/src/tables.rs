//! The results of `compare` and `check` as tables for Python, JSON and readers of Arrow: metrics,
//! operations, kernels, renames and verdicts.

use crate::ask::Cell;
use crate::compare::{Category, Change, Comparison, Difference, Reason, Rename, Significance};
use crate::gate::Verdict;
use crate::metric::Unit;
use crate::stats::Interval;
use crate::table::{Columns, Kind, Table};

const METRICS: &Columns = &[
    ("metric", Kind::Text),
    ("title", Kind::Text),
    ("unit", Kind::Text),
    ("before", Kind::Real),
    ("after", Kind::Real),
    ("change", Kind::Real),
    ("change_low", Kind::Real),
    ("change_high", Kind::Real),
    ("change_percent", Kind::Real),
    ("low_percent", Kind::Real),
    ("high_percent", Kind::Real),
    ("significant", Kind::Text),
];

const OPERATIONS: &Columns = &[
    ("path", Kind::Text),
    ("name", Kind::Text),
    ("kind", Kind::Text),
    ("category", Kind::Text),
    ("count_category", Kind::Text),
    ("before_count", Kind::Real),
    ("after_count", Kind::Real),
    ("before_nanos", Kind::Real),
    ("after_nanos", Kind::Real),
    ("before_self_nanos", Kind::Real),
    ("after_self_nanos", Kind::Real),
    ("change_nanos", Kind::Real),
    ("change_percent", Kind::Real),
];

const RENAMES: &Columns =
    &[("what", Kind::Text), ("before", Kind::Text), ("after", Kind::Text), ("reason", Kind::Text)];

const VERDICTS: &Columns = &[
    ("expression", Kind::Text),
    ("outcome", Kind::Text),
    ("metric", Kind::Text),
    ("unit", Kind::Text),
    ("before", Kind::Real),
    ("after", Kind::Real),
    ("judged", Kind::Real),
    ("judged_low", Kind::Real),
    ("judged_high", Kind::Real),
    ("threshold", Kind::Real),
    ("why", Kind::Text),
];

/// Returns the metrics of both runs, one per row, with 95 % intervals.
pub fn metrics(comparison: &Comparison) -> Table {
    Table { columns: METRICS, rows: comparison.metrics.iter().map(metric).collect() }
}

/// Returns the host operations per step, one row for each path and kind, the largest change first.
pub fn operations(comparison: &Comparison) -> Table {
    Table { columns: OPERATIONS, rows: comparison.operations.iter().map(difference).collect() }
}

/// Returns the device activities per step, one row for each kernel, the largest change first.
pub fn kernels(comparison: &Comparison) -> Table {
    Table { columns: OPERATIONS, rows: comparison.kernels.iter().map(difference).collect() }
}

/// Returns the pairs that may be one operation or kernel under two names.
pub fn renames(comparison: &Comparison) -> Table {
    let rename_rows = |what, differences: &[Difference], renames: &[Rename]| -> Vec<Vec<Cell>> {
        let row = |rename: &Rename| {
            let path = |index: usize| text(&differences[index].path.join("/"));
            vec![text(what), path(rename.before), path(rename.after), text(reason(rename.reason))]
        };
        renames.iter().map(row).collect()
    };
    let mut rows = rename_rows("operation", &comparison.operations, &comparison.renamed_operations);
    rows.extend(rename_rows("kernel", &comparison.kernels, &comparison.renamed_kernels));
    Table { columns: RENAMES, rows }
}

/// Returns the verdicts, one per row, with the interval of the number that is judged.
pub fn verdicts(verdicts: &[Verdict]) -> Table {
    Table { columns: VERDICTS, rows: verdicts.iter().map(verdict).collect() }
}

fn metric(row: &Change) -> Vec<Cell> {
    let [low, high] = interval_ends(row.interval);
    let [low_percent, high_percent] = interval_ends(row.interval_percent);
    vec![
        text(&row.metric.to_string()),
        text(&row.metric.title()),
        text(unit(row.metric.unit())),
        real(row.before),
        real(row.after),
        real(row.change),
        low,
        high,
        real(row.change_percent),
        low_percent,
        high_percent,
        text(match row.significance {
            Significance::Yes => "yes",
            Significance::No => "no",
            Significance::Unknown => "unknown",
        }),
    ]
}

fn difference(row: &Difference) -> Vec<Cell> {
    let (before, after) = (row.before.as_ref(), row.after.as_ref());
    vec![
        text(&row.path.join("/")),
        text(row.path.last().map_or("", String::as_str)),
        text(&row.kind),
        text(row.category.as_str()),
        text(row.count_category.as_str()),
        real(before.map(|side| side.count)),
        real(after.map(|side| side.count)),
        real(before.map(|side| side.total_nanos)),
        real(after.map(|side| side.total_nanos)),
        real(before.map(|side| side.self_nanos)),
        real(after.map(|side| side.self_nanos)),
        Cell::Real(row.change_nanos()),
        Cell::Real(row.change_percent()),
    ]
}

fn verdict(verdict: &Verdict) -> Vec<Cell> {
    let [low, high] = interval_ends(verdict.interval);
    vec![
        text(&verdict.expression),
        text(&verdict.outcome.to_string()),
        text(&verdict.metric.to_string()),
        text(unit(verdict.metric.unit())),
        real(verdict.before),
        real(verdict.after),
        real(verdict.change),
        low,
        high,
        Cell::Real(verdict.threshold.number()),
        text(&verdict.why),
    ]
}

impl Category {
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
pub const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::SamePosition => "same position and children",
        Reason::SimilarName => "similar name",
        Reason::PartOfName => "one name is part of the other",
        Reason::SameFunction => "same function",
        Reason::SameNameInside => "same name below a renamed parent",
    }
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::Nanos => "ns",
        Unit::Bytes => "bytes",
        Unit::BytesPerStep => "bytes per step",
        Unit::Percent => "percent",
        Unit::Flag => "flag",
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn real(value: Option<f64>) -> Cell {
    value.map_or(Cell::Null, Cell::Real)
}

fn interval_ends(interval: Option<Interval>) -> [Cell; 2] {
    [real(interval.map(|interval| interval.low)), real(interval.map(|interval| interval.high))]
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::compare::{Tolerance, compare};
    use crate::measured::{Measured, Operation};
    use crate::metric::{Metric, Quantity};

    /// A run of equal steps with one operation, which takes a third of a step.
    fn run(operation: &str, step_nanos: f64) -> Measured {
        Measured {
            step_nanos: vec![step_nanos; 9],
            operations: vec![Operation {
                path: vec!["step".into(), operation.into()],
                kind: "operator".into(),
                count: 2.0,
                total_nanos: step_nanos / 3.0,
                self_nanos: step_nanos / 6.0,
            }],
            ..Measured::default()
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
