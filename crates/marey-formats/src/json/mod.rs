//! Writes all rows of a run as JSON lines, one object for each row.
//!
//! The key `table` names the table. The other keys are its columns. Ids are resolved: `name` stands
//! for `name_id`, `path` for `context_id`, and an object `args` for the arguments. Columns without
//! a value are left out. A number that is not finite is `null`.

use std::fmt::{Display, Write as _};
use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Float64Type;
use marey_model::json::quote;
use marey_model::table::stored::{LOSSES, PHASES, PROCESSES, SESSIONS, THREADS};
use marey_model::table::{Column, ColumnKind, Table, Target};
use marey_store::Reader;
use marey_store::row::{Args, Field, Row, TableVisitor, for_each_table};
use serde::de::IgnoredAny;

use crate::shared::export::{ExportError, LeftOut};

/// The number of rows that are converted to columns at a time.
const BATCH_ROWS: usize = 1024;

/// The text columns whose content is JSON, each with its table.
const JSON_COLUMNS: [(&str, &str); 3] =
    [("processes", "argv"), ("devices", "properties"), ("metadata", "value")];

/// Writes a run. Only numbers that are not finite are lost, because aggregates can be computed
/// again and all ids are resolved.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let mut writer = LineWriter { reader, out, line: String::new(), not_finite_count: 0 };
    for table in [&PROCESSES, &THREADS, &SESSIONS, &PHASES, &LOSSES] {
        let batch = reader.run().read(table)?;
        writer.write_columns(table, batch.columns())?;
    }
    for_each_table(&mut writer)?;
    left_out.insert("values that are not finite", writer.not_finite_count);
    Ok(())
}

struct LineWriter<'r, 'o> {
    reader: &'r Reader<'r>,
    out: &'o mut dyn Write,
    /// The line that is being written.
    line: String,
    /// Number of values that were written as `null`.
    not_finite_count: u64,
}

impl TableVisitor for LineWriter<'_, '_> {
    type Error = ExportError;

    fn visit<R: Row>(&mut self) -> Result<(), ExportError> {
        let reader = self.reader;
        let mut rows = reader.rows::<R>()?.peekable();
        while rows.peek().is_some() {
            let mut columns = R::Columns::default();
            for row in rows.by_ref().take(BATCH_ROWS) {
                row?.append(&mut columns);
            }
            self.write_columns(R::TABLE, &R::finish(&mut columns))?;
        }
        Ok(())
    }
}

