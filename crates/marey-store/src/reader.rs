//! Reads a run row by row, for exporters.
//!
//! [`Reader`] resolves ids and merges the rows of a table in order over all parts. It holds one
//! batch of each part that has been started, so memory does not grow with the run.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use marey_model::args::fill;
use marey_model::context::NodeKind;
use marey_model::table::Table;
use marey_model::table::stored::{ARGS, CONTEXTS, PROCESSES, STRINGS, THREADS};

use crate::environment::temp_dir;
use crate::read::Batches;
use crate::row::{Args, Bytes, Damaged, Field, Row, Span};
use crate::sort::{Sortable, Sorter, SpillFile};
use crate::{Part, Run, StoreError};

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
            contexts: read_rows(run, &CONTEXTS, read_context)?,
            args: read_arg_texts(run)?,
            processes: read_rows(run, &PROCESSES, read_process)?,
            threads: read_rows(run, &THREADS, read_thread)?,
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
            return Ok(parts.iter().map(Part::rows).sum());
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
        // The rows spill to the temporary folder, because the run's folder may not be writable.
        let mut sorter = Sorter::new(&SpillFile::new(&temp_dir()));
        for span in self.rows::<Span>()? {
            let span = span?;
            let depth = self.context(span.context_id).depth;
            sorter.push(&ByThreadSpan { span, depth })?;
        }
        Ok(SpansByThread { sorter })
    }

    fn is_selected(&self, process: u32) -> bool {
        self.selection.processes.as_ref().is_none_or(|selected| selected.contains(&process))
    }
}

/// Spans sorted by thread, then by start.
#[derive(Debug)]
pub struct SpansByThread {
    sorter: Sorter<ByThreadSpan>,
}

#[derive(Debug)]
struct ByThreadSpan {
    span: Span,
    depth: u32,
}

impl SpansByThread {
    /// Passes all spans to `on_span`, in order.
    pub fn for_each<E: From<StoreError>>(
        self,
        mut on_span: impl FnMut(&Span) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut callback_result = Ok(());
        let sort_result = self.sorter.for_each(|row| {
            if callback_result.is_ok() {
                callback_result = on_span(&row.span);
            }
            Ok(())
        });
        callback_result?;
        Ok(sort_result?)
    }
}

impl Sortable for ByThreadSpan {
    type Key = (u32, i64, Reverse<i64>, u32);

    fn key(&self) -> Self::Key {
        let Span { thread_id, start_nanos, duration_nanos, .. } = self.span;
        (thread_id, start_nanos, Reverse(duration_nanos), self.depth)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Row::encode(&self.span, out);
        Field::encode(&self.depth, out);
    }

    fn decode(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        Ok(Self { span: Row::decode(input)?, depth: Field::decode(input)? })
    }
}

/// The rows of a table in its order over all parts.
pub struct Rows<'r, R> {
    reader: &'r Reader<'r>,
    /// A min-heap of the parts, by their next rows.
    cursors: BinaryHeap<Reverse<PartCursor<'r>>>,
    row_type: PhantomData<R>,
}

/// The read position in a part.
struct PartCursor<'r> {
    /// The sort key of the next row, then the number of the part.
    key: (i64, usize),
    /// The columns of the current batch. Empty before the first read.
    columns: Vec<ArrayRef>,
    row: usize,
    batches: Batches<'r>,
}

impl<'r, R: Row> Rows<'r, R> {
    fn new(reader: &'r Reader<'r>, parts: Vec<Batches<'r>>) -> Self {
        let mut cursors = BinaryHeap::with_capacity(parts.len());
        for (number, batches) in parts.into_iter().enumerate() {
            // A part with an unknown first key sorts first, so it is read at once and its key
            // becomes known.
            let first = if R::TABLE.sorted_by.is_some() { batches.first_key() } else { Some(0) };
            let key = (first.unwrap_or(i64::MIN), number);
            cursors.push(Reverse(PartCursor { key, columns: Vec::new(), row: 0, batches }));
        }
        Self { reader, cursors, row_type: PhantomData }
    }

    fn next_row(&mut self) -> Result<Option<R>, StoreError> {
        while let Some(mut least) = self.cursors.peek_mut() {
            let cursor = &mut least.0;
            if cursor.columns.is_empty() {
                if !cursor.load_batch(R::TABLE)? {
                    PeekMut::pop(least);
                }
                continue;
            }
            let row = is_selected(R::TABLE, &cursor.columns, cursor.row, self.reader)
                .then(|| R::read(&cursor.columns, cursor.row));
            cursor.row += 1;
            if cursor.row < cursor.columns[0].len() {
                cursor.key.0 = sort_key(R::TABLE, &cursor.columns, cursor.row);
            } else if !cursor.load_batch(R::TABLE)? {
                PeekMut::pop(least);
            }
            if row.is_some() {
                return Ok(row);
            }
        }
        Ok(None)
    }
}

