//! JSON lines: all rows of a run, one object for each row.
//!
//! The key `table` names the table. The other keys are its columns, with ids resolved: `name` for
//! `name_id`, `path` for `context_id`, an object `args`. Columns without a value are left out. A
//! number that is not finite is `null`.

use std::fmt::{Display, Write as _};
use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Float64Type;
use marey_model::json::quote;
use marey_model::table::stored::{LOSSES, PHASES, PROCESSES, SESSIONS, THREADS};
use marey_model::table::{Column, ColumnKind, Table, Target};
use marey_store::Reader;
use marey_store::row::{
    Args, AsyncSpan, Collective, Device, Field, Flow, GpuActivity, Instant, MemoryBlock,
    MemoryEvent, Metadata, Metric, Row, Sample, Span, Step,
};
use serde::de::IgnoredAny;

use crate::shared::export::{ExportError, LeftOut};

/// Rows that are converted to columns at a time.
const BATCH_ROWS: usize = 1024;

/// Text columns whose content is JSON.
const JSON: [(&str, &str); 3] =
    [("processes", "argv"), ("devices", "properties"), ("metadata", "value")];

/// Writes a run. Only numbers that are not finite are lost: texts, contexts and arguments are
/// resolved in place, and aggregates can be computed again.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let mut lines = Lines { reader, out, line: String::new(), not_finite: 0 };
    for table in [&PROCESSES, &THREADS, &SESSIONS, &PHASES, &LOSSES] {
        let batch = reader.run().read(table)?;
        lines.write(table, batch.columns())?;
    }
    lines.rows::<Device>()?;
    lines.rows::<Metadata>()?;
    lines.rows::<Step>()?;
    lines.rows::<Span>()?;
    lines.rows::<AsyncSpan>()?;
    lines.rows::<GpuActivity>()?;
    lines.rows::<Instant>()?;
    lines.rows::<Flow>()?;
    lines.rows::<Metric>()?;
    lines.rows::<Sample>()?;
    lines.rows::<Collective>()?;
    lines.rows::<MemoryEvent>()?;
    lines.rows::<MemoryBlock>()?;
    left_out.insert("values that are not finite", lines.not_finite);
    Ok(())
}

struct Lines<'r, 'o> {
    reader: &'r Reader<'r>,
    out: &'o mut dyn Write,
    /// The line that is being written.
    line: String,
    /// Numbers that are `null`.
    not_finite: u64,
}

impl Lines<'_, '_> {
    fn rows<R: Row>(&mut self) -> Result<(), ExportError> {
        let reader = self.reader;
        let mut rows = reader.rows::<R>()?.peekable();
        while rows.peek().is_some() {
            let mut columns = R::Columns::default();
            for row in rows.by_ref().take(BATCH_ROWS) {
                row?.append(&mut columns);
            }
            self.write(R::TABLE, &R::finish(&mut columns))?;
        }
        Ok(())
    }

