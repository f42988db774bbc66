//! Decodes frames, as the inverse of [`super::encode`].

use super::collective::read_collectives;
use super::device::{read_activities, read_device, read_shapes};
use super::encode::{kind, session_event, value_type};
use super::error::Malformed;
use super::frame::{AutogradCall, Counter, NodeDef, RecordedValue, SessionEvent, Span, SpoolFrame};
use super::sample::read_samples;
use super::variable::read_variables;
use super::varint::{Fields, add_delta, to_u32, unzigzag};
use crate::context::NodeKind;
use crate::loss::LossCause;
use crate::metric::MetricValue;
use crate::profile::{Overhead, Process};

/// Decodes a frame from its kind and payload.
pub(super) fn decode(body: &[u8]) -> Result<SpoolFrame, Malformed> {
    let mut fields = Fields(body);
    let frame = read_frame(&mut fields)?;
    if fields.0.is_empty() { Ok(frame) } else { Err(Malformed::TrailingBytes) }
}

fn read_frame(fields: &mut Fields<'_>) -> Result<SpoolFrame, Malformed> {
    Ok(match fields.read_byte()? {
        kind::PROCESS => SpoolFrame::Process(read_process(fields)?),
        kind::CLOCK => SpoolFrame::Clock {
            monotonic_nanos: fields.read_signed()?,
            unix_nanos: fields.read_signed()?,
        },
        kind::STRINGS => {
            SpoolFrame::Strings { first_id: fields.read_u32()?, texts: read_texts(fields)? }
        }
        kind::THREAD => SpoolFrame::Thread {
            thread: fields.read_u32()?,
            os_id: fields.read_varint()?,
            name: fields.read_text()?.to_owned(),
        },
        kind::NODES => {
            let (thread, first_id) = (fields.read_u32()?, fields.read_u32()?);
            SpoolFrame::Nodes { thread, first_id, nodes: read_nodes(fields, first_id)? }
        }
        kind::SPANS => SpoolFrame::Spans {
            thread: fields.read_u32()?,
            sessions: fields.read_varint()?,
            spans: read_spans(fields)?,
        },
        kind::VALUES => SpoolFrame::Values {
            thread: fields.read_u32()?,
            sessions: fields.read_varint()?,
            values: read_values(fields)?,
        },
        kind::OPEN => {
            SpoolFrame::Open { thread: fields.read_u32()?, spans: read_open_spans(fields)? }
        }
        kind::COUNTERS => SpoolFrame::Counters(read_counters(fields)?),
        kind::SESSION => SpoolFrame::Session {
            session: fields.read_u32()?,
            event: read_session_event(fields)?,
            name: fields.read_text()?.to_owned(),
            time_nanos: fields.read_signed()?,
        },
        kind::LAUNCHES => {
            SpoolFrame::Launches { thread: fields.read_u32()?, launches: read_id_pairs(fields)? }
        }
        kind::AUTOGRAD => {
            SpoolFrame::Autograd { thread: fields.read_u32()?, calls: read_autograd_calls(fields)? }
        }
        kind::SPAN_ARGS => {
            SpoolFrame::SpanArgs { first_id: fields.read_u32()?, texts: read_texts(fields)? }
        }
        kind::ARGS_OF_SPANS => {
            SpoolFrame::ArgsOfSpans { thread: fields.read_u32()?, args: read_id_pairs(fields)? }
        }
        kind::DEVICE => SpoolFrame::Device(read_device(fields)?),
        kind::SHAPES => {
            SpoolFrame::Shapes { first_id: fields.read_u32()?, shapes: read_shapes(fields)? }
        }
        kind::ACTIVITIES => SpoolFrame::Activities {
            sessions: fields.read_varint()?,
            activities: read_activities(fields)?,
        },
        kind::VARIABLES => SpoolFrame::Variables(read_variables(fields)?),
        kind::SAMPLES => {
            SpoolFrame::Samples { thread: fields.read_u32()?, samples: read_samples(fields)? }
        }
        kind::COLLECTIVES => SpoolFrame::Collectives(read_collectives(fields)?),
        kind::NOTE => SpoolFrame::Note {
            key: fields.read_text()?.to_owned(),
            value: fields.read_text()?.to_owned(),
        },
        kind::LOSSES => SpoolFrame::Losses(read_losses(fields)?),
        kind::OVERHEAD => SpoolFrame::Overhead(read_overhead(fields)?),
        kind::END => SpoolFrame::End,
        other => return Err(Malformed::UnknownKind(other)),
    })
}