impl LineWriter<'_, '_> {
    fn write_columns(&mut self, table: &Table, columns: &[ArrayRef]) -> Result<(), ExportError> {
        for row in 0..columns.first().map_or(0, Array::len) {
            if self.is_selected(table, columns, row) {
                self.line.clear();
                self.format_row(table, columns, row);
                self.out.write_all(self.line.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether the selection includes the process of a row.
    fn is_selected(&self, table: &Table, columns: &[ArrayRef], row: usize) -> bool {
        let Some(processes) = &self.reader.selection().processes else { return true };
        let key = if table.name == PROCESSES.name { "id" } else { "process_id" };
        table
            .position(key)
            .is_none_or(|index| processes.contains(&u32::read(&columns[index..], row)))
    }

    fn format_row(&mut self, table: &Table, columns: &[ArrayRef], row: usize) {
        self.line.push_str("{\"table\":");
        quote(table.name, &mut self.line);
        for (index, column) in table.columns.iter().enumerate() {
            if columns[index].is_valid(row) {
                self.push_column(table, column, &columns[index..], row);
            }
        }
        self.line.push_str("}\n");
    }

    fn push_column(&mut self, table: &Table, column: &Column, columns: &[ArrayRef], row: usize) {
        let Some(target) = column.target else {
            return self.push_value(table, column, columns, row);
        };
        let id = u32::read(columns, row);
        match target {
            Target::Strings => {
                self.push_text(column.name.trim_end_matches("_id"), self.reader.text(id));
            }
            Target::Contexts => self.push_context(table, id),
            Target::Args => {
                self.push_key("args");
                let mut json = String::new();
                self.reader.args(&Args::read(columns, row), &mut json);
                self.push_json(&json);
            }
            Target::Processes => self.push_process(id),
            Target::Threads => {
                self.push_unquoted("thread_id", id);
                let Some(thread) = self.reader.thread(id) else { return };
                self.push_unquoted("thread", thread.os_id);
                self.push_text("thread_name", &thread.name);
                if table.position("process_id").is_none() {
                    self.push_process(thread.process_id);
                }
            }
        }
    }

    fn push_process(&mut self, id: u32) {
        self.push_unquoted("process_id", id);
        let Some(process) = self.reader.process(id) else { return };
        self.push_unquoted("process", process.pid);
        if let Some(rank) = process.rank {
            self.push_unquoted("rank", rank);
        }
    }

    fn push_context(&mut self, table: &Table, id: u32) {
        let reader = self.reader;
        if table.position("kind").is_none() {
            self.push_text("kind", reader.context(id).kind.as_str());
        }
        self.push_key("path");
        self.push_list(reader.path(id), |lines, context| {
            quote(reader.text(reader.context(context).name_id), &mut lines.line);
        });
    }

    fn push_value(&mut self, table: &Table, column: &Column, columns: &[ArrayRef], row: usize) {
        let name = column.name;
        match column.kind {
            ColumnKind::Nanos | ColumnKind::Int => {
                self.push_unquoted(name, i64::read(columns, row));
            }
            ColumnKind::Bits => self.push_unquoted(name, u64::read(columns, row)),
            ColumnKind::Id => self.push_unquoted(name, u32::read(columns, row)),
            ColumnKind::Flag => self.push_unquoted(name, bool::read(columns, row)),
            ColumnKind::Real => {
                self.push_key(name);
                self.push_real(f64::read(columns, row));
            }
            ColumnKind::Text => {
                let text = <std::sync::Arc<str>>::read(columns, row);
                let is_json = JSON_COLUMNS.contains(&(table.name, name))
                    && serde_json::from_str::<IgnoredAny>(&text).is_ok();
                if is_json {
                    self.push_key(name);
                    self.push_json(&text);
                } else {
                    self.push_text(name, &text);
                }
            }
            ColumnKind::Reals => {
                self.push_key(name);
                let list = columns[0].as_list::<i32>().value(row);
                self.push_list(
                    list.as_primitive::<Float64Type>().values().to_vec(),
                    Self::push_real,
                );
            }
            // The integers belong to arguments, which are in `args`. The bytes are the sketches of
            // aggregates.
            ColumnKind::Ints | ColumnKind::Bytes => {}
        }
    }
}

/// Functions that append to the line.
impl LineWriter<'_, '_> {
    fn push_key(&mut self, key: &str) {
        self.line.push(',');
        quote(key, &mut self.line);
        self.line.push(':');
    }

    fn push_text(&mut self, key: &str, text: &str) {
        self.push_key(key);
        quote(text, &mut self.line);
    }

    fn push_unquoted(&mut self, key: &str, value: impl Display) {
        self.push_key(key);
        write!(self.line, "{value}").expect("writing to a `String` cannot fail");
    }

    /// Appends JSON without its line breaks.
    fn push_json(&mut self, json: &str) {
        self.line
            .extend(json.chars().map(|char| if matches!(char, '\n' | '\r') { ' ' } else { char }));
    }

    fn push_real(&mut self, value: f64) {
        if value.is_finite() {
            write!(self.line, "{value:?}").expect("writing to a `String` cannot fail");
        } else {
            self.not_finite_count += 1;
            self.line.push_str("null");
        }
    }

    fn push_list<V>(&mut self, values: Vec<V>, write: impl Fn(&mut Self, V)) {
        self.line.push('[');
        for (number, value) in values.into_iter().enumerate() {
            if number > 0 {
                self.line.push(',');
            }
            write(self, value);
        }
        self.line.push(']');
    }
}
