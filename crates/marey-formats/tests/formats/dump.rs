//! Runs as text, for golden files and for comparing runs whose ids differ.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use marey_formats::{Format, ImportError, LeftOut, TemporaryRun, export, open};
use marey_model::metric::MetricValue;
use marey_store::row::{
    Args, AsyncSpan, Collective, Device, Flow, GpuActivity, Instant, MemoryBlock, MemoryEvent,
    Metadata, Metric, Row, Sample, Span, Step, Variable,
};
use marey_store::{Reader, Run, Selection};

/// Imports a file with this content.
pub(crate) fn import_bytes(content: &[u8]) -> Result<TemporaryRun, ImportError> {
    import_named("file", content)
}

/// Imports a file with this name and content.
pub(crate) fn import_named(name: &str, content: &[u8]) -> Result<TemporaryRun, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(content).unwrap();
    open(&path, &std::sync::Arc::default())
}

/// Imports a file of the test data.
pub(crate) fn import_data(name: &str) -> TemporaryRun {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    open(&path, &std::sync::Arc::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Exports a run.
pub(crate) fn export_bytes(run: &Run, format: Format) -> (Vec<u8>, LeftOut) {
    let mut out = Vec::new();
    let left_out = export(&reader(run), format, &mut out).unwrap();
    (out, left_out)
}

/// Returns a reader of the whole run.
pub(crate) fn reader(run: &Run) -> Reader<'_> {
    Reader::new(run, Selection::default()).unwrap()
}

/// Returns the content of a run: a line for each row, with names instead of ids. The lines are
/// sorted, so that runs with the same content have the same dump.
pub(crate) fn dump(run: &Run) -> String {
    let reader = reader(run);
    let dump = Dump { reader: &reader };
    let mut lines = Vec::new();
    for process in reader.processes() {
        lines.push(format!(
            "process {} rank={:?} host={:?} argv={} name={:?} {}..{}",
            process.pid,
            process.rank,
            process.host,
            process.argv,
            process.name,
            process.start_nanos,
            process.end_nanos
        ));
    }
    for thread in reader.threads() {
        lines.push(format!("thread {}", dump.thread(thread.id)));
    }
    dump.rows::<Span>(&mut lines);
    dump.rows::<AsyncSpan>(&mut lines);
    dump.rows::<Instant>(&mut lines);
    dump.rows::<Flow>(&mut lines);
    dump.rows::<Metric>(&mut lines);
    dump.rows::<Sample>(&mut lines);
    dump.rows::<Step>(&mut lines);
    dump.rows::<GpuActivity>(&mut lines);
    dump.rows::<Collective>(&mut lines);
    dump.rows::<Variable>(&mut lines);
    dump.rows::<MemoryEvent>(&mut lines);
    dump.rows::<MemoryBlock>(&mut lines);
    dump.rows::<Device>(&mut lines);
    dump.rows::<Metadata>(&mut lines);
    for (cause, count) in &run.manifest().losses {
        lines.push(format!("loss {cause}={count}"));
    }
    lines.sort();
    lines.join("\n") + "\n"
}

/// A row that is written as a line.
trait Line: Row {
    fn line(&self, dump: &Dump) -> String;
}

impl Line for Span {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{}+{} children={} {} {}{}{}{}{}",
            row.start_nanos,
            row.duration_nanos,
            row.children_nanos,
            dump.thread(row.thread_id),
            dump.path(row.context_id),
            if row.is_open { " open" } else { "" },
            id_text(row.correlation_id, row.external_id),
            dump.category(row.category_id),
            dump.args(&row.args)
        )
    }
}

impl Line for AsyncSpan {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{}+{} {} track={} {:?}{}{}{}",
            row.start_nanos,
            row.duration_nanos,
            dump.process(row.process_id),
            dump.reader.text(row.track_id),
            dump.reader.text(row.name_id),
            if row.is_open { " open" } else { "" },
            dump.category(row.category_id),
            dump.args(&row.args)
        )
    }
}

impl Line for Instant {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{} {} {:?} {:?} {:?}{}{}",
            row.time_nanos,
            dump.process(row.process_id),
            row.thread_id.map(|id| dump.thread(id)),
            row.scope,
            dump.reader.text(row.name_id),
            dump.category(row.category_id),
            dump.args(&row.args)
        )
    }
}

impl Line for Flow {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{} {} {:?} id={} enclosing={} {:?}{}{}",
            row.time_nanos,
            dump.thread(row.thread_id),
            row.point,
            row.flow_id,
            row.is_enclosing,
            dump.reader.text(row.name_id),
            dump.category(row.category_id),
            dump.args(&row.args)
        )
    }
}

impl Line for Metric {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{} {} {} {:?} {}",
            row.time_nanos,
            dump.thread(row.thread_id),
            dump.path(row.context_id),
            dump.reader.text(row.name_id),
            value(&row.value)
        )
    }
}

impl Line for Sample {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{} {:?} {} {:?} {:?} {}{}",
            dump.process(row.process_id),
            row.thread_id.map(|id| dump.thread(id)),
            dump.path(row.context_id),
            dump.reader.text(row.name_id),
            row.time_nanos,
            value(&row.value),
            dump.args(&row.args)
        )
    }
}

impl Line for Variable {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{} {:?} {} {} {}:{} {} {} {}",
            dump.process(row.process_id),
            row.thread_id.map(|id| dump.thread(id)),
            row.time_nanos,
            dump.reader.text(row.function_id),
            dump.reader.text(row.file_id),
            row.line,
            dump.reader.text(row.name_id),
            dump.reader.text(row.type_id),
            value(&row.value)
        )
    }
}