fn read_process(fields: &mut Fields<'_>) -> Result<Process, Malformed> {
    Ok(Process {
        pid: fields.read_varint()?,
        rank: fields.read_optional()?,
        host: fields.read_text()?.to_owned(),
        argv: read_texts(fields)?,
        start_unix_nanos: fields.read_varint()?,
        duration_nanos: fields.read_varint()?,
        is_complete: fields.read_flag()?,
    })
}

fn read_texts(fields: &mut Fields<'_>) -> Result<Vec<String>, Malformed> {
    let count = fields.read_count(1)?;
    (0..count).map(|_| fields.read_text().map(str::to_owned)).collect()
}

fn read_nodes(fields: &mut Fields<'_>, first_id: u32) -> Result<Vec<NodeDef>, Malformed> {
    let count = fields.read_count(3)?;
    let mut previous_name_id = 0;
    let mut nodes = Vec::with_capacity(count);
    for id in (i64::from(first_id)..).take(count) {
        let parent_id = id.checked_sub(fields.read_signed()?).ok_or(Malformed::TooLarge)?;
        nodes.push(NodeDef {
            parent_id: u32::try_from(parent_id).or(Err(Malformed::TooLarge))?,
            kind: fields.read_variant(&NodeKind::ALL, "kind of node")?,
            name_id: advance_id(&mut previous_name_id, fields.read_signed()?)?,
        });
    }
    Ok(nodes)
}

fn read_spans(fields: &mut Fields<'_>) -> Result<Vec<Span>, Malformed> {
    let count = fields.read_count(3)?;
    let mut spans = Vec::with_capacity(count);
    let (mut previous_node_id, mut previous_end_nanos) = (0, 0);
    for _ in 0..count {
        let node_and_edge = fields.read_varint()?;
        let edge_nanos = read_time(previous_end_nanos, fields)?;
        let duration_nanos = fields.read_varint()?.cast_signed();
        let (start_nanos, end_nanos) = if node_and_edge & 1 == 0 {
            (edge_nanos, edge_nanos.wrapping_add(duration_nanos))
        } else {
            (edge_nanos.wrapping_sub(duration_nanos), edge_nanos)
        };
        let node_id = advance_id(&mut previous_node_id, unzigzag(node_and_edge >> 1))?;
        spans.push(Span { node_id, start_nanos, end_nanos });
        previous_end_nanos = end_nanos;
    }
    Ok(spans)
}

fn read_id_pairs(fields: &mut Fields<'_>) -> Result<Vec<(u32, u32)>, Malformed> {
    let count = fields.read_count(2)?;
    let (mut previous_first, mut previous_second) = (0, 0);
    (0..count)
        .map(|_| {
            let first = advance_id(&mut previous_first, fields.read_signed()?)?;
            Ok((first, advance_id(&mut previous_second, fields.read_signed()?)?))
        })
        .collect()
}

fn read_autograd_calls(fields: &mut Fields<'_>) -> Result<Vec<AutogradCall>, Malformed> {
    let count = fields.read_count(3)?;
    let (mut previous_index, mut sequence) = (0, 0_u64);
    (0..count)
        .map(|_| {
            let span_index = advance_id(&mut previous_index, fields.read_signed()?)?;
            sequence = sequence.wrapping_add(fields.read_signed()?.cast_unsigned());
            Ok(AutogradCall { span_index, sequence, forward_os_id: fields.read_varint()? })
        })
        .collect()
}

fn read_values(fields: &mut Fields<'_>) -> Result<Vec<RecordedValue>, Malformed> {
    let count = fields.read_count(5)?;
    let mut values = Vec::with_capacity(count);
    let (mut previous_node_id, mut time_nanos, mut previous_name_id) = (0, 0, 0);
    for _ in 0..count {
        let node_id = advance_id(&mut previous_node_id, fields.read_signed()?)?;
        time_nanos = read_time(time_nanos, fields)?;
        let name_id = advance_id(&mut previous_name_id, fields.read_signed()?)?;
        values.push(RecordedValue { node_id, time_nanos, name_id, value: read_value(fields)? });
    }
    Ok(values)
}

