//! Comma-separated values: one table of everything that lasted, by start.
//!
//! RFC 4180 with the columns of [`COLUMNS`]. Names are exact: one that begins with `=` is not made
//! harmless for spreadsheets, as that would change what other programs read.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::iter::Peekable;

use ::csv::{ByteRecord, Writer, WriterBuilder};
use marey_model::table::Table;
use marey_model::table::stored::{
    COLLECTIVES, COUNTERS, DEVICES, FLOWS, INSTANTS, MEMORY_EVENTS, MEMORY_SNAPSHOTS, METADATA,
    METRICS, SAMPLES, STEPS,
};
use marey_store::row::{Args, AsyncSpan, GpuActivity, Span};
use marey_store::{Reader, StoreError};

use crate::Format;
use crate::export::{ExportError, LeftOut, leave_out_table};

/// The columns. Times are in nanoseconds, moments since 1970; what does not apply is empty.
const COLUMNS: [&str; 23] = [
    "kind",           // of a span, that of its context; of an activity, its own; otherwise `async`
    "name",           // its own
    "path",           // what it is in and itself, with `;` between them
    "start_nanos",    // when it began
    "duration_nanos", // how long it lasted
    "self_nanos",     // the same without what is directly inside it
    "process",        // id of the process in the system
    "rank",           // of the process in its job
    "thread",         // id of the thread in the system
    "thread_name",    // its name
    "device",         // number of the device in its process
    "stream",         // the one on it
    "category",       // that a foreign trace gave it
    "args",           // what else is known of it, as a JSON object
    "correlation_id", // what a launch and its activities share
    "external_id",    // what an operator and its activities share
    "is_open",        // of a span, whether the recording ended before it
    "bytes",          // that were copied or set
    "grid",           // blocks of a kernel along x, y and z: `8x1x1`
    "block",          // threads of a block, in the same way
    "registers",      // of a thread
    "shared_bytes",   // memory that a block shares
    "graph_node_id",  // of the node of a graph that launched it
];

/// What the table has no place for.
const LEFT_OUT: [(&str, &Table); 11] = [
    ("blocks of memory", &MEMORY_SNAPSHOTS),
    ("collectives", &COLLECTIVES),
    ("devices", &DEVICES),
    ("entries of metadata", &METADATA),
    ("events of memory", &MEMORY_EVENTS),
    ("instants", &INSTANTS),
    ("numbers of steps", &STEPS),
    ("points of flows", &FLOWS),
    ("samples", &SAMPLES),
    ("values of counters", &COUNTERS),
    ("values of metrics", &METRICS),
];

/// Records that fit into what is left of the buffer are written without more ado.
const BUFFER_BYTES: usize = 1 << 18;

/// Paths that are known take up to so many bytes.
const MAX_PATH_BYTES: usize = 32 << 20;

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    for (what, table) in LEFT_OUT {
        leave_out_table(reader, table, what, left_out);
    }
    let mut lines = lines(reader)?.peekable();
    if lines.peek().is_none() {
        let missing = "no spans or device activities";
        return Err(ExportError::Nothing { format: Format::Csv, missing });
    }
    let mut csv = WriterBuilder::new().buffer_capacity(BUFFER_BYTES).from_writer(out);
    csv.write_record(COLUMNS).map_err(io::Error::from)?;
    let mut table = Records {
        reader,
        csv,
        record: ByteRecord::new(),
        field: String::new(),
        paths: Paths::default(),
    };
    for line in lines {
        table.write(&line?)?;
    }
    Ok(table.csv.flush()?)
}

/// Something that lasted.
struct Line {
    kind: &'static str,
    name_id: u32,
    /// The contexts around it, with its own if it has one.
    context_id: Option<u32>,
    /// What it is in, if that is no context.
    track_id: Option<u32>,
    start_nanos: i64,
    duration_nanos: i64,
    children_nanos: i64,
    process_id: Option<u32>,
    thread_id: Option<u32>,
    device: Option<u32>,
    stream: Option<u32>,
    category_id: Option<u32>,
    args: Args,
    correlation_id: Option<u64>,
    external_id: Option<u64>,
    is_open: Option<bool>,
    on_device: OnDevice,
}

