//! Reads a run row by row, for exporters.
//!
//! [`Reader`] resolves ids and merges the rows of a table in order over all parts. It holds one
//! batch of each part that has been started, so memory does not grow with the run.

mod definitions;
mod rows;
mod spans_by_thread;

use std::collections::HashSet;

use arrow::array::{Array, AsArray, StringArray};
use marey_model::args::fill;
use marey_model::context::NodeKind;
use marey_model::table::Table;
use marey_model::table::stored::STRINGS;

pub use self::definitions::{Context, ProcessRow, ThreadRow};
pub use self::rows::Rows;
pub use self::spans_by_thread::SpansByThread;

use self::definitions::{read_arg_texts, read_contexts, read_processes, read_threads};
use self::rows::is_selected;
use crate::read::Batches;
use crate::row::{Args, Row};
use crate::{Part, Run, StoreError};

/// A reader of a run, row by row. An id without a row, which only a damaged run has, resolves to an
/// empty text or the root.
#[derive(Debug)]
pub struct Reader<'r> {
    run: &'r Run,
    selection: Selection,
    texts: StringArray,
    contexts: Vec<Context>,
    /// Batches of argument texts, each with the id of its first text. All texts together may exceed
    /// the limit of an array.
    args: Vec<(u32, StringArray)>,
    processes: Vec<ProcessRow>,
    threads: Vec<ThreadRow>,
}

impl<'r> Reader<'r> {
    /// Creates a reader and loads texts, contexts, arguments, processes and threads.
    pub fn new(run: &'r Run, selection: Selection) -> Result<Self, StoreError> {
        Ok(Self {
            texts: run.read(&STRINGS)?.column(1).as_string().clone(),
            contexts: read_contexts(run)?,
            args: read_arg_texts(run)?,
            processes: read_processes(run)?,
            threads: read_threads(run)?,
            run,
            selection,
        })
    }

    /// Returns the run.
    pub fn run(&self) -> &'r Run {
        self.run
    }

    /// Returns the selection of rows.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Returns a text by its id.
    pub fn text(&self, id: u32) -> &str {
        text_at(&self.texts, id).unwrap_or_default()
    }

    /// Returns all contexts. The position of each is its id.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// Returns a context by its id.
    pub fn context(&self, id: u32) -> Context {
        let root = Context { parent: None, depth: 0, kind: NodeKind::Root, name_id: 0 };
        self.contexts.get(id as usize).copied().unwrap_or(root)
    }

    /// Returns the ids on the path to a context, outermost first, without the root.
    pub fn path(&self, context: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut context_id = context;
        // A parent's id is lower than its child's, so this ends.
        while let Some(parent) =
            self.context(context_id).parent.filter(|&parent| parent < context_id)
        {
            path.push(context_id);
            context_id = parent;
        }
        path.reverse();
        path
    }

    /// Appends the arguments of an event as a JSON object, or `{}` if it has none.
    pub fn args(&self, args: &Args, json: &mut String) {
        let template = args.text_id.map_or("{}", |id| self.arg_template(id));
        fill(template, &args.numbers, json);
    }

    /// Returns the template of arguments with this id.
    pub(crate) fn arg_template(&self, id: u32) -> &str {
        let after = self.args.partition_point(|(first_id, _)| *first_id <= id);
        let batch = after.checked_sub(1).map(|index| &self.args[index]);
        batch.and_then(|(first_id, texts)| text_at(texts, id - first_id)).unwrap_or("{}")
    }

    /// Returns the processes of the selection.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessRow> {
        self.processes.iter().filter(|process| self.is_selected(process.id))
    }

    /// Returns a process by its id.
    pub fn process(&self, id: u32) -> Option<&ProcessRow> {
        find_by_id(&self.processes, id, |process| process.id)
    }

    /// Returns the threads of the selection.
    pub fn threads(&self) -> impl Iterator<Item = &ThreadRow> {
        self.threads.iter().filter(|thread| self.is_selected(thread.process_id))
    }

    /// Returns a thread by its id.
    pub fn thread(&self, id: u32) -> Option<&ThreadRow> {
        find_by_id(&self.threads, id, |thread| thread.id)
    }

    /// Returns the rows of a table in the selection, in the table's order over all parts.
    pub fn rows<R: Row>(&self) -> Result<Rows<'_, R>, StoreError> {
        let parts = self.run.parts(R::TABLE).iter();
        let batches = parts.map(|part| Batches::open(self.run.path(), part, R::TABLE));
        Ok(Rows::new(self, batches.collect::<Result<_, _>>()?))
    }

    /// Returns the number of rows of a table in the selection.
    pub fn count(&self, table: &'static Table) -> Result<u64, StoreError> {
        let parts = self.run.parts(table);
        if self.selection.is_all_time() && self.selection.processes.is_none() {
            return Ok(parts.iter().map(Part::row_count).sum());
        }
        let mut count = 0;
        for part in parts {
            for batch in Batches::open(self.run.path(), part, table)? {
                let batch = batch?;
                let is_wanted = |row: &usize| is_selected(table, batch.columns(), *row, self);
                count += (0..batch.num_rows()).filter(is_wanted).count() as u64;
            }
        }
        Ok(count)
    }

    /// Returns the spans in the selection by thread, then by start, parents first.
    pub fn spans_by_thread(&self) -> Result<SpansByThread, StoreError> {
        SpansByThread::sort(self)
    }

    fn is_selected(&self, process: u32) -> bool {
        self.selection.processes.as_ref().is_none_or(|selected| selected.contains(&process))
    }
}

/// A selection of rows by time and process. Rows are included if they overlap the time range.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Rows that end before this time are excluded. In nanoseconds since 1970.
    pub from_nanos: i64,
    /// Rows that begin at this time or later are excluded.
    pub until_nanos: i64,
    /// Only rows of these processes are included, or all rows if it is `None`.
    pub processes: Option<HashSet<u32>>,
}

impl Selection {
    /// Whether the time range is unlimited.
    fn is_all_time(&self) -> bool {
        (self.from_nanos, self.until_nanos) == (i64::MIN, i64::MAX)
    }
}

impl Default for Selection {
    /// Selects all rows.
    fn default() -> Self {
        Self { from_nanos: i64::MIN, until_nanos: i64::MAX, processes: None }
    }
}

fn text_at(texts: &StringArray, id: u32) -> Option<&str> {
    ((id as usize) < texts.len()).then(|| texts.value(id as usize))
}

/// Finds a row by its id, which is its position in most runs.
fn find_by_id<T>(rows: &[T], id: u32, id_of: impl Fn(&T) -> u32) -> Option<&T> {
    let at_position = rows.get(id as usize).filter(|row| id_of(row) == id);
    at_position.or_else(|| rows.iter().find(|row| id_of(row) == id))
}