impl<R: Row> Iterator for Rows<'_, R> {
    type Item = Result<R, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

impl PartCursor<'_> {
    /// Loads the next batch. Returns whether there is one.
    fn load_batch(&mut self, table: &'static Table) -> Result<bool, StoreError> {
        for batch in self.batches.by_ref() {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.columns = batch.columns().to_vec();
                self.row = 0;
                self.key.0 = sort_key(table, &self.columns, 0);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Ord for PartCursor<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for PartCursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PartCursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for PartCursor<'_> {}

/// Returns the sort key of a row, which is 0 for all rows of an unsorted table.
fn sort_key(table: &Table, columns: &[ArrayRef], row: usize) -> i64 {
    let column = table.sorted_by.and_then(|column| table.position(column));
    column.map_or(0, |index| i64::read(&columns[index..], row))
}

/// Whether a row is in the selection.
fn is_selected(table: &Table, columns: &[ArrayRef], row: usize, reader: &Reader) -> bool {
    let selection = &reader.selection;
    let column = |name: &str| table.position(name).map(|index| &columns[index..]);
    if let Some(selected) = &selection.processes {
        let process = match (column("process_id"), column("thread_id")) {
            (Some(process), _) => Some(u32::read(process, row)),
            (None, Some(thread)) => {
                reader.thread(u32::read(thread, row)).map(|thread| thread.process_id)
            }
            (None, None) => None,
        };
        if process.is_some_and(|process| !selected.contains(&process)) {
            return false;
        }
    }
    if selection.is_all_time() {
        return true;
    }
    let moment = column("start_nanos").or_else(|| column("time_nanos"));
    let Some(start) = moment.and_then(|moment| Option::<i64>::read(moment, row)) else {
        return true;
    };
    let duration = column("duration_nanos").and_then(|column| Option::<i64>::read(column, row));
    let end = start.saturating_add(duration.unwrap_or(0));
    start < selection.until_nanos && (end > selection.from_nanos || start >= selection.from_nanos)
}

fn read_arg_texts(run: &Run) -> Result<Vec<(u32, StringArray)>, StoreError> {
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

fn text_at(texts: &StringArray, id: u32) -> Option<&str> {
    ((id as usize) < texts.len()).then(|| texts.value(id as usize))
}

/// Finds a row by its id, which is its position in most runs.
fn find_by_id<T>(rows: &[T], id: u32, id_of: impl Fn(&T) -> u32) -> Option<&T> {
    let at_position = rows.get(id as usize).filter(|row| id_of(row) == id);
    at_position.or_else(|| rows.iter().find(|row| id_of(row) == id))
}

fn read_rows<T>(
    run: &Run,
    table: &'static Table,
    row: impl Fn(&Cells, usize) -> T,
) -> Result<Vec<T>, StoreError> {
    let batch = run.read(table)?;
    let cells = Cells { table, batch: &batch };
    Ok((0..batch.num_rows()).map(|index| row(&cells, index)).collect())
}

/// The cells of a small table, by column name.
struct Cells<'a> {
    table: &'static Table,
    batch: &'a RecordBatch,
}

impl Cells<'_> {
    fn get<F: Field>(&self, column: &str, row: usize) -> F {
        let index = self.table.position(column).expect("declared");
        F::read(&self.batch.columns()[index..], row)
    }

    fn text(&self, column: &str, row: usize) -> String {
        self.get::<Arc<str>>(column, row).as_ref().to_owned()
    }
}

fn read_context(cells: &Cells, row: usize) -> Context {
    let kind = cells.get::<Arc<str>>("kind", row);
    let kind = NodeKind::ALL.into_iter().find(|known| known.as_str() == &*kind);
    Context {
        parent: cells.get("parent_id", row),
        depth: cells.get("depth", row),
        kind: kind.unwrap_or(NodeKind::Scope),
        name_id: cells.get("name_id", row),
    }
}

fn read_process(cells: &Cells, row: usize) -> ProcessRow {
    let name = cells.batch.column(cells.table.position("name").expect("declared"));
    ProcessRow {
        id: cells.get("id", row),
        pid: cells.get("pid", row),
        rank: cells.get("rank", row),
        host: cells.text("host", row),
        argv: cells.text("argv", row),
        start_nanos: cells.get("start_nanos", row),
        end_nanos: cells.get("end_nanos", row),
        name: name.is_valid(row).then(|| cells.text("name", row)),
    }
}

fn read_thread(cells: &Cells, row: usize) -> ThreadRow {
    ThreadRow {
        id: cells.get("id", row),
        process_id: cells.get("process_id", row),
        os_id: cells.get("os_id", row),
        name: cells.text("name", row),
    }
}
