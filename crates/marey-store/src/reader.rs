//! Reading a run row by row: what exporters do.
//!
//! [`Reader`] holds what ids stand for and gives the rows of a table in their order over all parts,
//! one batch at a time of each part that has begun, so memory does not grow with the run.

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
use crate::sort::{Room, Sortable, Sorter};
use crate::{Run, StoreError};

/// What of a run is read: rows that reach into a stretch of time, of some processes.
#[derive(Clone, Debug)]
pub struct Window {
    /// Rows that end before are left out; nanoseconds since 1970.
    pub from_nanos: i64,
    /// Rows that begin here or later are left out.
    pub until_nanos: i64,
    /// Only rows of these processes; `None` for all.
    pub processes: Option<HashSet<u32>>,
}

impl Window {
    /// Whether no moment is left out.
    fn is_all_time(&self) -> bool {
        (self.from_nanos, self.until_nanos) == (i64::MIN, i64::MAX)
    }
}

impl Default for Window {
    /// All of it.
    fn default() -> Self {
        Self { from_nanos: i64::MIN, until_nanos: i64::MAX, processes: None }
    }
}

/// A place in the calling-context tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The one around it; the root has none.
    pub parent: Option<u32>,
    /// Contexts between it and the root, itself included.
    pub depth: u32,
    /// What it is.
    pub kind: NodeKind,
    /// Its name.
    pub name_id: u32,
}

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRow {
    /// Its id in the run.
    pub id: u32,
    /// Its id in the system; below 0, if it has none.
    pub pid: i64,
    /// Its rank in a distributed job.
    pub rank: Option<i64>,
    /// The host that it ran on; may be empty.
    pub host: String,
    /// Its command line as a JSON list.
    pub argv: String,
    /// When recording began, in nanoseconds since 1970.
    pub start_nanos: i64,
    /// The last moment of which there is a record.
    pub end_nanos: i64,
    /// The name that a foreign trace gave it.
    pub name: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// Its id in the run.
    pub id: u32,
    /// Its process.
    pub process_id: u32,
    /// Its id in the system; below 0, if it has none.
    pub os_id: i64,
    /// Its name; may be empty.
    pub name: String,
}

/// Reads a run row by row. An id that the run has nothing for, as only a damaged one can have, is an
/// empty text or the root.
#[derive(Debug)]
pub struct Reader<'r> {
    run: &'r Run,
    window: Window,
    texts: StringArray,
    contexts: Vec<Context>,
    /// Some at a time, each with the id of its first: all together may be too many bytes for an array.
    args: Vec<(u32, StringArray)>,
    processes: Vec<ProcessRow>,
    threads: Vec<ThreadRow>,
}

impl<'r> Reader<'r> {
    /// Of a run, with what its ids stand for.
    pub fn new(run: &'r Run, window: Window) -> Result<Self, StoreError> {
        Ok(Self {
            texts: run.read(&STRINGS)?.column(1).as_string().clone(),
            contexts: rows(run, &CONTEXTS, context)?,
            args: args(run)?,
            processes: rows(run, &PROCESSES, process)?,
            threads: rows(run, &THREADS, thread)?,
            run,
            window,
        })
    }

