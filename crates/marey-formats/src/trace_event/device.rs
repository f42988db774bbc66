//! Device activities.

use marey_model::args::NewArgs;
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_store::Assembler;
use marey_store::row::{ActivityKind, Collective, CollectiveState, GpuActivity};

use super::event::Event;
use super::lexer::Lexer;
use super::number::{integer, unquoted};
use super::text::unescaped;
use super::threads::{Id, Threads};
use super::time::Times;
use crate::shared::group_ranks::GroupRanks;
use crate::shared::import::CollectiveEnd;
use crate::shared::import::{Import, ReaderError};

/// Thread ids of Proton for the graphs of a stream, and for streams.
const PROTON_GRAPHS: i64 = 100_000;
const PROTON_STREAMS: i64 = 200_000;

/// Offset of the thread ids that Kineto gives to waits for a stream.
const KINETO_STREAM_WAITS: i64 = 1_000_000;

/// Reusable state for device activities.
#[derive(Debug, Default)]
pub(super) struct Devices {
    args: NewArgs,
}

/// Arguments of an event that have columns.
#[derive(Default)]
struct Columns<'a> {
    device: Option<u32>,
    stream: Option<u32>,
    correlation_id: Option<u64>,
    external: Option<(&'a str, u64)>,
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
        let mut columns = Columns::default();
        for (key, value) in event.args() {
            if !columns.set(&key, value) {
                event.add(&key, value, &mut self.args);
            }
        }
        let (process, thread) = threads.ids(event);
        threads.add_device(process);
        let process_id = threads.device_process(import);
        let external_id = columns.external.map(|(_, id)| id);
        let name = event.name();
        let activity = GpuActivity {
            start_nanos: times.start_nanos,
            duration_nanos: times.duration_nanos,
            process_id,
            device: columns.device.unwrap_or_else(|| device_of(process)),
            stream: columns.stream.unwrap_or_else(|| stream_of(thread, event)),
            kind,
            name_id: import.run.text(&name),
            context_id: columns.call_stack.map(|stack| enclosing(&name, &names(stack), import)),
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
            add_collective(event, name, &activity, import)?;
        }
        import.run.add_gpu_activity(&activity)?;
        Ok(())
    }
}

fn add_collective(
    event: &Event,
    name: &str,
    activity: &GpuActivity,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let text_arg = |key| event.arg(key).map(|value| event.text_of(value).into_owned());
    let number = |key| event.arg(key).and_then(integer);
    let name = event.text_of(name).into_owned();
    let group = text_arg("Process Group Name").or_else(|| text_arg("Process Group ID"));
    let ranks = text_arg("Process Group Ranks").and_then(|ranks| GroupRanks::of_text(&ranks));
    let sequence = number("Seq");
    let is_p2p = matches!(name.as_str(), "send" | "recv");
    let name_id = import.run.text(&name);
    let group_id = import.run.text(&group.unwrap_or_default());
    let group_ranks_id = ranks.as_ref().map(|ranks| import.run.text(&ranks.text));
    let group_size = number("Group size").and_then(|size| size.try_into().ok());
    let group_size = group_size.or(ranks.map(|ranks| ranks.count));
    let dtype_id = text_arg("dtype").map(|dtype| import.run.text(&dtype));
    import.run.add_collective(&Collective {
        start_nanos: activity.start_nanos,
        duration_nanos: Some(activity.duration_nanos),
        created_nanos: None,
        process_id: activity.process_id,
        device: Some(activity.device),
        stream: Some(activity.stream),
        name_id,
        group_id,
        group_ranks_id,
        group_size,
        sequence,
        dtype_id,
        in_elements: number("In msg nelems"),
        out_elements: number("Out msg nelems"),
        state: CollectiveState::Completed,
        is_p2p,
        context_id: None,
        // The activity has the arguments.
        args: marey_store::row::Args::default(),
    })?;
    // Collectives without a sequence number cannot be counted, since files may begin in the middle
    // of a job. Both ends of a point-to-point message count separately.
    if let (Some(sequence), false) = (sequence, is_p2p) {
        let end_nanos = activity.start_nanos.saturating_add(activity.duration_nanos);
        import.collective_ends.push(CollectiveEnd {
            group_id,
            group_ranks_id,
            group_size,
            sequence,
            name_id,
            end_nanos,
            offset: event.offset,
        });
    }
    Ok(())
}

