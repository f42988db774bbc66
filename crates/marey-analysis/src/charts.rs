//! What a report draws.

use std::collections::HashMap;

use marey_model::table::stored;
use serde::ser::{Serialize, Serializer};

use crate::ask::{Cell, Question, Rows};
use crate::record::Record;

/// Nodes of a flame graph; the narrowest are left out.
const MAX_NODES: u64 = 5_000;
/// Bars of steps, of all ranks.
const MAX_STEPS: u64 = 10_000;
/// Devices, and twice the points of lines that the query asks for.
const MAX_POINTS: u64 = 5_000;

/// What a report draws; what it has no rows for is not drawn.
#[derive(Debug, serde::Serialize)]
pub struct Charts {
    /// A bar for each training step.
    pub steps: Records,
    /// A bar for each device.
    pub devices: Records,
    /// Points of lines, one for each device.
    pub memory: Records,
    /// The calling-context tree, parents before their children.
    pub flame: Records,
}

/// Rows, each with the names of its columns.
#[derive(Debug, Default)]
pub struct Records(pub(crate) Rows);

impl Charts {
    /// What is asked to draw them.
    pub(crate) fn questions() -> [Question; 4] {
        let question = |sql: &'static str, max_rows, needs| Question {
            sql: sql.into(),
            max_rows: Some(max_rows),
            needs,
            or_with: None,
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

    /// Of the answers to these, each of which is asked for by the name of its chart.
    pub(crate) fn of(mut next: impl FnMut(&'static str) -> Rows) -> Self {
        let mut next = |name| Records(next(name));
        Self {
            steps: next("chart of steps"),
            devices: next("chart of devices"),
            memory: next("chart of memory"),
            flame: next("flame graph").parents_first(),
        }
    }
}

impl Records {
    /// A tree whose rows name themselves and their parents by id, as one whose rows name their
    /// parents by their places; those whose parents are missing go.
    fn parents_first(self) -> Self {
        let Rows { columns, mut rows, was_cut } = self.0;
        let at = |name| columns.iter().position(|column| column == name);
        let (Some(id), Some(parent), Some(depth)) = (at("id"), at("parent"), at("depth")) else {
            return Self::default();
        };
        rows.sort_by_key(|row| row[depth].whole());
        let top = rows.first().and_then(|row| row[depth].whole());
        let mut places = HashMap::new();
        let mut kept: Vec<Vec<Cell>> = Vec::with_capacity(rows.len());
        for mut row in rows {
            let above = row[parent].whole().and_then(|parent| places.get(&parent).copied());
            row[parent] = match above {
                Some(place) => Cell::Int(place),
                None if row[depth].whole() == top => Cell::Int(-1),
                None => continue,
            };
            if let Some(id) = row[id].whole() {
                places.insert(id, kept.len().cast_signed() as i64);
            }
            kept.push(row);
        }
        Self(Rows { columns, rows: kept, was_cut })
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
    fn a_tree_names_places_in_place_of_ids() {
        let row = |values: [i64; 3]| values.map(Cell::Int).to_vec();
        let rows = vec![row([7, 5, 2]), row([5, 0, 1]), row([9, 8, 3]), row([6, 7, 3])];
        let columns = ["id", "parent", "depth"].map(String::from).to_vec();
        let tree = Records(Rows { columns, rows, was_cut: true }).parents_first();
        assert_eq!(tree.0.rows, [row([5, -1, 1]), row([7, 0, 2]), row([6, 1, 3])]);
        let json = serde_json::to_string(&tree).unwrap();
        assert!(json.starts_with(r#"[{"id":5,"parent":-1,"depth":1},"#), "{json}");
    }
}