impl Line for Step {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{}+{} {} {} {}",
            row.start_nanos,
            row.duration_nanos,
            dump.thread(row.thread_id),
            dump.path(row.context_id),
            row.number
        )
    }
}

impl Line for GpuActivity {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{}+{} {} device={} stream={} {:?} {:?} at={:?}{} graph_node={:?} grid={:?} block={:?} registers={:?} shared={:?} bytes={:?}{}{}",
            row.start_nanos,
            row.duration_nanos,
            dump.process(row.process_id),
            row.device,
            row.stream,
            row.kind,
            dump.reader.text(row.name_id),
            row.context_id.map(|id| dump.path(id)),
            id_text(row.correlation_id, row.external_id),
            row.graph_node_id,
            row.grid,
            row.block,
            row.registers,
            row.shared_bytes,
            row.bytes,
            dump.category(row.category_id),
            dump.args(&row.args)
        )
    }
}

impl Line for Collective {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{}+{:?} created={:?} {} device={:?} stream={:?} {:?} group={:?} ranks={:?} size={:?} sequence={:?} dtype={:?} in={:?} out={:?} {:?} p2p={} at={:?}{}",
            row.start_nanos,
            row.duration_nanos,
            row.created_nanos,
            dump.process(row.process_id),
            row.device,
            row.stream,
            dump.reader.text(row.name_id),
            dump.reader.text(row.group_id),
            row.group_ranks_id.map(|id| dump.reader.text(id)),
            row.group_size,
            row.sequence,
            row.dtype_id.map(|id| dump.reader.text(id)),
            row.in_elements,
            row.out_elements,
            row.state,
            row.is_p2p,
            row.context_id.map(|id| dump.path(id)),
            dump.args(&row.args)
        )
    }
}

impl Line for MemoryEvent {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{} {} {:?} {:?} {} device={:?} stream={:?} address={:?} bytes={} allocated={:?} reserved={:?} at={:?}{}{}",
            row.time_nanos,
            dump.process(row.process_id),
            row.thread_id.map(|id| dump.thread(id)),
            row.action,
            row.device_type,
            row.device,
            row.stream,
            row.address,
            row.bytes,
            row.allocated_bytes,
            row.reserved_bytes,
            row.context_id.map(|id| dump.path(id)),
            dump.category(row.category_id),
            dump.args(&row.args)
        )
    }
}

impl Line for MemoryBlock {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        format!(
            "{} {} device={} stream={:?} segment={:#x}+{} {} {:#x}+{} requested={:?} {} at={:?}{}",
            row.time_nanos,
            dump.process(row.process_id),
            row.device,
            row.stream,
            row.segment_address,
            row.segment_bytes,
            row.segment_type,
            row.address,
            row.bytes,
            row.requested_bytes,
            row.state,
            row.context_id.map(|id| dump.path(id)),
            dump.args(&row.args)
        )
    }
}

impl Line for Device {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        let Device { process_id, device, device_type, name, properties } = row;
        format!("{} {device_type} {device} {name:?} {properties}", dump.process(*process_id))
    }
}

impl Line for Metadata {
    fn line(&self, dump: &Dump) -> String {
        let row = self;
        let thread = row.thread_id.map(|id| dump.thread(id));
        format!("{} {thread:?} {}={}", dump.process(row.process_id), row.key, row.value)
    }
}

struct Dump<'a> {
    reader: &'a Reader<'a>,
}

impl Dump<'_> {
    fn rows<R: Line>(&self, lines: &mut Vec<String>) {
        for row in self.reader.rows::<R>().unwrap() {
            lines.push(format!("{} {}", R::TABLE.name, row.unwrap().line(self)));
        }
    }

    fn process(&self, id: u32) -> String {
        let process = self.reader.process(id).unwrap();
        format!("p{}", process.pid)
    }

    fn thread(&self, id: u32) -> String {
        let thread = self.reader.thread(id).unwrap();
        format!("{}/t{}({})", self.process(thread.process_id), thread.os_id, thread.name)
    }

    fn path(&self, context: u32) -> String {
        let mut path = String::new();
        for id in self.reader.path(context) {
            let context = self.reader.context(id);
            let kind = context.kind.as_str();
            write!(path, "/{kind}:{}", self.reader.text(context.name_id)).unwrap();
        }
        path
    }

    fn category(&self, id: Option<u32>) -> String {
        id.map_or(String::new(), |id| format!(" [{}]", self.reader.text(id)))
    }

    /// Returns an object with sorted keys, since their order is irrelevant.
    fn args(&self, args: &Args) -> String {
        let mut json = String::new();
        self.reader.args(args, &mut json);
        let object: serde_json::Value =
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
        if json == "{}" { String::new() } else { format!(" {object}") }
    }
}

fn id_text(correlation: Option<u64>, external: Option<u64>) -> String {
    let number = |name, id: Option<u64>| id.map_or(String::new(), |id| format!(" {name}={id}"));
    number("correlation", correlation) + &number("external", external)
}

fn value(value: &MetricValue) -> String {
    match value {
        MetricValue::Int(value) => value.to_string(),
        MetricValue::Float(value) => format!("{value:?}"),
        MetricValue::Text(text) => format!("{text:?}"),
        MetricValue::Ints(values) => format!("{values:?}"),
        MetricValue::Floats(values) => format!("{values:?}"),
    }
}
