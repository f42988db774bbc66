//! Converts the events of device activities to rows, with their contexts.

use marey_model::args::NewArgs;
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_store::Assembler;
use marey_store::row::{ActivityKind, GpuActivity};

use super::collectives::{COLLECTIVE_ARG, Collectives};
use super::event::Event;
use super::lexer::Lexer;
use super::number::trim_quotes;
use super::text::unescape;
use super::threads::{FileId, Threads};
use super::time::Times;
use crate::shared::import::{Import, ReaderError};

/// The first thread ids of Proton for the graphs of streams, and for streams.
const FIRST_PROTON_GRAPH_TID: i64 = 100_000;
const FIRST_PROTON_STREAM_TID: i64 = 200_000;

/// The thread id of Kineto for waits for stream 0.
const FIRST_KINETO_WAIT_TID: i64 = 1_000_000;

/// The state of the conversion, kept to reuse its allocations.
#[derive(Debug, Default)]
pub(super) struct Devices {
    pub(super) collectives: Collectives,
    args: NewArgs,
}

/// The arguments of an event that have columns.
#[derive(Default)]
struct ActivityColumns<'a> {
    device: Option<u32>,
    stream: Option<u32>,
    correlation_id: Option<u64>,
    external_id: Option<(&'a str, u64)>,
    graph_node_id: Option<u64>,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    registers: Option<u32>,
    shared_bytes: Option<i64>,
    bytes: Option<i64>,
    call_stack: Option<&'a str>,
    /// Name of the collective that the activity belongs to, as JSON.
    collective: Option<&'a str>,
}

impl Devices {
    pub(super) fn add(
        &mut self,
        event: &Event,
        (kind, category_id): (ActivityKind, Option<u32>),
        times: Times,
        threads: &mut Threads,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        self.args.clear();
        event.add_extra_members(&mut self.args);
        times.add_malformed_duration(event, &mut self.args);
        let mut columns = ActivityColumns::default();
        for (key, value) in event.args() {
            if !columns.try_set(&key, value) {
                event.add_arg(&key, value, &mut self.args);
            }
        }
        let (process, thread) = threads.ids(event);
        threads.add_device(process);
        let process_id = threads.device_process(import);
        let external_id = columns.external_id.map(|(_, id)| id);
        let name = event.name();
        let activity = GpuActivity {
            start_nanos: times.start_nanos,
            duration_nanos: times.duration_nanos,
            process_id,
            device: columns.device.unwrap_or_else(|| device_number(process)),
            stream: columns.stream.unwrap_or_else(|| stream_number(thread, event)),
            kind,
            name_id: import.run.text_id(&name),
            context_id: columns
                .call_stack
                .map(|stack| enclosing_context(&name, &call_stack_names(stack), import)),
            correlation_id: columns.correlation_id,
            graph_node_id: columns.graph_node_id,
            grid: columns.grid,
            block: columns.block,
            registers: columns.registers,
            shared_bytes: columns.shared_bytes,
            bytes: columns.bytes,
            category_id,
            // Files of 2021 repeat the correlation id if the operator is unknown.
            external_id: external_id.filter(|id| columns.correlation_id != Some(*id)),
            args: import.run.args(&mut self.args)?,
        };
        if let Some(name) = columns.collective {
            self.collectives.add_activity(event, name, &activity, external_id, import)?;
        }
        import.run.add_gpu_activity(&activity)?;
        Ok(())
    }
}

impl<'a> ActivityColumns<'a> {
    /// Stores an argument that has a column and a valid value. Returns `false` if it must be kept
    /// as an argument.
    fn try_set(&mut self, key: &str, value: &'a str) -> bool {
        match key {
            COLLECTIVE_ARG => {
                self.collective.get_or_insert(value);
                false // kept as an argument too
            }
            "device" | "Device" => fill_column(&mut self.device, parse_unsigned(value)),
            "stream" => fill_column(&mut self.stream, parse_stream(value)),
            "correlation" => fill_column(&mut self.correlation_id, parse_unsigned(value)),
            "External id" | "external id" => {
                fill_column(&mut self.external_id, parse_unsigned(value).map(|id| (value, id)))
            }
            "graph node id" => fill_column(&mut self.graph_node_id, parse_unsigned(value)),
            "grid" => fill_column(&mut self.grid, parse_axes(value)),
            "block" => fill_column(&mut self.block, parse_axes(value)),
            "registers per thread" => fill_column(&mut self.registers, parse_unsigned(value)),
            "shared memory" => fill_column(&mut self.shared_bytes, value.parse().ok()),
            "bytes" => fill_column(&mut self.bytes, value.parse().ok()),
            "call_stack" if value.starts_with('[') => {
                self.call_stack = Some(value);
                true
            }
            _ => false,
        }
    }
}

