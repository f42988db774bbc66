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
        format!(
            "{}+{} children={} {} {}{}{}{}",
            self.start_nanos,
            self.duration_nanos,
            self.children_nanos,
            dump.thread(self.thread_id),
            dump.path(self.context_id),
            open_text(self.is_open),
            id_text(self.correlation_id, self.external_id),
            dump.details(self.category_id, &self.args)
        )
    }
}

impl Line for AsyncSpan {
    fn line(&self, dump: &Dump) -> String {
        let Self { start_nanos, duration_nanos, .. } = self;
        format!(
            "{start_nanos}+{duration_nanos} {} track={} {:?}{}{}",
            dump.process(self.process_id),
            dump.text(self.track_id),
            dump.text(self.name_id),
            open_text(self.is_open),
            dump.details(self.category_id, &self.args)
        )
    }
}

impl Line for Instant {
    fn line(&self, dump: &Dump) -> String {
        let Self { time_nanos, scope, .. } = self;
        format!(
            "{time_nanos} {} {:?} {scope:?} {:?}{}",
            dump.process(self.process_id),
            self.thread_id.map(|id| dump.thread(id)),
            dump.text(self.name_id),
            dump.details(self.category_id, &self.args)
        )
    }
}

impl Line for Flow {
    fn line(&self, dump: &Dump) -> String {
        let Self { time_nanos, point, flow_id, is_enclosing, .. } = self;
        format!(
            "{time_nanos} {} {point:?} id={flow_id} enclosing={is_enclosing} {:?}{}",
            dump.thread(self.thread_id),
            dump.text(self.name_id),
            dump.details(self.category_id, &self.args)
        )
    }
}

impl Line for Metric {
    fn line(&self, dump: &Dump) -> String {
        format!(
            "{} {} {} {:?} {}",
            self.time_nanos,
            dump.thread(self.thread_id),
            dump.path(self.context_id),
            dump.text(self.name_id),
            value(&self.value)
        )
    }
}

impl Line for Sample {
    fn line(&self, dump: &Dump) -> String {
        format!(
            "{} {:?} {} {:?} {:?} {}{}",
            dump.process(self.process_id),
            self.thread_id.map(|id| dump.thread(id)),
            dump.path(self.context_id),
            dump.text(self.name_id),
            self.time_nanos,
            value(&self.value),
            dump.args(&self.args)
        )
    }
}

impl Line for Variable {
    fn line(&self, dump: &Dump) -> String {
        let Self { time_nanos, line, .. } = self;
        format!(
            "{} {:?} {time_nanos} {} {}:{line} {} {} {}",
            dump.process(self.process_id),
            self.thread_id.map(|id| dump.thread(id)),
            dump.text(self.function_id),
            dump.text(self.file_id),
            dump.text(self.name_id),
            dump.text(self.type_id),
            value(&self.value)
        )
    }
}

impl Line for Step {
    fn line(&self, dump: &Dump) -> String {
        let Self { start_nanos, duration_nanos, number, .. } = self;
        let (thread, path) = (dump.thread(self.thread_id), dump.path(self.context_id));
        format!("{start_nanos}+{duration_nanos} {thread} {path} {number}")
    }
}

impl Line for GpuActivity {
    fn line(&self, dump: &Dump) -> String {
        let Self { start_nanos, duration_nanos, device, stream, kind, .. } = self;
        let Self { graph_node_id, grid, block, registers, shared_bytes, bytes, .. } = self;
        format!(
            "{start_nanos}+{duration_nanos} {} device={device} stream={stream} {kind:?} {:?} \
            at={:?}{} graph_node={graph_node_id:?} grid={grid:?} block={block:?} \
            registers={registers:?} shared={shared_bytes:?} bytes={bytes:?}{}",
            dump.process(self.process_id),
            dump.text(self.name_id),
            self.context_id.map(|id| dump.path(id)),
            id_text(self.correlation_id, self.external_id),
            dump.details(self.category_id, &self.args)
        )
    }
}

impl Line for Collective {
    fn line(&self, dump: &Dump) -> String {
        let Self { start_nanos, duration_nanos, created_nanos, device, stream, .. } = self;
        let Self { group_size, sequence, in_elements, out_elements, state, is_p2p, .. } = self;
        format!(
            "{start_nanos}+{duration_nanos:?} created={created_nanos:?} {} device={device:?} \
            stream={stream:?} {:?} group={:?} ranks={:?} size={group_size:?} \
            sequence={sequence:?} dtype={:?} in={in_elements:?} out={out_elements:?} {state:?} \
            p2p={is_p2p} at={:?}{}",
            dump.process(self.process_id),
            dump.text(self.name_id),
            dump.text(self.group_id),
            self.group_ranks_id.map(|id| dump.text(id)),
            self.dtype_id.map(|id| dump.text(id)),
            self.context_id.map(|id| dump.path(id)),
            dump.args(&self.args)
        )
    }
}

impl Line for MemoryEvent {
    fn line(&self, dump: &Dump) -> String {
        let Self { time_nanos, action, device_type, device, stream, address, bytes, .. } = self;
        let Self { allocated_bytes, reserved_bytes, .. } = self;
        format!(
            "{time_nanos} {} {:?} {action:?} {device_type} device={device:?} stream={stream:?} \
            address={address:?} bytes={bytes} allocated={allocated_bytes:?} \
            reserved={reserved_bytes:?} at={:?}{}",
            dump.process(self.process_id),
            self.thread_id.map(|id| dump.thread(id)),
            self.context_id.map(|id| dump.path(id)),
            dump.details(self.category_id, &self.args)
        )
    }
}

impl Line for MemoryBlock {
    fn line(&self, dump: &Dump) -> String {
        let Self { time_nanos, device, stream, segment_address, segment_bytes, .. } = self;
        let Self { segment_type, address, bytes, requested_bytes, state, .. } = self;
        format!(
            "{time_nanos} {} device={device} stream={stream:?} \
            segment={segment_address:#x}+{segment_bytes} {segment_type} {address:#x}+{bytes} \
            requested={requested_bytes:?} {state} at={:?}{}",
            dump.process(self.process_id),
            self.context_id.map(|id| dump.path(id)),
            dump.args(&self.args)
        )
    }
}

impl Line for Device {
    fn line(&self, dump: &Dump) -> String {
        let Self { process_id, device, device_type, name, properties } = self;
        format!("{} {device_type} {device} {name:?} {properties}", dump.process(*process_id))
    }
}

impl Line for Metadata {
    fn line(&self, dump: &Dump) -> String {
        let thread = self.thread_id.map(|id| dump.thread(id));
        format!("{} {thread:?} {}={}", dump.process(self.process_id), self.key, self.value)
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
            write!(path, "/{kind}:{}", self.text(context.name_id)).unwrap();
        }
        path
    }

    fn text(&self, id: u32) -> &str {
        self.reader.text(id)
    }

    /// Returns the category in brackets and the args.
    fn details(&self, category: Option<u32>, args: &Args) -> String {
        let category = category.map_or(String::new(), |id| format!(" [{}]", self.text(id)));
        category + &self.args(args)
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

fn open_text(is_open: bool) -> &'static str {
    if is_open { " open" } else { "" }
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