impl<'a> Columns<'a> {
    /// Stores an argument that has a column and a valid value; `false` if it must be kept as an
    /// argument.
    fn set(&mut self, key: &str, value: &'a str) -> bool {
        match key {
            "Collective name" => {
                self.collective.get_or_insert(value);
                false // kept as an argument too
            }
            "device" | "Device" => fill(&mut self.device, unsigned(value)),
            "stream" => fill(&mut self.stream, stream(value)),
            "correlation" => fill(&mut self.correlation_id, unsigned(value)),
            "External id" | "external id" => {
                fill(&mut self.external, unsigned(value).map(|id| (value, id)))
            }
            "graph node id" => fill(&mut self.graph_node_id, unsigned(value)),
            "grid" => fill(&mut self.grid, axes(value)),
            "block" => fill(&mut self.block, axes(value)),
            "registers per thread" => fill(&mut self.registers, unsigned(value)),
            "shared memory" => fill(&mut self.shared_bytes, value.parse().ok()),
            "bytes" => fill(&mut self.bytes, value.parse().ok()),
            "call_stack" if value.starts_with('[') => {
                self.call_stack = Some(value);
                true
            }
            _ => false,
        }
    }
}

fn fill<T>(column: &mut Option<T>, value: Option<T>) -> bool {
    let fits = value.is_some() && column.is_none();
    if fits {
        *column = value;
    }
    fits
}

fn unsigned<T: std::str::FromStr>(json: &str) -> Option<T> {
    json.parse().ok()
}

/// Parses a stream; -1 means none.
fn stream(json: &str) -> Option<u32> {
    if json == "-1" { Some(GpuActivity::NO_STREAM) } else { unsigned(json) }
}

/// Parses a list of three numbers.
fn axes(json: &str) -> Option<[u32; 3]> {
    let mut numbers = json.strip_prefix('[')?.strip_suffix(']')?.split(',').map(str::trim);
    let mut next = || unsigned(numbers.next()?);
    let axes = [next()?, next()?, next()?];
    numbers.next().is_none().then_some(axes)
}

fn device_of(process: Id) -> u32 {
    match process {
        Id::Number(number) => number.try_into().unwrap_or(0),
        Id::Text(_) => 0,
    }
}

/// Returns the stream of a thread id, or the number at the end of a text such as `stream 7`.
fn stream_of(thread: Id, event: &Event) -> u32 {
    let number = match thread {
        Id::Number(number @ KINETO_STREAM_WAITS..) => number - KINETO_STREAM_WAITS,
        Id::Number(number @ PROTON_STREAMS..) => number - PROTON_STREAMS,
        Id::Number(number @ PROTON_GRAPHS..) => number - PROTON_GRAPHS,
        Id::Number(number) => number,
        Id::Text(_) => {
            let digits = unquoted(event.thread()).rsplit(' ').next().unwrap_or_default();
            return unsigned(digits).unwrap_or(GpuActivity::NO_STREAM);
        }
    };
    number.try_into().unwrap_or(GpuActivity::NO_STREAM)
}

/// Whether a thread of Proton contains the graphs of a stream.
pub(super) fn is_graph_thread((process, thread): (Id, Id)) -> bool {
    process == Id::Number(0) && matches!(thread, Id::Number(PROTON_GRAPHS..KINETO_STREAM_WAITS))
}

/// Returns the context of a call stack, without a last frame that is the event itself.
fn enclosing(name: &str, stack: &[String], import: &mut Import) -> u32 {
    // The name of an event with metrics includes them.
    let is_own = |last: &str| {
        name.strip_prefix(last).is_some_and(|rest| rest.is_empty() || rest.starts_with(": <"))
    };
    let enclosing = match stack {
        [enclosing @ .., last] if is_own(last) => enclosing,
        all => all,
    };
    context(enclosing, NodeKind::Scope, import)
}

/// Returns the context of a call stack of Proton, whose last frame has the given kind.
pub(super) fn context(stack: &[String], kind: NodeKind, import: &mut Import) -> u32 {
    let frames = match stack {
        [root, frames @ ..] if root == ROOT_NAME => frames,
        all => all,
    };
    let mut context = Assembler::ROOT;
    for (at, name) in frames.iter().enumerate() {
        let kind = if at + 1 == frames.len() { kind } else { NodeKind::Scope };
        let name_id = import.run.text(name);
        context = import.run.context(context, kind, name_id);
    }
    context
}

/// Returns the names in a call stack.
pub(super) fn names(stack: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lexer = Lexer::new(stack.as_bytes());
    let end = lexer.list(|lexer| {
        let name = lexer.value()?.of(stack);
        names.push(unescaped(unquoted(name)).into_owned());
        Ok(())
    });
    debug_assert_eq!(end, Ok(()), "it has been read as part of the event");
    names
}
