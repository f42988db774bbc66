//! Decoding of frames; the inverse of [`super::encode`].

use super::device::{read_activities, read_device, read_shapes};
use super::encode::{kind, session_event, value_type};
use super::error::Malformed;
use super::frame::{AutogradCall, Counter, Frame, NodeDef, SessionEvent, Span, Value};
use super::varint::{Fields, unzigzag};
use crate::context::NodeKind;
use crate::loss::LossCause;
use crate::metric::MetricValue;
use crate::profile::{Overhead, Process};

/// Decodes a frame from its kind and payload.
pub(super) fn decode(body: &[u8]) -> Result<Frame, Malformed> {
    let mut fields = Fields(body);
    let frame = frame(&mut fields)?;
    if fields.0.is_empty() { Ok(frame) } else { Err(Malformed::Long) }
}

fn frame(fields: &mut Fields<'_>) -> Result<Frame, Malformed> {
    Ok(match fields.byte()? {
        kind::PROCESS => Frame::Process(process(fields)?),
        kind::CLOCK => {
            Frame::Clock { monotonic_nanos: fields.signed()?, unix_nanos: fields.signed()? }
        }
        kind::STRINGS => Frame::Strings { first: fields.number_u32()?, texts: texts(fields)? },
        kind::THREAD => Frame::Thread {
            thread: fields.number_u32()?,
            os_id: fields.number()?,
            name: fields.text()?.to_owned(),
        },
        kind::NODES => {
            let (thread, first) = (fields.number_u32()?, fields.number_u32()?);
            Frame::Nodes { thread, first, nodes: nodes(fields, first)? }
        }
        kind::SPANS => Frame::Spans {
            thread: fields.number_u32()?,
            sessions: fields.number()?,
            spans: spans(fields)?,
        },
        kind::VALUES => Frame::Values {
            thread: fields.number_u32()?,
            sessions: fields.number()?,
            values: values(fields)?,
        },
        kind::OPEN => Frame::Open { thread: fields.number_u32()?, spans: open(fields)? },
        kind::COUNTERS => Frame::Counters(counters(fields)?),
        kind::SESSION => Frame::Session {
            session: fields.number_u32()?,
            event: event(fields)?,
            name: fields.text()?.to_owned(),
            time_nanos: fields.signed()?,
        },
        kind::LAUNCHES => {
            Frame::Launches { thread: fields.number_u32()?, launches: launches(fields)? }
        }
        kind::AUTOGRAD => {
            Frame::Autograd { thread: fields.number_u32()?, calls: autograd(fields)? }
        }
        kind::DEVICE => Frame::Device(read_device(fields)?),
        kind::SHAPES => Frame::Shapes { first: fields.number_u32()?, shapes: read_shapes(fields)? },
        kind::ACTIVITIES => {
            Frame::Activities { sessions: fields.number()?, activities: read_activities(fields)? }
        }
        kind::NOTE => {
            Frame::Note { key: fields.text()?.to_owned(), value: fields.text()?.to_owned() }
        }
        kind::LOSSES => Frame::Losses(losses(fields)?),
        kind::OVERHEAD => Frame::Overhead(overhead(fields)?),
        kind::END => Frame::End,
        other => return Err(Malformed::Kind(other)),
    })
}

fn process(fields: &mut Fields<'_>) -> Result<Process, Malformed> {
    Ok(Process {
        pid: fields.number()?,
        rank: if flag(fields)? { Some(fields.number()?) } else { None },
        host: fields.text()?.to_owned(),
        argv: texts(fields)?,
        start_unix_nanos: fields.number()?,
        duration_nanos: fields.number()?,
        complete: flag(fields)?,
    })
}

fn texts(fields: &mut Fields<'_>) -> Result<Vec<String>, Malformed> {
    let count = fields.count(1)?;
    (0..count).map(|_| fields.text().map(str::to_owned)).collect()
}

fn nodes(fields: &mut Fields<'_>, first: u32) -> Result<Vec<NodeDef>, Malformed> {
    let count = fields.count(3)?;
    let mut last_name = 0;
    let mut nodes = Vec::with_capacity(count);
    for id in (i64::from(first)..).take(count) {
        let parent = id.checked_sub(fields.signed()?).ok_or(Malformed::TooLarge)?;
        nodes.push(NodeDef {
            parent: u32::try_from(parent).or(Err(Malformed::TooLarge))?,
            kind: node_kind(fields.byte()?)?,
            name: id_after(&mut last_name, fields.signed()?)?,
        });
    }
    Ok(nodes)
}

fn node_kind(number: u8) -> Result<NodeKind, Malformed> {
    let what = "kind of node";
    let kind = NodeKind::ALL.get(usize::from(number));
    kind.copied().ok_or(Malformed::Number { what, number: number.into() })
}

fn spans(fields: &mut Fields<'_>) -> Result<Vec<Span>, Malformed> {
    let count = fields.count(3)?;
    let mut spans = Vec::with_capacity(count);
    let (mut node, mut last_end) = (0, 0);
    for _ in 0..count {
        let head = fields.number()?;
        let edge = time_after(last_end, fields)?;
        let duration = fields.number()?.cast_signed();
        let (start_nanos, end_nanos) = if head & 1 == 0 {
            (edge, edge.wrapping_add(duration))
        } else {
            (edge.wrapping_sub(duration), edge)
        };
        let node = id_after(&mut node, unzigzag(head >> 1))?;
        spans.push(Span { node, start_nanos, end_nanos });
        last_end = end_nanos;
    }
    Ok(spans)
}

