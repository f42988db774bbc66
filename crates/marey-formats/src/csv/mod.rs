//! Writes a run as comma-separated values: one table of all spans, asynchronous spans and device
//! activities, by start.
//!
//! The form is that of RFC 4180 with the columns of [`COLUMNS`]. Names are exact. A name that
//! begins with `=` is not escaped for spreadsheets, because other programs would read another name.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::iter::Peekable;

use ::csv::{ByteRecord, Writer, WriterBuilder};
use marey_model::table::Table;
use marey_model::table::stored::{ASYNC_SPANS, GPU_ACTIVITIES, SPANS};
use marey_store::row::{Args, AsyncSpan, GpuActivity, Span};
use marey_store::{Reader, StoreError};

use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::format::Format;

/// The columns. Times are in nanoseconds, points in time since 1970. Fields that do not apply are
/// empty.
const COLUMNS: [&str; 23] = [
    "kind",           // of a span, its context's kind; of an activity, its own; otherwise `async`
    "name",           // name of the span or activity
    "path",           // the enclosing contexts and the name, separated by `;`
    "start_nanos",    // start time
    "duration_nanos", // duration
    "self_nanos",     // duration without direct children
    "process",        // process id in the operating system
    "rank",           // rank of the process
    "thread",         // thread id in the operating system
    "thread_name",    // name of the thread
    "device",         // number of the device in its process
    "stream",         // stream of the device
    "category",       // category in a foreign trace
    "args",           // further arguments, as a JSON object
    "correlation_id", // shared by a launch and its activities
    "external_id",    // shared by an operator and its activities
    "is_open",        // of a span, whether it was open when the recording ended
    "bytes",          // bytes copied or set
    "grid",           // blocks of a kernel along x, y and z: `8x1x1`
    "block",          // threads of a block, in the same form
    "registers",      // registers of a thread
    "shared_bytes",   // shared memory of a block
    "graph_node_id",  // node of the CUDA graph that was launched
];

/// The tables that the format can hold.
const WRITTEN_TABLES: [&Table; 3] = [&SPANS, &ASYNC_SPANS, &GPU_ACTIVITIES];

/// The size of the write buffer. The `csv` crate writes a record that fits into it in one step.
const BUFFER_BYTES: usize = 1 << 18;

/// The maximum size of the cached paths, in bytes.
const MAX_CACHED_PATH_BYTES: usize = 32 << 20;

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    leave_out_tables_except(&WRITTEN_TABLES, reader, left_out)?;
    let mut rows = rows_by_start(reader)?.peekable();
    if rows.peek().is_none() {
        let missing = "no spans or device activities";
        return Err(ExportError::NoData { format: Format::Csv, missing });
    }
    let mut csv = WriterBuilder::new().buffer_capacity(BUFFER_BYTES).from_writer(out);
    csv.write_record(COLUMNS).map_err(io::Error::from)?;
    let mut writer = RecordWriter {
        reader,
        csv,
        record: ByteRecord::new(),
        field: String::new(),
        paths: PathCache::default(),
    };
    for row in rows {
        writer.write_row(&row?)?;
    }
    Ok(writer.csv.flush()?)
}

/// A span, an asynchronous span or a device activity.
#[derive(Default)]
struct CsvRow {
    kind: &'static str,
    name_id: u32,
    /// The innermost context. For a span this is its own.
    context_id: Option<u32>,
    /// The track, for rows without a context.
    track_id: Option<u32>,
    start_nanos: i64,
    duration_nanos: i64,
    self_nanos: i64,
    process_id: Option<u32>,
    thread_id: Option<u32>,
    device: Option<u32>,
    stream: Option<u32>,
    category_id: Option<u32>,
    args: Args,
    correlation_id: Option<u64>,
    external_id: Option<u64>,
    is_open: Option<bool>,
    device_columns: DeviceColumns,
}

