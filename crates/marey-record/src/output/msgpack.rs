//! Proton's document in MessagePack, in Proton's order of keys.

use super::{Document, Meta, device_fields, meta, node_metrics};
use crate::merged::{MergedNode, ROOT};
use crate::names;
use marey_model::context::ROOT_NAME;
use marey_model::metric::MetricValue;
use std::io::{self, Write};

/// Writes `[ROOT, DEVICES]`.
pub(super) fn write(document: &Document, out: &mut impl Write) -> io::Result<()> {
    array(out, 2)?;
    let mut open: Vec<(u32, usize)> = vec![(ROOT, 0)];
    begin(document, ROOT, out)?;
    while let Some((number, next)) = open.pop() {
        let Some(node) = document.tree.node(number) else { continue };
        let Some((index, child)) = document.shown_child(node, next) else { continue };
        open.push((number, index + 1));
        begin(document, child, out)?;
        open.push((child, 0));
    }
    write_devices(document, out)
}

/// Writes the devices that ran kernels, by type and number, in Proton's order of keys.
fn write_devices(document: &Document, out: &mut impl Write) -> io::Result<()> {
    let types = document.devices();
    map(out, types.len())?;
    for (device_type, devices) in &types {
        text(out, device_type)?;
        map(out, devices.len())?;
        for device in devices {
            text(out, &device.number.to_string())?;
            let [bus_width, clock, memory_clock, multiprocessors] = device_fields(device);
            map(out, 5)?;
            for (key, value) in [clock, memory_clock, bus_width] {
                text(out, key)?;
                uint(out, value)?;
            }
            text(out, "arch")?;
            text(out, &device.arch)?;
            text(out, multiprocessors.0)?;
            uint(out, multiprocessors.1)?;
        }
    }
    Ok(())
}

/// Writes a node up to and including the length of its list of children, which comes last.
fn begin(document: &Document, number: u32, out: &mut impl Write) -> io::Result<()> {
    let Some(node) = document.tree.node(number) else { return Ok(()) };
    let is_root = number == ROOT;
    map(out, 4)?;
    text(out, "frame")?;
    map(out, 2)?;
    text(out, "name")?;
    if is_root {
        text(out, ROOT_NAME)?;
    } else {
        text(out, &names::name(node.name))?;
    }
    text(out, "type")?;
    text(out, "function")?;
    let metrics = if is_root { document.root_metrics() } else { node_metrics(node) };
    write_metrics(&metrics, out)?;
    let states = document.times_of_states(node);
    text(out, "marey")?;
    write_extras(document, is_root, node, &states, out)?;
    text(out, "children")?;
    array(out, node.children.len() - states.len())
}

fn write_metrics(metrics: &[(String, MetricValue)], out: &mut impl Write) -> io::Result<()> {
    text(out, "metrics")?;
    map(out, metrics.len())?;
    for (key, value) in metrics {
        text(out, key)?;
        write_value(value, out)?;
    }
    Ok(())
}

fn write_extras(
    document: &Document,
    is_root: bool,
    node: &MergedNode,
    states: &[&MergedNode],
    out: &mut impl Write,
) -> io::Result<()> {
    let has_notes = is_root && !document.meta.notes.is_empty();
    let of_root = if is_root { 4 + usize::from(has_notes) } else { 0 };
    map(out, 1 + usize::from(has_sketch(node)) + usize::from(!states.is_empty()) + of_root)?;
    text(out, "kind")?;
    text(out, node.kind.as_str())?;
    write_sketch(node, out)?;
    if !states.is_empty() {
        text(out, "states")?;
        array(out, states.len())?;
        states.iter().try_for_each(|state| write_time_of_state(state, out))?;
    }
    if is_root {
        write_meta(document.meta, out)?;
        text(out, "version")?;
        uint(out, meta::VERSION)?;
    }
    Ok(())
}

fn write_time_of_state(state: &MergedNode, out: &mut impl Write) -> io::Result<()> {
    map(out, 2 + usize::from(has_sketch(state)))?;
    write_metrics(&node_metrics(state), out)?;
    text(out, "name")?;
    text(out, &names::name(state.name))?;
    write_sketch(state, out)
}