    /// The run.
    pub fn run(&self) -> &'r Run {
        self.run
    }

    /// What of it is read.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// A text by its id.
    pub fn text(&self, id: u32) -> &str {
        value(&self.texts, id).unwrap_or_default()
    }

    /// Every context by its id.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// A context by its id.
    pub fn context(&self, id: u32) -> Context {
        let root = Context { parent: None, depth: 0, kind: NodeKind::Root, name_id: 0 };
        self.contexts.get(id as usize).copied().unwrap_or(root)
    }

    /// The contexts from the outermost one to this one, without the root.
    pub fn path(&self, context: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = context;
        // A parent's number is less than its child's, so this ends.
        while let Some(parent) = self.context(at).parent.filter(|&parent| parent < at) {
            path.push(at);
            at = parent;
        }
        path.reverse();
        path
    }

    /// Appends the arguments of an event as a JSON object; `{}` if it has none.
    pub fn args(&self, args: &Args, json: &mut String) {
        let text = args.text_id.and_then(|id| {
            let at = self.args.partition_point(|(first, _)| *first <= id).checked_sub(1)?;
            let (first, texts) = &self.args[at];
            value(texts, id - first)
        });
        fill(text.unwrap_or("{}"), &args.numbers, json);
    }

    /// The processes of the window.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessRow> {
        self.processes.iter().filter(|process| self.is_wanted(process.id))
    }

    /// A process by its id.
    pub fn process(&self, id: u32) -> Option<&ProcessRow> {
        find(&self.processes, id, |process| process.id)
    }

    /// The threads of the window.
    pub fn threads(&self) -> impl Iterator<Item = &ThreadRow> {
        self.threads.iter().filter(|thread| self.is_wanted(thread.process_id))
    }

    /// A thread by its id.
    pub fn thread(&self, id: u32) -> Option<&ThreadRow> {
        find(&self.threads, id, |thread| thread.id)
    }

    /// The rows of a table in the window, in the table's order over all parts.
    pub fn rows<R: Row>(&self) -> Result<Rows<'_, R>, StoreError> {
        let parts = self.run.parts(R::TABLE).iter();
        let batches = parts.map(|part| Batches::open(self.run.path(), part, R::TABLE));
        Ok(Rows::new(self, batches.collect::<Result<_, _>>()?))
    }

    /// The spans in the window by thread, then by their start, those around others first.
    pub fn spans_by_thread(&self) -> Result<ByThread, StoreError> {
        // Beside the run may be no place for a file.
        let mut sorter = Sorter::new(&Room::new(&temp_dir()));
        for span in self.rows::<Span>()? {
            let span = span?;
            let depth = self.context(span.context_id).depth;
            sorter.push(&ByThreadSpan { span, depth })?;
        }
        Ok(ByThread { sorter })
    }

    fn is_wanted(&self, process: u32) -> bool {
        self.window.processes.as_ref().is_none_or(|wanted| wanted.contains(&process))
    }
}

/// Spans by thread, then by their start.
#[derive(Debug)]
pub struct ByThread {
    sorter: Sorter<ByThreadSpan>,
}

#[derive(Debug)]
struct ByThreadSpan {
    span: Span,
    depth: u32,
}

impl ByThread {
    /// Gives all spans to `each`, in order.
    pub fn for_each<E: From<StoreError>>(
        self,
        mut each: impl FnMut(&Span) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut failed = Ok(());
        let ended = self.sorter.for_each(|row| {
            if failed.is_ok() {
                failed = each(&row.span);
            }
            Ok(())
        });
        failed?;
        Ok(ended?)
    }
}

impl Sortable for ByThreadSpan {
    type Key = (u32, i64, Reverse<i64>, u32);

    fn key(&self) -> Self::Key {
        let Span { thread_id, start_nanos, duration_nanos, .. } = self.span;
        (thread_id, start_nanos, Reverse(duration_nanos), self.depth)
    }

    fn put(&self, out: &mut Vec<u8>) {
        Row::put(&self.span, out);
        Field::put(&self.depth, out);
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        Ok(Self { span: Row::take(input)?, depth: Field::take(input)? })
    }
}

/// Rows of a table in its order over all parts.
pub struct Rows<'r, R> {
    reader: &'r Reader<'r>,
    /// The parts at their next rows, the least first.
    heads: BinaryHeap<Reverse<Head<'r>>>,
    of: PhantomData<R>,
}

/// A part that is being read, or will be when its first row is the next.
struct Head<'r> {
    /// What the next row is sorted by, and the number of the part.
    key: (i64, usize),
    /// Those of the next rows; none as long as no row was read.
    columns: Vec<ArrayRef>,
    row: usize,
    batches: Batches<'r>,
}

impl<'r, R: Row> Rows<'r, R> {
    fn new(reader: &'r Reader<'r>, parts: Vec<Batches<'r>>) -> Self {
        let mut heads = BinaryHeap::with_capacity(parts.len());
        for (number, batches) in parts.into_iter().enumerate() {
            // Where that is not known it is read at once, to say it.
            let first = if R::TABLE.sorted_by.is_some() { batches.first_key() } else { Some(0) };
            let key = (first.unwrap_or(i64::MIN), number);
            heads.push(Reverse(Head { key, columns: Vec::new(), row: 0, batches }));
        }
        Self { reader, heads, of: PhantomData }
    }