/// The columns of device activities.
#[derive(Default)]
struct DeviceColumns {
    bytes: Option<i64>,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    registers: Option<u32>,
    shared_bytes: Option<i64>,
    graph_node_id: Option<u64>,
}

impl CsvRow {
    fn from_span(span: Span, reader: &Reader) -> Self {
        Self {
            kind: reader.context(span.context_id).kind.as_str(),
            name_id: span.name_id,
            context_id: Some(span.context_id),
            start_nanos: span.start_nanos,
            duration_nanos: span.duration_nanos,
            self_nanos: span.self_nanos(),
            process_id: reader.thread(span.thread_id).map(|thread| thread.process_id),
            thread_id: Some(span.thread_id),
            category_id: span.category_id,
            args: span.args,
            correlation_id: span.correlation_id,
            external_id: span.external_id,
            is_open: Some(span.is_open),
            ..Self::default()
        }
    }

    fn from_activity(activity: GpuActivity) -> Self {
        Self {
            kind: activity.kind.as_str(),
            name_id: activity.name_id,
            context_id: activity.context_id,
            start_nanos: activity.start_nanos,
            duration_nanos: activity.duration_nanos,
            self_nanos: activity.duration_nanos,
            process_id: Some(activity.process_id),
            device: Some(activity.device),
            stream: (activity.stream != GpuActivity::NO_STREAM).then_some(activity.stream),
            category_id: activity.category_id,
            args: activity.args,
            correlation_id: activity.correlation_id,
            external_id: activity.external_id,
            device_columns: DeviceColumns {
                bytes: activity.bytes,
                grid: activity.grid,
                block: activity.block,
                registers: activity.registers,
                shared_bytes: activity.shared_bytes,
                graph_node_id: activity.graph_node_id,
            },
            ..Self::default()
        }
    }

    fn from_async_span(span: AsyncSpan) -> Self {
        Self {
            kind: "async",
            name_id: span.name_id,
            track_id: Some(span.track_id),
            start_nanos: span.start_nanos,
            duration_nanos: span.duration_nanos,
            self_nanos: span.duration_nanos,
            process_id: Some(span.process_id),
            category_id: span.category_id,
            args: span.args,
            is_open: Some(span.is_open),
            ..Self::default()
        }
    }
}

type CsvRows<'r> = Box<dyn Iterator<Item = Result<CsvRow, StoreError>> + 'r>;

/// Returns all rows by start.
fn rows_by_start<'r>(reader: &'r Reader<'r>) -> Result<CsvRows<'r>, StoreError> {
    let spans = reader.rows()?.map(|row| Ok(CsvRow::from_span(row?, reader)));
    let activities = reader.rows()?.map(|row| Ok(CsvRow::from_activity(row?)));
    let async_spans = reader.rows()?.map(|row| Ok(CsvRow::from_async_span(row?)));
    let sources: [CsvRows; 3] = [Box::new(spans), Box::new(activities), Box::new(async_spans)];
    let mut sources = sources.map(Iterator::peekable);
    Ok(Box::new(std::iter::from_fn(move || {
        let starts = sources.iter_mut().filter_map(|source| Some((next_start(source)?, source)));
        let (_, earliest) = starts.min_by_key(|&(start_nanos, _)| start_nanos)?;
        earliest.next()
    })))
}

/// Returns the start of the next row. An error sorts first.
fn next_start(rows: &mut Peekable<CsvRows>) -> Option<i64> {
    Some(rows.peek()?.as_ref().map_or(i64::MIN, |row| row.start_nanos))
}

/// Writes rows as records.
struct RecordWriter<'r, 'o> {
    reader: &'r Reader<'r>,
    csv: Writer<&'o mut dyn Write>,
    /// The record that is being written.
    record: ByteRecord,
    /// The field that is being written.
    field: String,
    paths: PathCache,
}