fn read_counters(fields: &mut Fields<'_>) -> Result<Vec<Counter>, Malformed> {
    let count = fields.read_count(4)?;
    let mut counters = Vec::with_capacity(count);
    let (mut time_nanos, mut previous_name_id) = (0, 0);
    for _ in 0..count {
        time_nanos = read_time(time_nanos, fields)?;
        let name_id = advance_id(&mut previous_name_id, fields.read_signed()?)?;
        let device = fields.read_varint()?.checked_sub(1).map(to_u32).transpose()?;
        let value = f64::from_bits(fields.read_varint()?.swap_bytes());
        counters.push(Counter { time_nanos, name_id, device, value });
    }
    Ok(counters)
}

pub(super) fn read_value(fields: &mut Fields<'_>) -> Result<MetricValue, Malformed> {
    Ok(match fields.read_byte()? {
        value_type::INT => MetricValue::Int(fields.read_signed()?),
        value_type::FLOAT => MetricValue::Float(fields.read_float()?),
        value_type::TEXT => MetricValue::Text(fields.read_text()?.into()),
        value_type::INTS => {
            let count = fields.read_count(1)?;
            MetricValue::Ints((0..count).map(|_| fields.read_signed()).collect::<Result<_, _>>()?)
        }
        value_type::FLOATS => {
            let count = fields.read_count(8)?;
            MetricValue::Floats((0..count).map(|_| fields.read_float()).collect::<Result<_, _>>()?)
        }
        other => {
            return Err(Malformed::InvalidValue { field: "type of value", number: other.into() });
        }
    })
}

fn read_open_spans(fields: &mut Fields<'_>) -> Result<Vec<(u32, i64)>, Malformed> {
    let count = fields.read_count(2)?;
    let mut spans = Vec::with_capacity(count);
    let (mut previous_node_id, mut start_nanos) = (0, 0);
    for _ in 0..count {
        let node_id = advance_id(&mut previous_node_id, fields.read_signed()?)?;
        start_nanos = read_time(start_nanos, fields)?;
        spans.push((node_id, start_nanos));
    }
    Ok(spans)
}

fn read_session_event(fields: &mut Fields<'_>) -> Result<SessionEvent, Malformed> {
    Ok(match fields.read_byte()? {
        session_event::STARTED => SessionEvent::Started,
        session_event::ACTIVATED => SessionEvent::Activated,
        session_event::DEACTIVATED => SessionEvent::Deactivated,
        session_event::PHASE => SessionEvent::Phase(fields.read_u32()?),
        session_event::FINALIZED => SessionEvent::Finalized,
        other => {
            return Err(Malformed::InvalidValue {
                field: "event of a session",
                number: other.into(),
            });
        }
    })
}

fn read_losses(fields: &mut Fields<'_>) -> Result<Vec<(LossCause, u64)>, Malformed> {
    let count = fields.read_count(2)?;
    let mut read_loss = || {
        let cause = fields.read_variant(&LossCause::ALL, "cause of loss")?;
        Ok((cause, fields.read_varint()?))
    };
    (0..count).map(|_| read_loss()).collect()
}

fn read_overhead(fields: &mut Fields<'_>) -> Result<Overhead, Malformed> {
    Ok(Overhead {
        events: fields.read_varint()?,
        scope_nanos: fields.read_float()?,
        recording_nanos: fields.read_varint()?,
        flushing_nanos: fields.read_varint()?,
    })
}

/// Returns the id at this difference from the previous one, and makes it the previous one.
#[inline]
fn advance_id(previous_id: &mut u32, step: i64) -> Result<u32, Malformed> {
    *previous_id = add_delta(*previous_id, step)?;
    Ok(*previous_id)
}

/// Reads a timestamp encoded as the difference to an earlier one.
#[inline]
fn read_time(earlier_nanos: i64, fields: &mut Fields<'_>) -> Result<i64, Malformed> {
    Ok(earlier_nanos.wrapping_add(fields.read_varint()?.cast_signed()))
}