fn launches(fields: &mut Fields<'_>) -> Result<Vec<(u32, u32)>, Malformed> {
    let count = fields.count(2)?;
    let (mut at, mut correlation) = (0, 0);
    (0..count)
        .map(|_| {
            let at = id_after(&mut at, fields.signed()?)?;
            Ok((at, id_after(&mut correlation, fields.signed()?)?))
        })
        .collect()
}

fn autograd(fields: &mut Fields<'_>) -> Result<Vec<AutogradCall>, Malformed> {
    let count = fields.count(3)?;
    let (mut index, mut sequence) = (0, 0_u64);
    (0..count)
        .map(|_| {
            let index = id_after(&mut index, fields.signed()?)?;
            sequence = sequence.wrapping_add(fields.signed()?.cast_unsigned());
            Ok(AutogradCall { index, sequence, forward_os_id: fields.number()? })
        })
        .collect()
}

fn values(fields: &mut Fields<'_>) -> Result<Vec<Value>, Malformed> {
    let count = fields.count(5)?;
    let mut values = Vec::with_capacity(count);
    let (mut node, mut time_nanos, mut metric) = (0, 0, 0);
    for _ in 0..count {
        let node = id_after(&mut node, fields.signed()?)?;
        time_nanos = time_after(time_nanos, fields)?;
        let metric = id_after(&mut metric, fields.signed()?)?;
        values.push(Value { node, time_nanos, metric, value: value(fields)? });
    }
    Ok(values)
}

fn counters(fields: &mut Fields<'_>) -> Result<Vec<Counter>, Malformed> {
    let count = fields.count(4)?;
    let mut counters = Vec::with_capacity(count);
    let (mut time_nanos, mut name) = (0, 0);
    for _ in 0..count {
        time_nanos = time_after(time_nanos, fields)?;
        let name = id_after(&mut name, fields.signed()?)?;
        let device = match fields.number()?.checked_sub(1) {
            Some(device) => Some(u32::try_from(device).or(Err(Malformed::TooLarge))?),
            None => None,
        };
        let value = f64::from_bits(fields.number()?.swap_bytes());
        counters.push(Counter { time_nanos, name, device, value });
    }
    Ok(counters)
}

fn value(fields: &mut Fields<'_>) -> Result<MetricValue, Malformed> {
    Ok(match fields.byte()? {
        value_type::INT => MetricValue::Int(fields.signed()?),
        value_type::FLOAT => MetricValue::Float(fields.float()?),
        value_type::TEXT => MetricValue::Text(fields.text()?.into()),
        value_type::INTS => {
            let count = fields.count(1)?;
            MetricValue::Ints((0..count).map(|_| fields.signed()).collect::<Result<_, _>>()?)
        }
        value_type::FLOATS => {
            let count = fields.count(8)?;
            MetricValue::Floats((0..count).map(|_| fields.float()).collect::<Result<_, _>>()?)
        }
        other => {
            return Err(Malformed::Number { what: "type of value", number: other.into() });
        }
    })
}

fn open(fields: &mut Fields<'_>) -> Result<Vec<(u32, i64)>, Malformed> {
    let count = fields.count(2)?;
    let mut spans = Vec::with_capacity(count);
    let (mut node, mut start_nanos) = (0, 0);
    for _ in 0..count {
        let node = id_after(&mut node, fields.signed()?)?;
        start_nanos = time_after(start_nanos, fields)?;
        spans.push((node, start_nanos));
    }
    Ok(spans)
}

fn event(fields: &mut Fields<'_>) -> Result<SessionEvent, Malformed> {
    Ok(match fields.byte()? {
        session_event::STARTED => SessionEvent::Started,
        session_event::ACTIVATED => SessionEvent::Activated,
        session_event::DEACTIVATED => SessionEvent::Deactivated,
        session_event::PHASE => SessionEvent::Phase(fields.number_u32()?),
        session_event::FINALIZED => SessionEvent::Finalized,
        other => {
            return Err(Malformed::Number { what: "event of a session", number: other.into() });
        }
    })
}

fn losses(fields: &mut Fields<'_>) -> Result<Vec<(LossCause, u64)>, Malformed> {
    let count = fields.count(2)?;
    (0..count).map(|_| Ok((loss_cause(fields.byte()?)?, fields.number()?))).collect()
}

fn loss_cause(number: u8) -> Result<LossCause, Malformed> {
    let what = "cause of loss";
    let cause = LossCause::ALL.get(usize::from(number));
    cause.copied().ok_or(Malformed::Number { what, number: number.into() })
}

fn overhead(fields: &mut Fields<'_>) -> Result<Overhead, Malformed> {
    Ok(Overhead {
        events: fields.number()?,
        scope_nanos: fields.float()?,
        recording_nanos: fields.number()?,
        flushing_nanos: fields.number()?,
    })
}

fn flag(fields: &mut Fields<'_>) -> Result<bool, Malformed> {
    match fields.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Malformed::Number { what: "flag", number: other.into() }),
    }
}

/// Returns the id at this difference from the previous one, and makes it the previous one.
#[inline]
fn id_after(last: &mut u32, step: i64) -> Result<u32, Malformed> {
    let id = i64::from(*last).checked_add(step).ok_or(Malformed::TooLarge)?;
    *last = u32::try_from(id).or(Err(Malformed::TooLarge))?;
    Ok(*last)
}

/// Reads a timestamp encoded as the difference to an earlier one.
#[inline]
fn time_after(earlier_nanos: i64, fields: &mut Fields<'_>) -> Result<i64, Malformed> {
    Ok(earlier_nanos.wrapping_add(fields.number()?.cast_signed()))
}