const fn has_sketch(node: &MergedNode) -> bool {
    node.wall.count > 0
}

fn write_sketch(node: &MergedNode, out: &mut impl Write) -> io::Result<()> {
    if !has_sketch(node) {
        return Ok(());
    }
    text(out, "sketch")?;
    let buckets = node.wall.sketch();
    array(out, buckets.len())?;
    for (bucket, count) in buckets {
        array(out, 2)?;
        uint(out, u64::from(bucket))?;
        uint(out, count)?;
    }
    Ok(())
}

fn write_meta(meta: &Meta, out: &mut impl Write) -> io::Result<()> {
    text(out, "losses")?;
    map(out, meta.losses.len())?;
    for (cause, count) in &meta.losses {
        text(out, cause.as_str())?;
        uint(out, *count)?;
    }
    if !meta.notes.is_empty() {
        text(out, "notes")?;
        map(out, meta.notes.len())?;
        for (key, note) in &meta.notes {
            text(out, key)?;
            text(out, note)?;
        }
    }
    text(out, "overhead")?;
    map(out, 4)?;
    text(out, "events")?;
    uint(out, meta.overhead.events)?;
    text(out, "flushing_nanos")?;
    uint(out, meta.overhead.flushing_nanos)?;
    text(out, "recording_nanos")?;
    uint(out, meta.overhead.recording_nanos)?;
    text(out, "scope_nanos")?;
    float(out, meta.overhead.scope_nanos)?;
    let process = &meta.process;
    text(out, "process")?;
    map(out, 6)?;
    text(out, "complete")?;
    out.write_all(&[if process.complete { 0xc3 } else { 0xc2 }])?;
    text(out, "duration_nanos")?;
    uint(out, process.duration_nanos)?;
    text(out, "host")?;
    text(out, &process.host)?;
    text(out, "pid")?;
    uint(out, u64::from(process.pid))?;
    text(out, "rank")?;
    match process.rank {
        Some(rank) => uint(out, u64::from(rank))?,
        None => out.write_all(&[0xc0])?,
    }
    text(out, "start_unix_nanos")?;
    uint(out, process.start_unix_nanos)
}

fn write_value(value: &MetricValue, out: &mut impl Write) -> io::Result<()> {
    match value {
        MetricValue::Int(value) => int(out, *value),
        MetricValue::Float(value) => float(out, *value),
        MetricValue::Text(value) => text(out, value),
        MetricValue::Ints(values) => {
            array(out, values.len())?;
            values.iter().try_for_each(|&value| int(out, value))
        }
        MetricValue::Floats(values) => {
            array(out, values.len())?;
            values.iter().try_for_each(|&value| float(out, value))
        }
    }
}

fn int(out: &mut impl Write, value: i64) -> io::Result<()> {
    if let Ok(value) = u64::try_from(value) {
        return uint(out, value);
    }
    out.write_all(&[0xd3])?;
    out.write_all(&value.to_be_bytes())
}

fn uint(out: &mut impl Write, value: u64) -> io::Result<()> {
    if let Ok(small) = u8::try_from(value)
        && small < 0x80
    {
        return out.write_all(&[small]);
    }
    out.write_all(&[0xcf])?;
    out.write_all(&value.to_be_bytes())
}

fn float(out: &mut impl Write, value: f64) -> io::Result<()> {
    out.write_all(&[0xcb])?;
    out.write_all(&value.to_be_bytes())
}

fn text(out: &mut impl Write, value: &str) -> io::Result<()> {
    head(out, value.len(), 0xa0, 32, 0xdb)?;
    out.write_all(value.as_bytes())
}

fn array(out: &mut impl Write, len: usize) -> io::Result<()> {
    head(out, len, 0x90, 16, 0xdd)
}

fn map(out: &mut impl Write, len: usize) -> io::Result<()> {
    head(out, len, 0x80, 16, 0xdf)
}

/// Writes a type and a length: in one byte if the length is short, else in four bytes after the
/// type.
fn head(out: &mut impl Write, len: usize, short: u8, limit: usize, long: u8) -> io::Result<()> {
    if len < limit {
        return out.write_all(&[short | len as u8]);
    }
    out.write_all(&[long])?;
    out.write_all(&(len as u32).to_be_bytes())
}
