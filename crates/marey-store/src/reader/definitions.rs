//! The small tables that a reader keeps in memory: contexts, processes, threads and the texts of
//! arguments.

use std::slice;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use marey_model::context::NodeKind;
use marey_model::table::Table;
use marey_model::table::stored::{ARGS, CONTEXTS, PROCESSES, THREADS};

use crate::read::Batches;
use crate::row::Field;
use crate::{Run, StoreError};

/// A node of the calling-context tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Id of its parent. The root has none.
    pub parent: Option<u32>,
    /// Number of contexts on its path, without the root.
    pub depth: u32,
    /// Kind of node.
    pub kind: NodeKind,
    /// Text id of its name.
    pub name_id: u32,
}

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRow {
    /// Id in the run.
    pub id: u32,
    /// System id, negative if unknown.
    pub pid: i64,
    /// Rank in a distributed job.
    pub rank: Option<i64>,
    /// Host name, which may be empty.
    pub host: String,
    /// Command line as a JSON list.
    pub argv: String,
    /// Start of the recording, in nanoseconds since 1970.
    pub start_nanos: i64,
    /// The last recorded timestamp.
    pub end_nanos: i64,
    /// Name in the file that it was imported from.
    pub name: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// Id in the run.
    pub id: u32,
    /// Id of its process.
    pub process_id: u32,
    /// System id, negative if unknown.
    pub os_id: i64,
    /// Name, which may be empty.
    pub name: String,
}

pub(super) fn read_contexts(run: &Run) -> Result<Vec<Context>, StoreError> {
    read_rows(run, &CONTEXTS, |cells, row| {
        let kind = cells.get::<Arc<str>>("kind", row);
        let kind = NodeKind::ALL.into_iter().find(|known| known.as_str() == &*kind);
        Context {
            parent: cells.get("parent_id", row),
            depth: cells.get("depth", row),
            kind: kind.unwrap_or(NodeKind::Scope),
            name_id: cells.get("name_id", row),
        }
    })
}

pub(super) fn read_processes(run: &Run) -> Result<Vec<ProcessRow>, StoreError> {
    read_rows(run, &PROCESSES, |cells, row| ProcessRow {
        id: cells.get("id", row),
        pid: cells.get("pid", row),
        rank: cells.get("rank", row),
        host: cells.text("host", row),
        argv: cells.text("argv", row),
        start_nanos: cells.get("start_nanos", row),
        end_nanos: cells.get("end_nanos", row),
        name: cells.array("name").is_valid(row).then(|| cells.text("name", row)),
    })
}

pub(super) fn read_threads(run: &Run) -> Result<Vec<ThreadRow>, StoreError> {
    read_rows(run, &THREADS, |cells, row| ThreadRow {
        id: cells.get("id", row),
        process_id: cells.get("process_id", row),
        os_id: cells.get("os_id", row),
        name: cells.text("name", row),
    })
}

/// Reads the texts of arguments, a batch at a time, each with the id of its first text.
pub(super) fn read_arg_texts(run: &Run) -> Result<Vec<(u32, StringArray)>, StoreError> {
    let (mut batches, mut next_id) = (Vec::new(), 0);
    for part in run.parts(&ARGS) {
        for batch in Batches::open(run.path(), part, &ARGS)? {
            let texts = batch?.column(1).as_string().clone();
            let first_id = next_id;
            next_id += texts.len() as u32;
            batches.push((first_id, texts));
        }
    }
    Ok(batches)
}

/// Reads all rows of a small table.
fn read_rows<T>(
    run: &Run,
    table: &'static Table,
    read_row: impl Fn(&Cells, usize) -> T,
) -> Result<Vec<T>, StoreError> {
    let batch = run.read(table)?;
    let cells = Cells { table, batch: &batch };
    Ok((0..batch.num_rows()).map(|row| read_row(&cells, row)).collect())
}

/// The cells of a small table, by column name.
struct Cells<'a> {
    table: &'static Table,
    batch: &'a RecordBatch,
}

impl Cells<'_> {
    fn array(&self, column: &str) -> &ArrayRef {
        self.batch.column(self.table.position(column).expect("declared"))
    }

    fn get<F: Field>(&self, column: &str, row: usize) -> F {
        F::read(slice::from_ref(self.array(column)), row)
    }

    fn text(&self, column: &str, row: usize) -> String {
        self.get::<Arc<str>>(column, row).as_ref().to_owned()
    }
}
