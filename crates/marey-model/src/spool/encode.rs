//! Encodes frames. [`super::decode`] reads the fields of each payload in the same order.

use super::collective::put_collectives;
use super::device::{put_activities, put_device, put_shapes};
use super::error::FrameTooLong;
use super::frame::{AutogradCall, Counter, NodeDef, RecordedValue, SessionEvent, Span, SpoolFrame};
use super::sample::put_samples;
use super::variable::put_variables;
use super::varint::{put_optional, put_signed, put_text, put_varint, zigzag};
use super::{MAX_FRAME_BYTES, PREFIX_BYTES};
use crate::loss::LossCause;
use crate::metric::MetricValue;
use crate::profile::{Overhead, Process};

/// Number of each frame kind in a file. Numbers are never changed or reused.
pub(super) mod kind {
    pub(in super::super) const PROCESS: u8 = 1;
    pub(in super::super) const CLOCK: u8 = 2;
    pub(in super::super) const STRINGS: u8 = 3;
    pub(in super::super) const THREAD: u8 = 4;
    pub(in super::super) const NODES: u8 = 5;
    pub(in super::super) const SPANS: u8 = 6;
    pub(in super::super) const VALUES: u8 = 7;
    pub(in super::super) const OPEN: u8 = 8;
    pub(in super::super) const SESSION: u8 = 9;
    pub(in super::super) const LOSSES: u8 = 10;
    pub(in super::super) const END: u8 = 11;
    pub(in super::super) const OVERHEAD: u8 = 12;
    pub(in super::super) const LAUNCHES: u8 = 13;
    pub(in super::super) const DEVICE: u8 = 14;
    pub(in super::super) const SHAPES: u8 = 15;
    pub(in super::super) const ACTIVITIES: u8 = 17;
    pub(in super::super) const NOTE: u8 = 18;
    pub(in super::super) const COUNTERS: u8 = 16;
    pub(in super::super) const AUTOGRAD: u8 = 19;
    pub(in super::super) const SPAN_ARGS: u8 = 20;
    pub(in super::super) const ARGS_OF_SPANS: u8 = 21;
    pub(in super::super) const COLLECTIVES: u8 = 22;
    pub(in super::super) const SAMPLES: u8 = 23;
    pub(in super::super) const VARIABLES: u8 = 24;
}

/// Number of each value type.
pub(super) mod value_type {
    pub(in super::super) const INT: u8 = 0;
    pub(in super::super) const FLOAT: u8 = 1;
    pub(in super::super) const TEXT: u8 = 2;
    pub(in super::super) const INTS: u8 = 3;
    pub(in super::super) const FLOATS: u8 = 4;
}

/// Number of each session event.
pub(super) mod session_event {
    pub(in super::super) const STARTED: u8 = 0;
    pub(in super::super) const ACTIVATED: u8 = 1;
    pub(in super::super) const DEACTIVATED: u8 = 2;
    pub(in super::super) const PHASE: u8 = 3;
    pub(in super::super) const FINALIZED: u8 = 4;
}

