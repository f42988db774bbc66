//! Proton's `.hatchet` document: `[ROOT, DEVICES]` in JSON, four spaces per level, keys sorted.

use super::json::{float, string};
use super::{Document, Meta, device_fields, meta, node_metrics};
use crate::merged::{MergedNode, ROOT};
use crate::names;
use marey_model::context::ROOT_NAME;
use marey_model::metric::MetricValue;
use std::io::{self, Write};

/// Writes the document with a line break before and after it, as Proton does.
pub(super) fn write(document: &Document, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"\n[\n")?;
    write_tree(document, out)?;
    out.write_all(b",\n")?;
    write_devices(document, out)?;
    out.write_all(b"\n]\n")
}

/// Writes the devices that ran kernels, by type and number.
fn write_devices(document: &Document, out: &mut impl Write) -> io::Result<()> {
    indent(out, 1)?;
    let types = document.devices();
    if types.is_empty() {
        return out.write_all(b"{}");
    }
    out.write_all(b"{\n")?;
    for (index, (device_type, devices)) in types.iter().enumerate() {
        out.write_all(if index == 0 { b"" } else { b",\n" })?;
        field(out, 2, device_type)?;
        out.write_all(b"{\n")?;
        for (index, device) in devices.iter().enumerate() {
            out.write_all(if index == 0 { b"" } else { b",\n" })?;
            field(out, 3, &device.number.to_string())?;
            out.write_all(b"{\n")?;
            field(out, 4, "arch")?;
            string(out, &device.arch)?;
            for (key, value) in device_fields(device) {
                out.write_all(b",\n")?;
                field(out, 4, key)?;
                write!(out, "{value}")?;
            }
            out.write_all(b"\n")?;
            close(out, 3)?;
        }
        out.write_all(b"\n")?;
        close(out, 2)?;
    }
    out.write_all(b"\n")?;
    close(out, 1)
}

/// Writes the nodes depth first, with an explicit stack: paths may be too deep for recursion.
fn write_tree(document: &Document, out: &mut impl Write) -> io::Result<()> {
    let mut open = vec![OpenNode::new(ROOT)];
    begin(out, 1)?;
    while let Some(OpenNode { number, next, has_children }) = open.pop() {
        let Some(node) = document.tree.node(number) else { continue };
        let level = open.len() * 2 + 1;
        if let Some((index, child)) = document.shown_child(node, next) {
            out.write_all(if has_children { b",\n" } else { b"[\n" })?;
            begin(out, level + 2)?;
            open.push(OpenNode { number, next: index + 1, has_children: true });
            open.push(OpenNode::new(child));
        } else {
            if has_children {
                out.write_all(b"\n")?;
                indent(out, level + 1)?;
                out.write_all(b"]")?;
            } else {
                out.write_all(b"[]")?;
            }
            end(document, number, node, out, level)?;
        }
    }
    Ok(())
}

/// A node whose end is still to be written.
struct OpenNode {
    number: u32,
    /// The position of the next child.
    next: usize,
    /// Whether a child has been written.
    has_children: bool,
}

impl OpenNode {
    const fn new(number: u32) -> Self {
        Self { number, next: 0, has_children: false }
    }
}

fn begin(out: &mut impl Write, level: usize) -> io::Result<()> {
    indent(out, level)?;
    out.write_all(b"{\n")?;
    indent(out, level + 1)?;
    out.write_all(b"\"children\": ")
}

/// Writes the part of a node after its children.
fn end(
    document: &Document,
    number: u32,
    node: &MergedNode,
    out: &mut impl Write,
    level: usize,
) -> io::Result<()> {
    let is_root = number == ROOT;
    out.write_all(b",\n")?;
    field(out, level + 1, "frame")?;
    out.write_all(b"{\n")?;
    field(out, level + 2, "name")?;
    if is_root {
        string(out, ROOT_NAME)?;
    } else {
        string(out, &names::name(node.name))?;
    }
    out.write_all(b",\n")?;
    field(out, level + 2, "type")?;
    string(out, "function")?;
    out.write_all(b"\n")?;
    close(out, level + 1)?;
    out.write_all(b",\n")?;
    write_extras(document, is_root, node, out, level + 1)?;
    field(out, level + 1, "metrics")?;
    let metrics = if is_root { document.root_metrics() } else { node_metrics(node) };
    write_metrics(&metrics, out, level + 1)?;
    out.write_all(b"\n")?;
    close(out, level)
}

/// Writes the key `marey`, which other readers of the format ignore.
fn write_extras(
    document: &Document,
    is_root: bool,
    node: &MergedNode,
    out: &mut impl Write,
    level: usize,
) -> io::Result<()> {
    field(out, level, "marey")?;
    write!(out, "{{\"kind\": \"{}\"", node.kind.as_str())?;
    if is_root {
        write_meta(document.meta, out)?;
    }
    write_sketch(node, out)?;
    let states = document.times_of_states(node);
    if !states.is_empty() {
        out.write_all(b", \"states\": [")?;
        for (index, state) in states.into_iter().enumerate() {
            out.write_all(if index == 0 { b"" } else { b", " })?;
            write_time_of_state(state, out)?;
        }
        out.write_all(b"]")?;
    }
    if is_root {
        write!(out, ", \"version\": {}", meta::VERSION)?;
    }
    out.write_all(b"},\n")
}