/// What only activities of devices have.
#[derive(Default)]
struct OnDevice {
    bytes: Option<i64>,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    registers: Option<u32>,
    shared_bytes: Option<i64>,
    graph_node_id: Option<u64>,
}

impl Line {
    fn of_span(span: Span, reader: &Reader) -> Self {
        Self {
            kind: reader.context(span.context_id).kind.as_str(),
            name_id: span.name_id,
            context_id: Some(span.context_id),
            track_id: None,
            start_nanos: span.start_nanos,
            duration_nanos: span.duration_nanos,
            children_nanos: span.children_nanos,
            process_id: reader.thread(span.thread_id).map(|thread| thread.process_id),
            thread_id: Some(span.thread_id),
            device: None,
            stream: None,
            category_id: span.category_id,
            args: span.args,
            correlation_id: span.correlation_id,
            external_id: span.external_id,
            is_open: Some(span.is_open),
            on_device: OnDevice::default(),
        }
    }

    fn of_activity(activity: GpuActivity) -> Self {
        Self {
            kind: activity.kind.as_str(),
            name_id: activity.name_id,
            context_id: activity.context_id,
            track_id: None,
            start_nanos: activity.start_nanos,
            duration_nanos: activity.duration_nanos,
            children_nanos: 0,
            process_id: Some(activity.process_id),
            thread_id: None,
            device: Some(activity.device),
            stream: (activity.stream != u32::MAX).then_some(activity.stream),
            category_id: activity.category_id,
            args: activity.args,
            correlation_id: activity.correlation_id,
            external_id: activity.external_id,
            is_open: None,
            on_device: OnDevice {
                bytes: activity.bytes,
                grid: activity.grid,
                block: activity.block,
                registers: activity.registers,
                shared_bytes: activity.shared_bytes,
                graph_node_id: activity.graph_node_id,
            },
        }
    }

    fn of_async_span(span: AsyncSpan) -> Self {
        Self {
            kind: "async",
            name_id: span.name_id,
            context_id: None,
            track_id: Some(span.track_id),
            start_nanos: span.start_nanos,
            duration_nanos: span.duration_nanos,
            children_nanos: 0,
            process_id: Some(span.process_id),
            thread_id: None,
            device: None,
            stream: None,
            category_id: span.category_id,
            args: span.args,
            correlation_id: None,
            external_id: None,
            is_open: Some(span.is_open),
            on_device: OnDevice::default(),
        }
    }
}

type Lines<'r> = Box<dyn Iterator<Item = Result<Line, StoreError>> + 'r>;

/// All lines, by start.
fn lines<'r>(reader: &'r Reader<'r>) -> Result<Lines<'r>, StoreError> {
    let spans = reader.rows()?.map(|row| Ok(Line::of_span(row?, reader)));
    let activities = reader.rows()?.map(|row| Ok(Line::of_activity(row?)));
    let async_spans = reader.rows()?.map(|row| Ok(Line::of_async_span(row?)));
    let sources: [Lines; 3] = [Box::new(spans), Box::new(activities), Box::new(async_spans)];
    let mut sources = sources.map(Iterator::peekable);
    Ok(Box::new(std::iter::from_fn(move || {
        let starts = sources.iter_mut().filter_map(|source| Some((next_start(source)?, source)));
        let (_, least) = starts.min_by_key(|&(start_nanos, _)| start_nanos)?;
        least.next()
    })))
}

/// When the next one begins; an error comes first.
fn next_start(lines: &mut Peekable<Lines>) -> Option<i64> {
    Some(lines.peek()?.as_ref().map_or(i64::MIN, |line| line.start_nanos))
}