/// Appends an encoded frame to `out`.
///
/// A frame that is too long leaves `out` unchanged. The frame is not checked against earlier ones.
pub fn encode(frame: &SpoolFrame, out: &mut Vec<u8>) -> Result<(), FrameTooLong> {
    let frame_start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    put_frame(out, frame);
    let body = &out[frame_start + PREFIX_BYTES..];
    let bytes = body.len();
    if bytes > MAX_FRAME_BYTES {
        out.truncate(frame_start);
        return Err(FrameTooLong { bytes });
    }
    let crc = crc32fast::hash(body);
    out[frame_start..frame_start + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
    out[frame_start + 4..frame_start + PREFIX_BYTES].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

fn put_frame(out: &mut Vec<u8>, frame: &SpoolFrame) {
    match frame {
        SpoolFrame::Process(process) => {
            out.push(kind::PROCESS);
            put_process(out, process);
        }
        SpoolFrame::Clock { monotonic_nanos, unix_nanos } => {
            out.push(kind::CLOCK);
            put_signed(out, *monotonic_nanos);
            put_signed(out, *unix_nanos);
        }
        SpoolFrame::Strings { first_id, texts } => put_defs(out, kind::STRINGS, *first_id, texts),
        SpoolFrame::SpanArgs { first_id, texts } => {
            put_defs(out, kind::SPAN_ARGS, *first_id, texts);
        }
        SpoolFrame::Thread { thread, os_id, name } => {
            put_kind_and_thread(out, kind::THREAD, *thread);
            put_varint(out, *os_id);
            put_text(out, name);
        }
        SpoolFrame::Nodes { thread, first_id, nodes } => {
            put_kind_and_thread(out, kind::NODES, *thread);
            put_nodes(out, *first_id, nodes);
        }
        SpoolFrame::Spans { thread, sessions, spans } => {
            put_kind_and_thread(out, kind::SPANS, *thread);
            put_varint(out, *sessions);
            put_spans(out, spans);
        }
        SpoolFrame::Values { thread, sessions, values } => {
            put_kind_and_thread(out, kind::VALUES, *thread);
            put_varint(out, *sessions);
            put_values(out, values);
        }
        SpoolFrame::Open { thread, spans } => {
            put_kind_and_thread(out, kind::OPEN, *thread);
            put_open_spans(out, spans);
        }
        SpoolFrame::Counters(counters) => {
            out.push(kind::COUNTERS);
            put_counters(out, counters);
        }
        SpoolFrame::Session { session, event, name, time_nanos } => {
            out.push(kind::SESSION);
            put_varint(out, u64::from(*session));
            put_session_event(out, *event);
            put_text(out, name);
            put_signed(out, *time_nanos);
        }
        SpoolFrame::Losses(losses) => {
            out.push(kind::LOSSES);
            put_losses(out, losses);
        }
        SpoolFrame::Overhead(overhead) => {
            out.push(kind::OVERHEAD);
            put_overhead(out, overhead);
        }
        SpoolFrame::Launches { thread, launches } => {
            put_id_pairs(out, kind::LAUNCHES, *thread, launches);
        }
        SpoolFrame::ArgsOfSpans { thread, args } => {
            put_id_pairs(out, kind::ARGS_OF_SPANS, *thread, args);
        }
        SpoolFrame::Autograd { thread, calls } => {
            put_kind_and_thread(out, kind::AUTOGRAD, *thread);
            put_autograd(out, calls);
        }
        SpoolFrame::Device(device) => {
            out.push(kind::DEVICE);
            put_device(out, device);
        }
        SpoolFrame::Shapes { first_id, shapes } => {
            out.push(kind::SHAPES);
            put_varint(out, u64::from(*first_id));
            put_shapes(out, shapes);
        }
        SpoolFrame::Activities { sessions, activities } => {
            out.push(kind::ACTIVITIES);
            put_varint(out, *sessions);
            put_activities(out, activities);
        }
        SpoolFrame::Note { key, value } => {
            out.push(kind::NOTE);
            put_text(out, key);
            put_text(out, value);
        }
        SpoolFrame::Collectives(collectives) => {
            out.push(kind::COLLECTIVES);
            put_collectives(out, collectives);
        }
        SpoolFrame::Variables(variables) => {
            out.push(kind::VARIABLES);
            put_variables(out, variables);
        }
        SpoolFrame::Samples { thread, samples } => {
            put_kind_and_thread(out, kind::SAMPLES, *thread);
            put_samples(out, samples);
        }
        SpoolFrame::End => out.push(kind::END),
    }
}

/// Appends the kind of a frame that belongs to a thread, and the thread.
fn put_kind_and_thread(out: &mut Vec<u8>, kind: u8, thread: u32) {
    out.push(kind);
    put_varint(out, u64::from(thread));
}

fn put_process(out: &mut Vec<u8>, process: &Process) {
    put_varint(out, process.pid);
    put_optional(out, process.rank);
    put_text(out, &process.host);
    put_texts(out, &process.argv);
    put_varint(out, process.start_unix_nanos);
    put_varint(out, process.duration_nanos);
    out.push(u8::from(process.is_complete));
}

fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put_varint(out, texts.len() as u64);
    for text in texts {
        put_text(out, text);
    }
}

fn put_nodes(out: &mut Vec<u8>, first_id: u32, nodes: &[NodeDef]) {
    put_varint(out, u64::from(first_id));
    put_varint(out, nodes.len() as u64);
    let mut previous_name_id = 0;
    for (node, id) in nodes.iter().zip(i64::from(first_id)..) {
        put_signed(out, id - i64::from(node.parent_id));
        out.push(node.kind as u8);
        put_id(out, &mut previous_name_id, node.name_id);
    }
}

/// Writes each span as the difference of one of its edges to the previous span's end, and as its
/// duration. The edge is the start of a following sibling, and the end of an enclosing span.
fn put_spans(out: &mut Vec<u8>, spans: &[Span]) {
    put_varint(out, spans.len() as u64);
    let (mut previous_node_id, mut previous_end_nanos) = (0, 0);
    for span in spans {
        let encloses_previous = span.start_nanos < previous_end_nanos;
        let edge_nanos = if encloses_previous { span.end_nanos } else { span.start_nanos };
        let step = i64::from(span.node_id) - i64::from(previous_node_id);
        put_varint(out, zigzag(step) << 1 | u64::from(encloses_previous));
        put_time(out, previous_end_nanos, edge_nanos);
        put_time(out, span.start_nanos, span.end_nanos);
        (previous_node_id, previous_end_nanos) = (span.node_id, span.end_nanos);
    }
}

/// Writes texts with the ids `first_id`, `first_id + 1`, and so on.
fn put_defs(out: &mut Vec<u8>, kind: u8, first_id: u32, texts: &[String]) {
    out.push(kind);
    put_varint(out, u64::from(first_id));
    put_texts(out, texts);
}

/// Writes positions among the next spans of a thread, each with an id.
fn put_id_pairs(out: &mut Vec<u8>, kind: u8, thread: u32, pairs: &[(u32, u32)]) {
    out.push(kind);
    put_varint(out, u64::from(thread));
    put_varint(out, pairs.len() as u64);
    let (mut previous_first, mut previous_second) = (0, 0);
    for &(first, second) in pairs {
        put_id(out, &mut previous_first, first);
        put_id(out, &mut previous_second, second);
    }
}

fn put_autograd(out: &mut Vec<u8>, calls: &[AutogradCall]) {
    put_varint(out, calls.len() as u64);
    let (mut previous_index, mut previous_sequence) = (0, 0);
    for call in calls {
        put_id(out, &mut previous_index, call.span_index);
        put_signed(out, call.sequence.wrapping_sub(previous_sequence).cast_signed());
        put_varint(out, call.forward_os_id);
        previous_sequence = call.sequence;
    }
}

fn put_values(out: &mut Vec<u8>, values: &[RecordedValue]) {
    put_varint(out, values.len() as u64);
    let (mut previous_node_id, mut previous_nanos, mut previous_name_id) = (0, 0, 0);
    for value in values {
        put_id(out, &mut previous_node_id, value.node_id);
        put_time(out, previous_nanos, value.time_nanos);
        put_id(out, &mut previous_name_id, value.name_id);
        put_value(out, &value.value);
        previous_nanos = value.time_nanos;
    }
}

pub(super) fn put_value(out: &mut Vec<u8>, value: &MetricValue) {
    match value {
        MetricValue::Int(value) => {
            out.push(value_type::INT);
            put_signed(out, *value);
        }
        MetricValue::Float(value) => {
            out.push(value_type::FLOAT);
            put_float(out, *value);
        }
        MetricValue::Text(value) => {
            out.push(value_type::TEXT);
            put_text(out, value);
        }
        MetricValue::Ints(values) => {
            out.push(value_type::INTS);
            put_varint(out, values.len() as u64);
            for value in values {
                put_signed(out, *value);
            }
        }
        MetricValue::Floats(values) => {
            out.push(value_type::FLOATS);
            put_varint(out, values.len() as u64);
            for value in values {
                put_float(out, *value);
            }
        }
    }
}

fn put_open_spans(out: &mut Vec<u8>, spans: &[(u32, i64)]) {
    put_varint(out, spans.len() as u64);
    let (mut previous_node_id, mut previous_start_nanos) = (0, 0);
    for &(node_id, start_nanos) in spans {
        put_id(out, &mut previous_node_id, node_id);
        put_time(out, previous_start_nanos, start_nanos);
        previous_start_nanos = start_nanos;
    }
}

/// Writes counters. Those of one reading have the same timestamp and consecutive names.
fn put_counters(out: &mut Vec<u8>, counters: &[Counter]) {
    put_varint(out, counters.len() as u64);
    let (mut previous_nanos, mut previous_name_id) = (0, 0);
    for counter in counters {
        put_time(out, previous_nanos, counter.time_nanos);
        put_id(out, &mut previous_name_id, counter.name_id);
        put_varint(out, counter.device.map_or(0, |device| u64::from(device) + 1));
        // Most values are small integers, whose low-order bytes are zero. With the bytes swapped
        // they are short varints.
        put_varint(out, counter.value.to_bits().swap_bytes());
        previous_nanos = counter.time_nanos;
    }
}

fn put_session_event(out: &mut Vec<u8>, event: SessionEvent) {
    match event {
        SessionEvent::Started => out.push(session_event::STARTED),
        SessionEvent::Activated => out.push(session_event::ACTIVATED),
        SessionEvent::Deactivated => out.push(session_event::DEACTIVATED),
        SessionEvent::Phase(phase) => {
            out.push(session_event::PHASE);
            put_varint(out, u64::from(phase));
        }
        SessionEvent::Finalized => out.push(session_event::FINALIZED),
    }
}

fn put_losses(out: &mut Vec<u8>, losses: &[(LossCause, u64)]) {
    put_varint(out, losses.len() as u64);
    for (cause, count) in losses {
        out.push(*cause as u8);
        put_varint(out, *count);
    }
}

fn put_overhead(out: &mut Vec<u8>, overhead: &Overhead) {
    put_varint(out, overhead.events);
    put_float(out, overhead.scope_nanos);
    put_varint(out, overhead.recording_nanos);
    put_varint(out, overhead.flushing_nanos);
}

/// Appends an id as the difference to the previous one.
fn put_id(out: &mut Vec<u8>, previous_id: &mut u32, id: u32) {
    put_signed(out, i64::from(id) - i64::from(*previous_id));
    *previous_id = id;
}

/// Appends a timestamp as the difference to an earlier one. A timestamp that is smaller survives
/// the round trip too, but takes 10 bytes.
fn put_time(out: &mut Vec<u8>, earlier_nanos: i64, nanos: i64) {
    put_varint(out, nanos.wrapping_sub(earlier_nanos).cast_unsigned());
}

fn put_float(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}
