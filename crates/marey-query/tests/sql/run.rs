//! A small run, written as the collector writes it, and query results as text.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, UInt32Array, UInt64Array, new_null_array,
};
use arrow::datatypes::Float64Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use marey_model::sketch::Sketch;
use marey_model::table::{Table, stored};
use marey_query::sql::{Database, Limits, SqlError};
use marey_store::{Assembler, Manifest, PartWriter, Run, WrittenPart, arrow_schema};
use tempfile::TempDir;

/// The columns of a part of a table.
pub(crate) type TableColumns = (&'static Table, Vec<ArrayRef>);

/// Writes a run with a part for each batch. Trailing columns that a batch lacks are null.
pub(crate) fn write_run(folder: &Path, batches: &[TableColumns]) -> Run {
    let mut manifest = Manifest::new();
    manifest.next.part = batches.len() as u32;
    let written: Vec<WrittenPart> = (0..)
        .zip(batches)
        .map(|(number, (table, columns))| {
            let mut writer = PartWriter::create(folder, table, number).unwrap();
            let (schema, mut columns) = (arrow_schema(table), columns.clone());
            let rows = columns[0].len();
            let missing = schema.fields()[columns.len()..].iter();
            columns.extend(missing.map(|field| new_null_array(field.data_type(), rows)));
            writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
            let part = writer.finish().unwrap();
            manifest.list(&part, None);
            part
        })
        .collect();
    manifest.publish(folder, written).unwrap();
    Run::open(folder).unwrap()
}

/// A run with its database and folder.
pub(crate) struct TestRun {
    pub(crate) database: Database,
    pub(crate) folder: TempDir,
}

impl TestRun {
    pub(crate) fn new() -> Self {
        Self::from_spans(&SPANS)
    }

    pub(crate) fn from_spans(spans: &[Span]) -> Self {
        Self::from_tables(&tables(spans))
    }

    pub(crate) fn from_tables(tables: &[TableColumns]) -> Self {
        Self::limited(tables, Limits::default().memory_bytes)
    }

    pub(crate) fn with_memory(memory_bytes: usize) -> Self {
        Self::limited(&tables(&SPANS), memory_bytes)
    }

    fn limited(tables: &[TableColumns], memory_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = write_run(folder.path(), tables);
        Self::open(run, folder, memory_bytes)
    }

    /// A run made by an assembler, as importers do.
    pub(crate) fn assembled(memory_bytes: usize, add_all: impl FnOnce(&mut Assembler)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut assembler = Assembler::new(folder.path());
        add_all(&mut assembler);
        assembler.finish(None).unwrap();
        Self::open(Run::open(folder.path()).unwrap(), folder, memory_bytes)
    }

    fn open(run: Run, folder: TempDir, memory_bytes: usize) -> Self {
        let limits = Limits { memory_bytes, threads: 2, ..Limits::default() };
        Self { database: Database::new(Arc::new(run), limits), folder }
    }

    /// The same run with queries planned as for a large one.
    pub(crate) fn planned_as_large(&self) -> Database {
        let limits = Limits { threads: 2, small_run_rows: 0, ..Limits::default() };
        Database::new(Arc::new(Run::open(self.folder.path()).unwrap()), limits)
    }

    /// The rows of an answer as lines, with ` | ` between columns.
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        rows(&self.database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub(crate) fn sorted_rows(&self, sql: &str) -> Vec<String> {
        let mut rows = self.rows(sql);
        rows.sort();
        rows
    }

    /// The only row of an answer.
    pub(crate) fn value(&self, sql: &str) -> String {
        let mut rows = self.rows(sql);
        assert_eq!(rows.len(), 1, "{sql}");
        rows.remove(0)
    }

    pub(crate) fn error(&self, sql: &str) -> SqlError {
        match rows(&self.database, sql) {
            Ok(rows) => panic!("{sql} gave {rows:?}"),
            Err(error) => error,
        }
    }
}

pub(crate) fn rows(database: &Database, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut rows = Vec::new();
    for batch in database.query(sql, None)? {
        rows.extend(format_rows(&batch?));
    }
    Ok(rows)
}

pub(crate) fn format_rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("null");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    let row = |row| {
        columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" | ")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Start, duration, time of children, thread, context.
pub(crate) type Span = (i64, i64, i64, u32, u32);

pub(crate) const TEXTS: [&str; 9] = [
    "ROOT",
    "step",
    "forward",
    "attn/qk",
    "backward",
    "step/forward",
    "gemm",
    "loss",
    "a name of many letters, 100 % of it",
];
/// Parent, depth, kind, name. Two contexts have the path `step/forward`.
pub(crate) const CONTEXTS: [(Option<u32>, u32, &str, u32); 7] = [
    (None, 0, "root", 0),
    (Some(0), 1, "step", 1),
    (Some(1), 2, "module", 2),
    (Some(2), 3, "operator", 3),
    (Some(1), 2, "scope", 4),
    (Some(0), 1, "scope", 5),
    (Some(4), 3, "scope", 8),
];
/// Process and name.
pub(crate) const THREADS: [(u32, &str); 3] = [(0, "main"), (0, ""), (1, "main")];

pub(crate) const SPANS: [Span; 8] = [
    (1000, 500, 450, 0, 1),
    (1010, 200, 150, 0, 2),
    (1020, 150, 0, 0, 3),
    (1220, 250, 0, 0, 4),
    (1300, 40, 0, 1, 5),
    (2000, 600, 300, 2, 1),
    (2010, 300, 0, 2, 2),
    (2500, 7, 0, 2, 6),
];

pub(crate) fn ids(values: impl IntoIterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

pub(crate) fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn flags(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
}

pub(crate) fn tables(spans: &[Span]) -> Vec<TableColumns> {
    let process_of = |span: &Span| THREADS[span.3 as usize].0;
    let mut tables = vec![
        (&stored::STRINGS, vec![ids(0..TEXTS.len() as u32), texts(TEXTS)]),
        (
            &stored::CONTEXTS,
            vec![
                ids(0..CONTEXTS.len() as u32),
                Arc::new(CONTEXTS.iter().map(|context| context.0).collect::<UInt32Array>()),
                ids(CONTEXTS.iter().map(|context| context.1)),
                texts(CONTEXTS.iter().map(|context| context.2)),
                ids(CONTEXTS.iter().map(|context| context.3)),
            ],
        ),
        (
            &stored::PROCESSES,
            vec![
                ids([0, 1]),
                ints([100, 101]),
                Arc::new(Int64Array::from(vec![Some(0), None])),
                texts(["here", "there"]),
                texts(["[\"train\"]", "[]"]),
                ints([900, 1900]),
                ints([1600, 2700]),
                flags([true, false]),
                ints([0, -3]),
                Arc::new(Float64Array::from(vec![Some(40.0), None])),
                Arc::new(Int64Array::from(vec![Some(160), None])),
                Arc::new(Int64Array::from(vec![Some(5), None])),
            ],
        ),
        (
            &stored::THREADS,
            vec![
                ids(0..3),
                ids(THREADS.iter().map(|thread| thread.0)),
                ints([100, 105, 101]),
                texts(THREADS.iter().map(|thread| thread.1)),
            ],
        ),
        (
            &stored::STEPS,
            vec![
                ints([1000, 2000]),
                ints([500, 600]),
                ids([0, 1]),
                ids([0, 2]),
                ids([1, 1]),
                ids([0, 0]),
            ],
        ),
        (
            &stored::METRICS,
            vec![
                ints([1100, 1200, 1300, 1400]),
                ids([0; 4]),
                ids([2, 2, 0, 1]),
                ids([7; 4]),
                Arc::new(UInt64Array::from(vec![1; 4])),
                ids([0; 4]),
                Arc::new(Float64Array::from(vec![Some(0.5), Some(3.0), None, None])),
                Arc::new(Int64Array::from(vec![None, Some(3), None, None])),
                Arc::new(StringArray::from(vec![None, None, Some("nan"), None])),
                Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vec![
                    None,
                    None,
                    None,
                    Some(vec![Some(1.0), Some(2.5)]),
                ])),
            ],
        ),
        (&stored::GPU_ACTIVITIES, gpu_activities()),
    ];
    for process in 0..2 {
        let mut spans: Vec<Span> =
            spans.iter().copied().filter(|span| process_of(span) == process).collect();
        spans.sort_by_key(|span| span.0);
        if spans.is_empty() {
            continue;
        }
        tables.push((
            &stored::SPANS,
            vec![
                ints(spans.iter().map(|span| span.0)),
                ints(spans.iter().map(|span| span.1)),
                ints(spans.iter().map(|span| span.2)),
                ids(spans.iter().map(|span| span.3)),
                ids(spans.iter().map(|span| span.4)),
                ids(spans.iter().map(|span| CONTEXTS[span.4 as usize].3)),
                Arc::new(spans.iter().map(|_| Some(1)).collect::<UInt64Array>()),
                ids(spans.iter().map(|_| 0)),
                flags(spans.iter().map(|span| span.1 == 7)),
            ],
        ));
        tables.push((&stored::ROLLUPS, rollups(&spans)));
    }
    tables
}

/// A row per span: the format permits several rollups with the same key.
fn rollups(spans: &[Span]) -> Vec<ArrayRef> {
    let sketches = spans.iter().map(|span| {
        let mut sketch = Sketch::default();
        sketch.add(span.1 as u64);
        let mut bytes = Vec::new();
        sketch.encode(&mut bytes);
        bytes
    });
    vec![
        ints(spans.iter().map(|_| 0)),
        ints(spans.iter().map(|_| 0)),
        ids(spans.iter().map(|span| span.3)),
        ids(spans.iter().map(|span| span.4)),
        ids(spans.iter().map(|span| CONTEXTS[span.4 as usize].3)),
        ints(spans.iter().map(|_| 1)),
        ints(spans.iter().map(|span| span.1)),
        ints(spans.iter().map(|span| span.1 - span.2)),
        ints(spans.iter().map(|span| span.1)),
        ints(spans.iter().map(|span| span.1)),
        Arc::new(BinaryArray::from_iter_values(sketches)),
    ]
}

fn gpu_activities() -> Vec<ArrayRef> {
    let maybe_ids =
        |values: [Option<u32>; 3]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
    let maybe_bits =
        |values: [Option<u64>; 3]| Arc::new(UInt64Array::from(values.to_vec())) as ArrayRef;
    let maybe_ints =
        |values: [Option<i64>; 3]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    vec![
        ints([1050, 1060, 1200]),
        ints([100, 20, 50]),
        ids([0, 0, 1]),
        ids([0, 0, 0]),
        ids([7, 7, 7]),
        texts(["kernel", "memcpy", "kernel"]),
        ids([6, 6, 6]),
        maybe_ids([Some(2), None, None]),
        maybe_bits([Some(11), None, None]),
        maybe_bits([None; 3]),
        maybe_ids([Some(4), None, None]),
        maybe_ids([Some(2), None, None]),
        maybe_ids([Some(1), None, None]),
        maybe_ids([Some(128), None, None]),
        maybe_ids([Some(1), None, None]),
        maybe_ids([Some(1), None, None]),
        maybe_ids([Some(32), None, None]),
        maybe_ints([Some(1024), None, None]),
        maybe_ints([None, Some(4096), None]),
    ]
}