/// The table that is being written.
struct Records<'r, 'o> {
    reader: &'r Reader<'r>,
    csv: Writer<&'o mut dyn Write>,
    /// The record that is being written.
    record: ByteRecord,
    /// The field that is being written.
    field: String,
    paths: Paths,
}

impl Records<'_, '_> {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let reader = self.reader;
        let process = line.process_id.and_then(|id| reader.process(id));
        let thread = line.thread_id.and_then(|id| reader.thread(id));
        self.text(line.kind);
        self.text(reader.text(line.name_id));
        self.path(line);
        self.number(line.start_nanos);
        self.number(line.duration_nanos);
        self.number(line.duration_nanos.saturating_sub(line.children_nanos));
        self.maybe(process.map(|process| process.pid).filter(|&pid| pid >= 0));
        self.maybe(process.and_then(|process| process.rank));
        self.maybe(thread.map(|thread| thread.os_id).filter(|&id| id >= 0));
        self.text(thread.map_or("", |thread| &thread.name));
        self.maybe(line.device);
        self.maybe(line.stream);
        self.text(line.category_id.map_or("", |id| reader.text(id)));
        if line.args.text_id.is_some() {
            reader.args(&line.args, &mut self.field);
        }
        self.end_field();
        self.maybe(line.correlation_id);
        self.maybe(line.external_id);
        self.text(line.is_open.map_or("", |is_open| if is_open { "true" } else { "false" }));
        self.on_device(&line.on_device);
        self.csv.write_byte_record(&self.record)?;
        self.record.clear();
        Ok(())
    }

    fn on_device(&mut self, facts: &OnDevice) {
        self.maybe(facts.bytes);
        self.extents(facts.grid);
        self.extents(facts.block);
        self.maybe(facts.registers);
        self.maybe(facts.shared_bytes);
        self.maybe(facts.graph_node_id);
    }

    /// What a line is in: of a span, its own context is the last.
    fn path(&mut self, line: &Line) {
        if let Some(track_id) = line.track_id {
            self.field.push_str(self.reader.text(track_id));
            self.field.push(';');
        }
        if let Some(context) = line.context_id {
            self.field.push_str(self.paths.text(context, self.reader));
        }
        if line.thread_id.is_some() {
            self.field.pop(); // the `;` behind its own name
        } else {
            self.field.push_str(self.reader.text(line.name_id));
        }
        self.end_field();
    }

    fn extents(&mut self, along: Option<[u32; 3]>) {
        if let Some([x, y, z]) = along {
            write!(self.field, "{x}x{y}x{z}").expect("texts take everything");
        }
        self.end_field();
    }

    fn maybe(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.number(value),
            None => self.text(""),
        }
    }

    fn number(&mut self, value: impl Display) {
        write!(self.field, "{value}").expect("texts take everything");
        self.end_field();
    }

    fn text(&mut self, text: &str) {
        self.record.push_field(text.as_bytes());
    }

    fn end_field(&mut self) {
        self.record.push_field(self.field.as_bytes());
        self.field.clear();
    }
}

/// The paths of contexts as texts: a run has many spans and few contexts.
#[derive(Default)]
struct Paths {
    /// By context; `None` where it is not known.
    texts: Vec<Option<Box<str>>>,
    bytes: usize,
}

impl Paths {
    /// Returns the names from the outermost context to this one, each with `;` behind it.
    fn text(&mut self, context: u32, reader: &Reader) -> &str {
        if self.texts.is_empty() || self.bytes > MAX_PATH_BYTES {
            (self.texts, self.bytes) = (vec![None; reader.contexts().len()], 0);
        }
        let Some(text) = self.texts.get_mut(context as usize) else { return "" };
        text.get_or_insert_with(|| {
            let mut path = String::new();
            for id in reader.path(context) {
                path.push_str(reader.text(reader.context(id).name_id));
                path.push(';');
            }
            self.bytes += path.len();
            path.into()
        })
    }
}
