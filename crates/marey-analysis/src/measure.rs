//! Reads the numbers of a run that `compare` and `check` use, with a fixed set of queries.

use std::collections::HashMap;

use marey_query::sql::SqlError;

use crate::ask::{Cell, Question, Questions, Rows};
use crate::metric::{Metric, Quantity, Summary};
use crate::rule::Thresholds;
use crate::rules;
use crate::run_measurements::{Kernel, Operation, RunMeasurements};
use crate::stats::theil_sen;

/// The queries, in the order in which their rows are read.
const QUERIES: [&str; 8] = [
    include_str!("../compare/steps.sql"),
    include_str!("../compare/devices.sql"),
    include_str!("../compare/launches.sql"),
    include_str!("../compare/recording.sql"),
    include_str!("../compare/memory.sql"),
    include_str!("../compare/contexts.sql"),
    include_str!("../compare/operations.sql"),
    include_str!("../compare/kernels.sql"),
];

/// The quantities of devices. Each comes with its column in the rows per step, and its column in
/// the row for the whole recording.
const DEVICE_QUANTITIES: [(Quantity, &str, &str); 6] = [
    (Quantity::GpuBusy, "busy_nanos", "busy"),
    (Quantity::GpuIdle, "idle_nanos", "idle"),
    (Quantity::GpuCompute, "compute_nanos", "compute"),
    (Quantity::GpuCopies, "memory_nanos", "memory"),
    (Quantity::Communication, "communication_nanos", "communication"),
    (Quantity::ExposedCommunication, "exposed_communication_nanos", "exposed_communication"),
];

impl RunMeasurements {
    /// Measures the run of `questions`, under this name.
    pub fn query(questions: &Questions<'_>, name: String) -> Result<Self, SqlError> {
        let answers = questions.ask_all(&QUERIES.map(|sql| Question::new(sql, &[])))?;
        let [steps, devices, launches, recording, memory, contexts, operations, kernels] =
            <[Rows; 8]>::try_from(answers).unwrap_or_default();
        let context_tree = ContextTree::from_rows(&contexts);
        let mut series: Vec<(Quantity, Vec<f64>)> = DEVICE_QUANTITIES
            .iter()
            .map(|(quantity, column, _)| (*quantity, column_numbers(&devices, column)))
            .collect();
        series.push((Quantity::KernelLaunches, column_numbers(&launches, "launch_count")));
        Ok(Self {
            name,
            step_nanos: column_numbers(&steps, "step_nanos"),
            series,
            scalars: scalars(questions, &devices, &recording, &memory)?,
            operations: operations
                .rows
                .iter()
                .map(|row| operation(&operations, row, &context_tree))
                .collect(),
            kernels: kernels.rows.iter().map(|row| kernel(&kernels, row)).collect(),
        })
    }
}

fn scalars(
    questions: &Questions<'_>,
    devices: &Rows,
    recording: &Rows,
    memory: &Rows,
) -> Result<Vec<(Metric, Option<f64>)>, SqlError> {
    let recording_value = |column| recording.column(column).next().and_then(Cell::number);
    let metric = |quantity, summary| Metric { quantity, summary };
    let peak_bytes = recording_value("peak_bytes");
    let mut scalars = vec![
        (metric(Quantity::TotalTime, Summary::Total), recording_value("total_nanos")),
        (metric(Quantity::GpuMemory, Summary::Peak), peak_bytes),
        (Quantity::Mfu.default_metric(), recording_value("mfu_percent")),
    ];
    if peak_bytes.is_some() {
        let allocated_by_step: Vec<(f64, f64)> = (0_u32..)
            .zip(column_numbers(memory, "allocated_bytes"))
            .map(|(step, bytes)| (f64::from(step), bytes))
            .collect();
        let leaks = questions.ask_all(&[rules::MEMORY_LEAK.question(&Thresholds::default())])?;
        let is_growing = leaks.iter().any(|rows| !rows.rows.is_empty());
        scalars.push((metric(Quantity::GpuMemory, Summary::Growth), theil_sen(&allocated_by_step)));
        scalars.push((metric(Quantity::GpuMemory, Summary::Growing), Some(f64::from(is_growing))));
    }
    let steps_nanos: f64 = column_numbers(devices, "duration_nanos").iter().sum();
    for (quantity, step_column, recording_column) in DEVICE_QUANTITIES {
        let share = if steps_nanos > 0.0 {
            Some(column_numbers(devices, step_column).iter().sum::<f64>() / steps_nanos)
        } else {
            recording_value(recording_column)
        };
        scalars.push((Metric::percent(quantity), share.map(|share| 100.0 * share)));
    }
    Ok(scalars)
}