fn fill_column<T>(column: &mut Option<T>, value: Option<T>) -> bool {
    let is_stored = value.is_some() && column.is_none();
    if is_stored {
        *column = value;
    }
    is_stored
}

fn parse_unsigned<T: std::str::FromStr>(json: &str) -> Option<T> {
    json.parse().ok()
}

/// Parses a stream. -1 means none.
fn parse_stream(json: &str) -> Option<u32> {
    if json == "-1" { Some(GpuActivity::NO_STREAM) } else { parse_unsigned(json) }
}

/// Parses a list of three numbers.
fn parse_axes(json: &str) -> Option<[u32; 3]> {
    let mut numbers = json.strip_prefix('[')?.strip_suffix(']')?.split(',').map(str::trim);
    let mut next = || parse_unsigned(numbers.next()?);
    let axes = [next()?, next()?, next()?];
    numbers.next().is_none().then_some(axes)
}

fn device_number(process: FileId) -> u32 {
    match process {
        FileId::Number(number) => number.try_into().unwrap_or(0),
        FileId::Text(_) => 0,
    }
}

/// Returns the stream that a thread id stands for, or the number at the end of a text such as
/// `stream 7`.
fn stream_number(thread: FileId, event: &Event) -> u32 {
    let number = match thread {
        FileId::Number(number @ FIRST_KINETO_WAIT_TID..) => number - FIRST_KINETO_WAIT_TID,
        FileId::Number(number @ FIRST_PROTON_STREAM_TID..) => number - FIRST_PROTON_STREAM_TID,
        FileId::Number(number @ FIRST_PROTON_GRAPH_TID..) => number - FIRST_PROTON_GRAPH_TID,
        FileId::Number(number) => number,
        FileId::Text(_) => {
            let digits = trim_quotes(event.thread()).rsplit(' ').next().unwrap_or_default();
            return parse_unsigned(digits).unwrap_or(GpuActivity::NO_STREAM);
        }
    };
    number.try_into().unwrap_or(GpuActivity::NO_STREAM)
}

/// Whether a thread of a file of Proton has the graphs of a stream.
pub(super) fn is_graph_thread((process, thread): (FileId, FileId)) -> bool {
    process == FileId::Number(0)
        && matches!(thread, FileId::Number(FIRST_PROTON_GRAPH_TID..FIRST_KINETO_WAIT_TID))
}

/// Returns the context of a call stack, without a last frame that is the event itself.
fn enclosing_context(name: &str, stack: &[String], import: &mut Import) -> u32 {
    // The name of an event with metrics includes them.
    let is_event_itself = |last: &str| {
        name.strip_prefix(last).is_some_and(|rest| rest.is_empty() || rest.starts_with(": <"))
    };
    let enclosing = match stack {
        [enclosing @ .., last] if is_event_itself(last) => enclosing,
        frames => frames,
    };
    call_stack_context(enclosing, NodeKind::Scope, import)
}

/// Returns the context of a call stack of Proton, whose last frame has the given kind.
pub(super) fn call_stack_context(stack: &[String], kind: NodeKind, import: &mut Import) -> u32 {
    let frames = match stack {
        [root, frames @ ..] if root == ROOT_NAME => frames,
        frames => frames,
    };
    let mut context = Assembler::ROOT;
    for (index, name) in frames.iter().enumerate() {
        let kind = if index + 1 == frames.len() { kind } else { NodeKind::Scope };
        let name_id = import.run.text_id(name);
        context = import.run.context_id(context, kind, name_id);
    }
    context
}

/// Returns the names in a call stack.
pub(super) fn call_stack_names(stack: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lexer = Lexer::new(stack.as_bytes());
    let result = lexer.read_list(|lexer| {
        let name = lexer.read_value()?.slice(stack);
        names.push(unescape(trim_quotes(name)).into_owned());
        Ok(())
    });
    debug_assert_eq!(result, Ok(()), "the list was parsed with the event");
    names
}