    fn write(&mut self, table: &Table, columns: &[ArrayRef]) -> Result<(), ExportError> {
        for row in 0..columns.first().map_or(0, Array::len) {
            if self.is_wanted(table, columns, row) {
                self.line.clear();
                self.row(table, columns, row);
                self.out.write_all(self.line.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether the window includes the row's process.
    fn is_wanted(&self, table: &Table, columns: &[ArrayRef], row: usize) -> bool {
        let Some(wanted) = &self.reader.window().processes else { return true };
        let key = if table.name == PROCESSES.name { "id" } else { "process_id" };
        table.position(key).is_none_or(|index| wanted.contains(&u32::read(&columns[index..], row)))
    }

    fn row(&mut self, table: &Table, columns: &[ArrayRef], row: usize) {
        self.line.push_str("{\"table\":");
        quote(table.name, &mut self.line);
        for (index, column) in table.columns.iter().enumerate() {
            if columns[index].is_valid(row) {
                self.column(table, column, &columns[index..], row);
            }
        }
        self.line.push_str("}\n");
    }

    fn column(&mut self, table: &Table, column: &Column, columns: &[ArrayRef], row: usize) {
        let Some(target) = column.refers else {
            return self.value(table, column, columns, row);
        };
        let id = u32::read(columns, row);
        match target {
            Target::Strings => {
                self.text(column.name.trim_end_matches("_id"), self.reader.text(id));
            }
            Target::Contexts => self.context(table, id),
            Target::Args => {
                self.key("args");
                let mut json = String::new();
                self.reader.args(&Args::read(columns, row), &mut json);
                self.json(&json);
            }
            Target::Processes => self.process(id),
            Target::Threads => {
                self.unquoted("thread_id", id);
                let Some(thread) = self.reader.thread(id) else { return };
                self.unquoted("thread", thread.os_id);
                self.text("thread_name", &thread.name);
                if table.position("process_id").is_none() {
                    self.process(thread.process_id);
                }
            }
        }
    }

    fn process(&mut self, id: u32) {
        self.unquoted("process_id", id);
        let Some(process) = self.reader.process(id) else { return };
        self.unquoted("process", process.pid);
        if let Some(rank) = process.rank {
            self.unquoted("rank", rank);
        }
    }

    fn context(&mut self, table: &Table, id: u32) {
        let reader = self.reader;
        if table.position("kind").is_none() {
            self.text("kind", reader.context(id).kind.as_str());
        }
        self.key("path");
        self.list(reader.path(id), |lines, context| {
            quote(reader.text(reader.context(context).name_id), &mut lines.line);
        });
    }

    fn value(&mut self, table: &Table, column: &Column, columns: &[ArrayRef], row: usize) {
        let name = column.name;
        match column.kind {
            ColumnKind::Nanos | ColumnKind::Int => self.unquoted(name, i64::read(columns, row)),
            ColumnKind::Bits => self.unquoted(name, u64::read(columns, row)),
            ColumnKind::Id => self.unquoted(name, u32::read(columns, row)),
            ColumnKind::Flag => self.unquoted(name, bool::read(columns, row)),
            ColumnKind::Real => {
                self.key(name);
                self.real(f64::read(columns, row));
            }
            ColumnKind::Text => {
                let text = <std::sync::Arc<str>>::read(columns, row);
                let is_json = JSON.contains(&(table.name, name))
                    && serde_json::from_str::<IgnoredAny>(&text).is_ok();
                if is_json {
                    self.key(name);
                    self.json(&text);
                } else {
                    self.text(name, &text);
                }
            }
            ColumnKind::Reals => {
                self.key(name);
                let list = columns[0].as_list::<i32>().value(row);
                self.list(list.as_primitive::<Float64Type>().values().to_vec(), Self::real);
            }
            // The numbers of arguments are part of `args`, and sketches belong to aggregates.
            ColumnKind::Ints | ColumnKind::Bytes => {}
        }
    }
}

/// The parts of a line.
impl Lines<'_, '_> {
    fn key(&mut self, key: &str) {
        self.line.push(',');
        quote(key, &mut self.line);
        self.line.push(':');
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        quote(text, &mut self.line);
    }

    fn unquoted(&mut self, key: &str, value: impl Display) {
        self.key(key);
        write!(self.line, "{value}").expect("writing to a `String` cannot fail");
    }

    /// Appends JSON without its line breaks.
    fn json(&mut self, json: &str) {
        self.line
            .extend(json.chars().map(|char| if matches!(char, '\n' | '\r') { ' ' } else { char }));
    }

    fn real(&mut self, value: f64) {
        if value.is_finite() {
            write!(self.line, "{value:?}").expect("writing to a `String` cannot fail");
        } else {
            self.not_finite += 1;
            self.line.push_str("null");
        }
    }

    fn list<V>(&mut self, values: Vec<V>, write: impl Fn(&mut Self, V)) {
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