impl RecordWriter<'_, '_> {
    fn write_row(&mut self, row: &CsvRow) -> io::Result<()> {
        let reader = self.reader;
        let process = row.process_id.and_then(|id| reader.process(id));
        let thread = row.thread_id.and_then(|id| reader.thread(id));
        self.push_text(row.kind);
        self.push_text(reader.text(row.name_id));
        self.push_path(row);
        self.push_value(row.start_nanos);
        self.push_value(row.duration_nanos);
        self.push_value(row.self_nanos);
        self.push_optional(process.map(|process| process.pid).filter(|&pid| pid >= 0));
        self.push_optional(process.and_then(|process| process.rank));
        self.push_optional(thread.map(|thread| thread.os_id).filter(|&id| id >= 0));
        self.push_text(thread.map_or("", |thread| &thread.name));
        self.push_optional(row.device);
        self.push_optional(row.stream);
        self.push_text(row.category_id.map_or("", |id| reader.text(id)));
        if row.args.text_id.is_some() {
            reader.args(&row.args, &mut self.field);
        }
        self.end_field();
        self.push_optional(row.correlation_id);
        self.push_optional(row.external_id);
        self.push_text(row.is_open.map_or("", |is_open| if is_open { "true" } else { "false" }));
        self.push_device_columns(&row.device_columns);
        self.csv.write_byte_record(&self.record)?;
        self.record.clear();
        Ok(())
    }

    fn push_device_columns(&mut self, activity: &DeviceColumns) {
        self.push_optional(activity.bytes);
        self.push_dimensions(activity.grid);
        self.push_dimensions(activity.block);
        self.push_optional(activity.registers);
        self.push_optional(activity.shared_bytes);
        self.push_optional(activity.graph_node_id);
    }

    /// Writes the path of a row. The own context of a span is its last name.
    fn push_path(&mut self, row: &CsvRow) {
        if let Some(track_id) = row.track_id {
            self.field.push_str(self.reader.text(track_id));
            self.field.push(';');
        }
        if let Some(context) = row.context_id {
            self.field.push_str(self.paths.path(context, self.reader));
        }
        if row.thread_id.is_some() {
            self.field.pop(); // the trailing `;`
        } else {
            self.field.push_str(self.reader.text(row.name_id));
        }
        self.end_field();
    }

    fn push_dimensions(&mut self, axes: Option<[u32; 3]>) {
        if let Some([x, y, z]) = axes {
            write!(self.field, "{x}x{y}x{z}").expect("writing to a `String` cannot fail");
        }
        self.end_field();
    }

    fn push_optional(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.push_value(value),
            None => self.push_text(""),
        }
    }

    fn push_value(&mut self, value: impl Display) {
        write!(self.field, "{value}").expect("writing to a `String` cannot fail");
        self.end_field();
    }

    fn push_text(&mut self, text: &str) {
        self.record.push_field(text.as_bytes());
    }

    fn end_field(&mut self) {
        self.record.push_field(self.field.as_bytes());
        self.field.clear();
    }
}

/// A cache of the paths of contexts. It pays because a run has many spans and few contexts.
#[derive(Default)]
struct PathCache {
    /// Paths by context, `None` if not cached.
    paths: Vec<Option<Box<str>>>,
    cached_bytes: usize,
}

impl PathCache {
    /// Returns the names from the outermost context to this one, each followed by `;`.
    fn path(&mut self, context_id: u32, reader: &Reader) -> &str {
        if self.paths.is_empty() || self.cached_bytes > MAX_CACHED_PATH_BYTES {
            (self.paths, self.cached_bytes) = (vec![None; reader.contexts().len()], 0);
        }
        let Some(path) = self.paths.get_mut(context_id as usize) else { return "" };
        path.get_or_insert_with(|| {
            let mut joined = String::new();
            for id in reader.path(context_id) {
                joined.push_str(reader.text(reader.context(id).name_id));
                joined.push(';');
            }
            self.cached_bytes += joined.len();
            joined.into()
        })
    }
}