    fn next_row(&mut self) -> Result<Option<R>, StoreError> {
        while let Some(mut least) = self.heads.peek_mut() {
            let head = &mut least.0;
            if head.columns.is_empty() {
                if !head.take_batch(R::TABLE)? {
                    PeekMut::pop(least);
                }
                continue;
            }
            let row = is_in_window(R::TABLE, &head.columns, head.row, self.reader)
                .then(|| R::read(&head.columns, head.row));
            head.row += 1;
            if head.row < head.columns[0].len() {
                head.key.0 = key(R::TABLE, &head.columns, head.row);
            } else if !head.take_batch(R::TABLE)? {
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

impl Head<'_> {
    /// Goes on to the next rows, if there are any.
    fn take_batch(&mut self, table: &'static Table) -> Result<bool, StoreError> {
        for batch in self.batches.by_ref() {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.columns = batch.columns().to_vec();
                self.row = 0;
                self.key.0 = key(table, &self.columns, 0);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Head<'_> {}

/// What a row is sorted by; all rows are alike where the table is not sorted.
fn key(table: &Table, columns: &[ArrayRef], row: usize) -> i64 {
    let column = table.sorted_by.and_then(|column| table.position(column));
    column.map_or(0, |at| i64::read(&columns[at..], row))
}

/// Whether a row reaches into the window.
fn is_in_window(table: &Table, columns: &[ArrayRef], row: usize, reader: &Reader) -> bool {
    let window = &reader.window;
    let column = |name: &str| table.position(name).map(|at| &columns[at..]);
    if let Some(wanted) = &window.processes {
        let process = match (column("process_id"), column("thread_id")) {
            (Some(process), _) => Some(u32::read(process, row)),
            (None, Some(thread)) => {
                reader.thread(u32::read(thread, row)).map(|thread| thread.process_id)
            }
            (None, None) => None,
        };
        if process.is_some_and(|process| !wanted.contains(&process)) {
            return false;
        }
    }
    if window.is_all_time() {
        return true;
    }
    let moment = column("start_nanos").or_else(|| column("time_nanos"));
    let Some(start) = moment.and_then(|moment| Option::<i64>::read(moment, row)) else {
        return true;
    };
    let duration = column("duration_nanos").and_then(|column| Option::<i64>::read(column, row));
    let end = start.saturating_add(duration.unwrap_or(0));
    start < window.until_nanos && (end > window.from_nanos || start >= window.from_nanos)
}

fn args(run: &Run) -> Result<Vec<(u32, StringArray)>, StoreError> {
    let (mut all, mut next) = (Vec::new(), 0);
    for part in run.parts(&ARGS) {
        for batch in Batches::open(run.path(), part, &ARGS)? {
            let texts = batch?.column(1).as_string().clone();
            let first = next;
            next += texts.len() as u32;
            all.push((first, texts));
        }
    }
    Ok(all)
}

fn value(texts: &StringArray, id: u32) -> Option<&str> {
    ((id as usize) < texts.len()).then(|| texts.value(id as usize))
}

/// A row by its id, which mostly is its position.
fn find<T>(rows: &[T], id: u32, id_of: impl Fn(&T) -> u32) -> Option<&T> {
    let at_position = rows.get(id as usize).filter(|row| id_of(row) == id);
    at_position.or_else(|| rows.iter().find(|row| id_of(row) == id))
}

fn rows<T>(
    run: &Run,
    table: &'static Table,
    row: impl Fn(&Cells, usize) -> T,
) -> Result<Vec<T>, StoreError> {
    let batch = run.read(table)?;
    let cells = Cells { table, batch: &batch };
    Ok((0..batch.num_rows()).map(|at| row(&cells, at)).collect())
}

/// The cells of a small table, by the names of their columns.
struct Cells<'a> {
    table: &'static Table,
    batch: &'a RecordBatch,
}

impl Cells<'_> {
    fn get<F: Field>(&self, column: &str, row: usize) -> F {
        let at = self.table.position(column).expect("declared");
        F::read(&self.batch.columns()[at..], row)
    }

    fn text(&self, column: &str, row: usize) -> String {
        self.get::<Arc<str>>(column, row).as_ref().to_owned()
    }
}

fn context(cells: &Cells, row: usize) -> Context {
    let kind = cells.get::<Arc<str>>("kind", row);
    let kind = NodeKind::ALL.into_iter().find(|known| known.as_str() == &*kind);
    Context {
        parent: cells.get("parent_id", row),
        depth: cells.get("depth", row),
        kind: kind.unwrap_or(NodeKind::Scope),
        name_id: cells.get("name_id", row),
    }
}

fn process(cells: &Cells, row: usize) -> ProcessRow {
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

fn thread(cells: &Cells, row: usize) -> ThreadRow {
    ThreadRow {
        id: cells.get("id", row),
        process_id: cells.get("process_id", row),
        os_id: cells.get("os_id", row),
        name: cells.text("name", row),
    }
}