fn write_sketch(node: &MergedNode, out: &mut impl Write) -> io::Result<()> {
    if node.wall.count == 0 {
        return Ok(());
    }
    out.write_all(b", \"sketch\": [")?;
    for (index, (bucket, count)) in node.wall.sketch().into_iter().enumerate() {
        write!(out, "{}[{bucket}, {count}]", if index == 0 { "" } else { ", " })?;
    }
    out.write_all(b"]")
}

fn write_time_of_state(state: &MergedNode, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"metrics\": {")?;
    for (index, (key, value)) in node_metrics(state).iter().enumerate() {
        out.write_all(if index == 0 { b"" } else { b", " })?;
        string(out, key)?;
        out.write_all(b": ")?;
        write_value(value, out, 0)?;
    }
    out.write_all(b"}, \"name\": ")?;
    string(out, &names::name(state.name))?;
    write_sketch(state, out)?;
    out.write_all(b"}")
}

fn write_meta(meta: &Meta, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b", \"losses\": {")?;
    for (index, (cause, count)) in meta.losses.iter().enumerate() {
        write!(out, "{}\"{}\": {count}", if index == 0 { "" } else { ", " }, cause.as_str())?;
    }
    out.write_all(b"}")?;
    if !meta.notes.is_empty() {
        out.write_all(b", \"notes\": {")?;
        for (index, (key, text)) in meta.notes.iter().enumerate() {
            out.write_all(if index == 0 { b"" } else { b", " })?;
            string(out, key)?;
            out.write_all(b": ")?;
            string(out, text)?;
        }
        out.write_all(b"}")?;
    }
    let overhead = &meta.overhead;
    write!(
        out,
        ", \"overhead\": {{\"events\": {}, \"flushing_nanos\": {}, \"recording_nanos\": {}, \"scope_nanos\": ",
        overhead.events, overhead.flushing_nanos, overhead.recording_nanos
    )?;
    float(out, overhead.scope_nanos)?;
    let process = &meta.process;
    write!(
        out,
        "}}, \"process\": {{\"complete\": {}, \"duration_nanos\": {}, \"host\": ",
        process.complete, process.duration_nanos
    )?;
    string(out, &process.host)?;
    write!(out, ", \"pid\": {}, \"rank\": ", process.pid)?;
    match process.rank {
        Some(rank) => write!(out, "{rank}")?,
        None => out.write_all(b"null")?,
    }
    write!(out, ", \"start_unix_nanos\": {}}}", process.start_unix_nanos)
}

fn write_metrics(
    metrics: &[(String, MetricValue)],
    out: &mut impl Write,
    level: usize,
) -> io::Result<()> {
    if metrics.is_empty() {
        return out.write_all(b"{}");
    }
    out.write_all(b"{\n")?;
    for (index, (key, value)) in metrics.iter().enumerate() {
        out.write_all(if index == 0 { b"" } else { b",\n" })?;
        field(out, level + 1, key)?;
        write_value(value, out, level + 1)?;
    }
    out.write_all(b"\n")?;
    close(out, level)
}

fn write_value(value: &MetricValue, out: &mut impl Write, level: usize) -> io::Result<()> {
    match value {
        MetricValue::Int(value) => write!(out, "{value}"),
        MetricValue::Float(value) => float(out, *value),
        MetricValue::Text(text) => string(out, text),
        MetricValue::Ints(values) => {
            list(values, out, level + 1, |out, value| write!(out, "{value}"))
        }
        MetricValue::Floats(values) => {
            list(values, out, level + 1, |out, value| float(out, *value))
        }
    }
}

fn list<T, W: Write>(
    values: &[T],
    out: &mut W,
    level: usize,
    write: impl Fn(&mut W, &T) -> io::Result<()>,
) -> io::Result<()> {
    if values.is_empty() {
        return out.write_all(b"[]");
    }
    for (index, value) in values.iter().enumerate() {
        out.write_all(if index == 0 { b"[\n" } else { b",\n" })?;
        indent(out, level)?;
        write(out, value)?;
    }
    out.write_all(b"\n")?;
    indent(out, level - 1)?;
    out.write_all(b"]")
}

fn field(out: &mut impl Write, level: usize, key: &str) -> io::Result<()> {
    indent(out, level)?;
    string(out, key)?;
    out.write_all(b": ")
}

fn close(out: &mut impl Write, level: usize) -> io::Result<()> {
    indent(out, level)?;
    out.write_all(b"}")
}

fn indent(out: &mut impl Write, level: usize) -> io::Result<()> {
    // Deeper lines have no indentation: otherwise the size of a document would grow with the square
    // of its depth, most of it spaces.
    const MAX_INDENTED_LEVEL: usize = 100;
    const SPACES: [u8; 4 * MAX_INDENTED_LEVEL] = [b' '; 4 * MAX_INDENTED_LEVEL];
    let spaces = if level > MAX_INDENTED_LEVEL { 0 } else { 4 * level };
    out.write_all(&SPACES[..spaces])
}