/// The calling-context tree: the parent and the name of each context. Paths are built from names
/// instead of splitting them, because a name may contain a `/`.
struct ContextTree<'a>(HashMap<i64, (Option<i64>, &'a str)>);

impl<'a> ContextTree<'a> {
    fn from_rows(contexts: &'a Rows) -> Self {
        let ids = contexts.column("id").map(|id| id.integer().unwrap_or(-1));
        let parents = contexts.column("parent_id").map(Cell::integer);
        let names = contexts.column("name").map(Cell::text);
        Self(ids.zip(parents.zip(names)).collect())
    }

    /// The names from the outermost context to this one.
    fn path(&self, id: Option<i64>) -> Vec<String> {
        let mut path = Vec::new();
        let mut context = id.and_then(|id| self.0.get(&id));
        // The root has no parent, which ends the loop. The length check ends it if a damaged file
        // has a cycle.
        while let Some(&(Some(parent), name)) = context
            && path.len() < self.0.len()
        {
            path.push(name.to_owned());
            context = self.0.get(&parent);
        }
        path.reverse();
        path
    }
}

fn operation(rows: &Rows, row: &[Cell], context_tree: &ContextTree<'_>) -> Operation {
    Operation {
        path: context_tree.path(rows.cell(row, "context_id").integer()),
        kind: rows.cell(row, "kind").text().to_owned(),
        count: number_or_nan(rows.cell(row, "count")),
        total_nanos: number_or_nan(rows.cell(row, "total_nanos")),
        self_nanos: number_or_nan(rows.cell(row, "self_nanos")),
    }
}

fn kernel(rows: &Rows, row: &[Cell]) -> Kernel {
    Kernel {
        name: rows.cell(row, "name").text().to_owned(),
        count: number_or_nan(rows.cell(row, "count")),
        total_nanos: number_or_nan(rows.cell(row, "total_nanos")),
    }
}

fn column_numbers(rows: &Rows, column: &str) -> Vec<f64> {
    rows.column(column).map(number_or_nan).collect()
}

fn number_or_nan(cell: &Cell) -> f64 {
    cell.number().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_names_below_the_root_and_ends_in_a_cycle() {
        let row = |id: i64, parent: Option<i64>, name: &str| {
            let parent = parent.map_or(Cell::Null, Cell::Int);
            vec![Cell::Int(id), parent, Cell::Text(name.to_owned())]
        };
        let contexts = Rows {
            columns: ["id", "parent_id", "name"].map(str::to_owned).to_vec(),
            rows: vec![
                row(0, None, ""),
                row(1, Some(0), "a/b"),
                row(2, Some(1), "c"),
                row(3, Some(4), "x"),
                row(4, Some(3), "y"),
            ],
            ..Rows::default()
        };
        let tree = ContextTree::from_rows(&contexts);
        assert_eq!(tree.path(Some(2)), ["a/b", "c"]);
        assert!(tree.path(Some(0)).is_empty() && tree.path(Some(9)).is_empty());
        assert!(tree.path(None).is_empty());
        assert_eq!(tree.path(Some(3)), ["x", "y", "x", "y", "x"]);
    }
}
