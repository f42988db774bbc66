//! Writes the rows that are the same in all dialects: instants, flows, counters, memory events and
//! asynchronous spans.

use marey_model::json::{Object, push_float, push_value};
use marey_model::metric::MetricValue;
use marey_store::Assembler;
use marey_store::row::{
    AsyncSpan, Flow, FlowPoint, Instant, InstantScope, MemoryAction, MemoryEvent, Metric,
};

use super::{Event, TraceWriter, write_args, write_optional};
use crate::shared::export::{ExportError, LeftOut};

/// The device types by their numbers in `PyTorch`, which memory events store.
pub(crate) const DEVICE_TYPES: [&str; 21] = [
    "cpu",
    "cuda",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "fpga",
    "maia",
    "xla",
    "vulkan",
    "metal",
    "xpu",
    "mps",
    "meta",
    "hpu",
    "ve",
    "lazy",
    "ipu",
    "mtia",
    "privateuseone",
];

/// Writes instants.
pub(crate) fn write_instants(writer: &mut TraceWriter) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    let mut args = String::new();
    for row in reader.rows::<Instant>()? {
        let row = row?;
        args.clear();
        reader.args(&row.args, &mut args);
        let event = Event {
            phase: "i",
            category: row.category_id.map(|id| reader.text(id)),
            name: reader.text(row.name_id),
            track: row
                .thread_id
                .map_or_else(|| tracks.first_thread(row.process_id), |id| tracks.thread(id)),
            time_nanos: row.time_nanos,
            duration_nanos: None,
        };
        writer.add(&event, |event| {
            let scope = match row.scope {
                InstantScope::Thread => "t",
                InstantScope::Process => "p",
                InstantScope::Global => "g",
            };
            event.text("s", scope);
            write_own_args(event, &args);
        })?;
    }
    Ok(())
}

/// Writes the flows of the run, except those from launches, which are written with launches and
/// activities.
pub(crate) fn write_flows(writer: &mut TraceWriter) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    let mut args = String::new();
    for row in reader.rows::<Flow>()? {
        let row = row?;
        args.clear();
        reader.args(&row.args, &mut args);
        let process_id = reader.thread(row.thread_id).map_or(u32::MAX, |thread| thread.process_id);
        let phase = match row.point {
            FlowPoint::Start => "s",
            FlowPoint::Step => "t",
            FlowPoint::End => "f",
        };
        let event = Event {
            phase,
            category: row.category_id.map(|id| reader.text(id)),
            name: reader.text(row.name_id),
            track: tracks.thread(row.thread_id),
            time_nanos: row.time_nanos,
            duration_nanos: None,
        };
        writer.add(&event, |event| {
            event.value("id", tracks.flow_id(process_id, row.flow_id));
            if row.is_enclosing && row.point == FlowPoint::End {
                event.text("bp", "e");
            }
            write_own_args(event, &args);
        })?;
    }
    Ok(())
}

/// Whether a value is that of a counter, and not of a metric that the program added to a scope.
pub(crate) fn is_counter(row: &Metric) -> bool {
    row.sessions == 0 && row.context_id == Assembler::ROOT
}

/// Writes the values for which `is_wanted` holds as counter events.
pub(crate) fn write_counters(
    writer: &mut TraceWriter,
    left_out: &mut LeftOut,
    is_wanted: impl Fn(&Metric, &mut LeftOut) -> bool,
) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    for row in reader.rows::<Metric>()? {
        let row = row?;
        if !is_wanted(&row, left_out) {
            continue;
        }
        if let MetricValue::Text(_) | MetricValue::Ints(_) | MetricValue::Floats(_) = row.value {
            *left_out.entry("values that are not numbers").or_default() += 1;
            continue;
        }
        let name = reader.text(row.name_id);
        let event = Event {
            phase: "C",
            category: None,
            name,
            track: tracks.thread(row.thread_id),
            time_nanos: row.time_nanos,
            duration_nanos: None,
        };
        writer.add(&event, |event| {
            event.object("args", |args| match row.value {
                MetricValue::Int(value) => args.member(name, |text| push_value(value, text)),
                MetricValue::Float(value) => args.member(name, |text| push_float(value, text)),
                MetricValue::Text(_) | MetricValue::Ints(_) | MetricValue::Floats(_) => {}
            });
        })?;
    }
    Ok(())
}

/// Writes allocations, frees and failed allocations.
pub(crate) fn write_memory_events(
    writer: &mut TraceWriter,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    let mut args = String::new();
    for row in reader.rows::<MemoryEvent>()? {
        let row = row?;
        let name = match row.action {
            MemoryAction::Alloc | MemoryAction::Free => "[memory]",
            MemoryAction::OutOfMemory => "[OutOfMemory]",
            _ => {
                *left_out.entry("allocator events").or_default() += 1;
                continue;
            }
        };
        args.clear();
        reader.args(&row.args, &mut args);
        let event = Event {
            phase: "i",
            category: Some(row.category_id.map_or("cpu_instant_event", |id| reader.text(id))),
            name,
            track: row
                .thread_id
                .map_or_else(|| tracks.first_thread(row.process_id), |id| tracks.thread(id)),
            time_nanos: row.time_nanos,
            duration_nanos: None,
        };
        writer.add(&event, |event| {
            event.text("s", "t");
            write_args(event, &args, |event| write_memory(&row, event));
        })?;
        *left_out.entry("call stacks of memory events").or_default() +=
            u64::from(row.context_id.is_some() && row.thread_id.is_none());
    }
    Ok(())
}

fn write_memory(row: &MemoryEvent, event: &mut Object) {
    match DEVICE_TYPES.iter().position(|device_type| **device_type == *row.device_type) {
        Some(number) => event.value("Device Type", number),
        None if row.device_type.is_empty() => {}
        None => match row.device_type.parse::<i64>() {
            Ok(number) => event.value("Device Type", number),
            Err(_) => event.text("Device Type", &row.device_type),
        },
    }
    event.value("Device Id", row.device.map_or(-1, i64::from));
    write_optional(event, "Stream", row.stream);
    write_optional(event, "Addr", row.address);
    let is_free = row.action == MemoryAction::Free;
    event.value("Bytes", if is_free { row.bytes.saturating_neg() } else { row.bytes });
    write_optional(event, "Total Allocated", row.allocated_bytes);
    write_optional(event, "Total Reserved", row.reserved_bytes);
}

/// Writes asynchronous spans.
pub(crate) fn write_async_spans(writer: &mut TraceWriter) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    let mut args = String::new();
    for row in reader.rows::<AsyncSpan>()? {
        let row = row?;
        args.clear();
        reader.args(&row.args, &mut args);
        let id = reader.text(row.track_id);
        let begin = Event {
            phase: "b",
            category: row.category_id.map(|id| reader.text(id)),
            name: reader.text(row.name_id),
            track: tracks.first_thread(row.process_id),
            time_nanos: row.start_nanos,
            duration_nanos: None,
        };
        writer.add(&begin, |event| {
            event.text("id", id);
            write_own_args(event, &args);
        })?;
        if !row.is_open {
            let time_nanos = row.start_nanos.saturating_add(row.duration_nanos);
            let end = Event { phase: "e", time_nanos, ..begin };
            writer.add(&end, |event| event.text("id", id))?;
        }
    }
    Ok(())
}

fn write_own_args(event: &mut Object, args: &str) {
    if args != "{}" {
        event.object("args", |event| event.members(args));
    }
}
