//! The tables of a run as plain rows, with names instead of ids.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrowPrimitiveType, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use marey_model::metric::MetricValue;
use marey_model::sketch::Sketch;
use marey_model::table::Table;
use marey_model::table::stored::{
    CONTEXTS, COUNTERS, METRICS, PROCESSES, ROLLUPS, SPANS, STEPS, STRINGS, THREADS,
};
use marey_store::Run;

/// The context node of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodePath {
    /// The thread's name.
    pub(crate) thread: String,
    /// Kind and name of each context below the root.
    pub(crate) path: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpanRow {
    pub(crate) start_nanos: i64,
    pub(crate) duration_nanos: i64,
    pub(crate) children_nanos: i64,
    pub(crate) node_path: NodePath,
    pub(crate) sessions: u64,
    pub(crate) phase: u32,
    pub(crate) is_open: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValueRow {
    pub(crate) time_nanos: i64,
    pub(crate) node_path: NodePath,
    pub(crate) name: String,
    pub(crate) sessions: u64,
    pub(crate) phase: u32,
    pub(crate) value: MetricValue,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CounterRow {
    pub(crate) time_nanos: i64,
    pub(crate) device: Option<u32>,
    pub(crate) name: String,
    pub(crate) value: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RollupRow {
    pub(crate) bucket_nanos: i64,
    pub(crate) start_nanos: i64,
    pub(crate) node_path: NodePath,
    pub(crate) count: i64,
    pub(crate) total_nanos: i64,
    pub(crate) self_nanos: i64,
    pub(crate) extremes_nanos: Option<(i64, i64)>,
    pub(crate) sketch: Option<Sketch>,
}

/// The tables of one process of a run.
pub(crate) struct Tables<'a> {
    run: &'a Run,
    process: u32,
    /// Texts by id.
    threads: BTreeMap<u32, (u32, String)>,
    texts: Vec<String>,
    contexts: Vec<Vec<String>>,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(run: &'a Run, pid: i64) -> Self {
        let processes = run.read(&PROCESSES).unwrap();
        let row = ints(&processes, "pid").iter().position(|&found| found == pid).unwrap();
        let process = ids(&processes, "id")[row];
        let threads = run.read(&THREADS).unwrap();
        let rows = 0..threads.num_rows();
        let process_and_name =
            |row| (ids(&threads, "process_id")[row], text(&threads, "name", row));
        let threads = rows.map(|row| (ids(&threads, "id")[row], process_and_name(row))).collect();
        let texts = run.read(&STRINGS).unwrap();
        assert!(ids(&texts, "id").iter().copied().eq(0..texts.num_rows() as u32));
        let texts = (0..texts.num_rows()).map(|row| text(&texts, "text", row)).collect();
        let mut tables = Self { run, process, threads, texts, contexts: Vec::new() };
        tables.read_contexts();
        tables
    }

    fn read_contexts(&mut self) {
        let contexts = self.run.read(&CONTEXTS).unwrap();
        assert!(ids(&contexts, "id").iter().copied().eq(0..contexts.num_rows() as u32));
        let parents = column(&contexts, "parent_id").as_primitive::<UInt32Type>();
        for row in 0..contexts.num_rows() {
            let name = &self.texts[ids(&contexts, "name_id")[row] as usize];
            let kind = text(&contexts, "kind", row);
            let path = if parents.is_null(row) {
                assert_eq!((row, kind.as_str(), name.as_str()), (0, "root", "ROOT"));
                Vec::new()
            } else {
                let mut path = self.contexts[parents.value(row) as usize].clone();
                path.push(format!("{kind} {name}"));
                path
            };
            assert_eq!(ids(&contexts, "depth")[row] as usize, path.len());
            assert!(!self.contexts.contains(&path), "a path stands twice");
            self.contexts.push(path);
        }
    }

    pub(crate) fn context_count(&self) -> usize {
        self.contexts.len()
    }

    /// Returns the rows of a table that belong to this process, with their nodes.
    fn rows(&self, table: &'static Table) -> (RecordBatch, Vec<(usize, NodePath)>) {
        let batch = self.run.read(table).unwrap();
        let (threads, contexts) = (ids(&batch, "thread_id"), ids(&batch, "context_id"));
        let mut rows = Vec::new();
        for (row, (thread, &context)) in threads.iter().zip(contexts).enumerate() {
            let (process, thread) = self.threads[thread].clone();
            if process == self.process {
                let path = self.contexts[context as usize].clone();
                rows.push((row, NodePath { thread, path }));
            }
        }
        (batch, rows)
    }

    /// Checks that a row has the name of its context.
    fn check_name(&self, batch: &RecordBatch, row: usize, node_path: &NodePath) {
        let name = &self.texts[ids(batch, "name_id")[row] as usize];
        let last = node_path.path.last().map_or("root ROOT", String::as_str);
        assert_eq!(last.split_once(' ').unwrap().1, name);
    }

    pub(crate) fn spans(&self) -> Vec<SpanRow> {
        let (batch, rows) = self.rows(&SPANS);
        let span = |(row, node_path): (usize, NodePath)| {
            self.check_name(&batch, row, &node_path);
            SpanRow {
                start_nanos: ints(&batch, "start_nanos")[row],
                duration_nanos: ints(&batch, "duration_nanos")[row],
                children_nanos: ints(&batch, "children_nanos")[row],
                node_path,
                sessions: column(&batch, "sessions").as_primitive::<UInt64Type>().value(row),
                phase: ids(&batch, "phase")[row],
                is_open: column(&batch, "is_open").as_boolean().value(row),
            }
        };
        rows.into_iter().map(span).collect()
    }

    pub(crate) fn values(&self) -> Vec<ValueRow> {
        let (batch, rows) = self.rows(&METRICS);
        let value = |(row, node_path)| ValueRow {
            time_nanos: ints(&batch, "time_nanos")[row],
            node_path,
            name: self.texts[ids(&batch, "name_id")[row] as usize].clone(),
            sessions: column(&batch, "sessions").as_primitive::<UInt64Type>().value(row),
            phase: ids(&batch, "phase")[row],
            value: value(&batch, row),
        };
        rows.into_iter().map(value).collect()
    }

    pub(crate) fn counters(&self) -> Vec<CounterRow> {
        let batch = self.run.read(&COUNTERS).unwrap();
        let devices = column(&batch, "device").as_primitive::<UInt32Type>();
        let process_ids = ids(&batch, "process_id").iter().enumerate();
        let counter = |(row, _)| CounterRow {
            time_nanos: ints(&batch, "time_nanos")[row],
            device: devices.is_valid(row).then(|| devices.value(row)),
            name: self.texts[ids(&batch, "name_id")[row] as usize].clone(),
            value: column(&batch, "value").as_primitive::<Float64Type>().value(row),
        };
        process_ids.filter(|&(_, &process)| process == self.process).map(counter).collect()
    }

    pub(crate) fn rollups(&self) -> Vec<RollupRow> {
        let (batch, rows) = self.rows(&ROLLUPS);
        let min = column(&batch, "min_nanos").as_primitive::<Int64Type>();
        let sketches = column(&batch, "sketch").as_binary::<i32>();
        let rollup = |(row, node_path): (usize, NodePath)| {
            self.check_name(&batch, row, &node_path);
            let extremes = || (min.value(row), ints(&batch, "max_nanos")[row]);
            let sketch = || Sketch::decode(sketches.value(row)).unwrap();
            RollupRow {
                bucket_nanos: ints(&batch, "bucket_nanos")[row],
                start_nanos: ints(&batch, "start_nanos")[row],
                node_path,
                count: ints(&batch, "count")[row],
                total_nanos: ints(&batch, "total_nanos")[row],
                self_nanos: ints(&batch, "self_nanos")[row],
                extremes_nanos: min.is_valid(row).then(extremes),
                sketch: sketches.is_valid(row).then(sketch),
            }
        };
        rows.into_iter().map(rollup).collect()
    }

    /// Returns start, duration, node and number of each step.
    pub(crate) fn steps(&self) -> Vec<(i64, i64, NodePath, u32)> {
        let (batch, rows) = self.rows(&STEPS);
        let step = |(row, node_path)| {
            assert_eq!(ids(&batch, "process_id")[row], self.process);
            let times = (ints(&batch, "start_nanos")[row], ints(&batch, "duration_nanos")[row]);
            (times.0, times.1, node_path, ids(&batch, "number")[row])
        };
        rows.into_iter().map(step).collect()
    }
}

/// Returns a value, which must be in exactly one of its columns.
fn value(batch: &RecordBatch, row: usize) -> MetricValue {
    let real = column(batch, "value").as_primitive::<Float64Type>();
    let integer = column(batch, "integer").as_primitive::<Int64Type>();
    let texts = column(batch, "text").as_string::<i32>();
    let vectors = column(batch, "vector").as_list::<i32>();
    let is_valid = [real.is_valid(row), integer.is_valid(row), texts.is_valid(row)];
    match (is_valid, vectors.is_valid(row)) {
        ([true, false, false], false) => MetricValue::Float(real.value(row)),
        ([true, true, false], false) => {
            assert_eq!(real.value(row).to_bits(), (integer.value(row) as f64).to_bits());
            MetricValue::Int(integer.value(row))
        }
        ([false, false, true], false) => MetricValue::Text(texts.value(row).into()),
        ([false, false, false], true) => {
            let elements = vectors.value(row);
            let elements = elements.as_primitive::<Float64Type>();
            MetricValue::Floats(elements.values().to_vec())
        }
        other => panic!("a value in these forms: {other:?}"),
    }
}

pub(crate) fn column<'b>(batch: &'b RecordBatch, name: &str) -> &'b dyn Array {
    batch.column_by_name(name).unwrap()
}

pub(crate) fn ints<'b>(batch: &'b RecordBatch, name: &str) -> &'b [i64] {
    column(batch, name).as_primitive::<Int64Type>().values()
}

pub(crate) fn ids<'b>(batch: &'b RecordBatch, name: &str) -> &'b [u32] {
    column(batch, name).as_primitive::<UInt32Type>().values()
}

/// Returns the values of a column that may be null.
pub(crate) fn optional<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    name: &str,
) -> Vec<Option<T::Native>> {
    column(batch, name).as_primitive::<T>().iter().collect()
}

pub(crate) fn text(batch: &RecordBatch, name: &str, row: usize) -> String {
    column(batch, name).as_string::<i32>().value(row).to_owned()
}
