//! The data of the charts in the HTML report: their queries, and their rows in the form that the
//! page's script reads.

use std::collections::HashMap;

use marey_model::table::stored;
use serde::ser::{Serialize, Serializer};

use crate::ask::{Cell, Question, Rows};
use crate::record::Record;

/// Most nodes of the flame graph. The narrowest are left out.
const MAX_NODES: u64 = 5_000;
/// Most bars of steps, over all ranks.
const MAX_STEPS: u64 = 10_000;
/// Most bars of devices, and most points of memory curves. The query aims at half as many points.
const MAX_POINTS: u64 = 5_000;

/// The data of a report's charts. A chart without rows is not drawn.
#[derive(Debug, serde::Serialize)]
pub struct Charts {
    /// A bar for each training step.
    pub steps: Records,
    /// A bar for each device.
    pub devices: Records,
    /// The points of memory curves, one curve for each device.
    pub memory: Records,
    /// The calling-context tree, parents before their children.
    pub flame: Records,
}

/// Rows that serialise as objects keyed by column name.
#[derive(Debug, Default)]
pub struct Records(pub(crate) Rows);

impl Charts {
    /// The queries for the charts.
    pub(crate) fn questions() -> [Question; 4] {
        let question = |sql: &'static str, max_rows, needed_tables| Question {
            max_rows: Some(max_rows),
            ..Question::new(sql, needed_tables)
        };
        [
            question(include_str!("../report/chart_steps.sql"), MAX_STEPS, &[&stored::STEPS]),
            question(
                include_str!("../report/chart_devices.sql"),
                MAX_POINTS,
                &[&stored::GPU_ACTIVITIES],
            ),
            question(
                include_str!("../report/chart_memory.sql"),
                MAX_POINTS,
                &[&stored::MEMORY_EVENTS],
            ),
            question(include_str!("../report/chart_flame.sql"), MAX_NODES, &[]),
        ]
    }

    /// Collects the charts. `next_rows` is called with the name of a chart and returns the rows of
    /// the next answer.
    pub(crate) fn from_answers(mut next_rows: impl FnMut(&'static str) -> Rows) -> Self {
        let mut next_records = |name| Records(next_rows(name));
        Self {
            steps: next_records("chart of steps"),
            devices: next_records("chart of devices"),
            memory: next_records("chart of memory"),
            flame: next_records("flame graph").parents_first(),
        }
    }
}

impl Records {
    /// Sorts the rows of a tree so that parents come first, and replaces the id of each parent by
    /// the parent's row index (-1 for roots). Drops rows whose parent is missing.
    fn parents_first(self) -> Self {
        let Rows { columns, mut rows, was_cut } = self.0;
        let index_of = |name| columns.iter().position(|column| column == name);
        let (Some(id_column), Some(parent_column), Some(depth_column)) =
            (index_of("id"), index_of("parent"), index_of("depth"))
        else {
            return Self::default();
        };
        rows.sort_by_key(|row| row[depth_column].integer());
        let root_depth = rows.first().and_then(|row| row[depth_column].integer());
        let mut row_index_by_id = HashMap::new();
        let mut kept_rows: Vec<Vec<Cell>> = Vec::with_capacity(rows.len());
        for mut row in rows {
            let parent_index = row[parent_column]
                .integer()
                .and_then(|parent_id| row_index_by_id.get(&parent_id).copied());
            row[parent_column] = match parent_index {
                Some(index) => Cell::Int(index),
                None if row[depth_column].integer() == root_depth => Cell::Int(-1),
                None => continue,
            };
            if let Some(id) = row[id_column].integer() {
                row_index_by_id.insert(id, kept_rows.len().cast_signed() as i64);
            }
            kept_rows.push(row);
        }
        Self(Rows { columns, rows: kept_rows, was_cut })
    }
}

impl Serialize for Records {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = &self.0.columns;
        serializer.collect_seq(self.0.rows.iter().map(|row| Record { columns, row }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chart_has_a_limit_of_rows() {
        let limits = Charts::questions().map(|question| question.max_rows);
        assert_eq!(limits, [MAX_STEPS, MAX_POINTS, MAX_POINTS, MAX_NODES].map(Some));
    }

    #[test]
    fn a_tree_refers_to_parents_by_row_index() {
        let row = |values: [i64; 3]| values.map(Cell::Int).to_vec();
        let rows = vec![row([7, 5, 2]), row([5, 0, 1]), row([9, 8, 3]), row([6, 7, 3])];
        let columns = ["id", "parent", "depth"].map(String::from).to_vec();
        let tree = Records(Rows { columns, rows, was_cut: true }).parents_first();
        assert_eq!(tree.0.rows, [row([5, -1, 1]), row([7, 0, 2]), row([6, 1, 3])]);
        let json = serde_json::to_string(&tree).unwrap();
        assert!(json.starts_with(r#"[{"id":5,"parent":-1,"depth":1},"#), "{json}");
    }
}
