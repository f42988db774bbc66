//! Rows as JSON, for programs. Values are the file's, in the units that their keys name.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use marey_formats::hatchet::{Device, NodeId, Overhead, Process, Profile};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use serde::{Serialize, Serializer};

use super::columns::Column;
use super::rows::{Row, Rows};

#[derive(Serialize)]
struct Document<'a> {
    file: Cow<'a, str>,
    process: Option<&'a Process>,
    overhead: Option<&'a Overhead>,
    #[serde(serialize_with = "as_map")]
    losses: &'a [(String, u64)],
    devices: &'a [Device],
    hidden_nodes: usize,
    nodes: Nodes<'a>,
}

struct Nodes<'a> {
    profile: &'a Profile,
    columns: &'a [Column],
    rows: &'a [Row],
}

#[derive(Serialize)]
struct Node<'a> {
    id: usize,
    parent: Option<usize>,
    depth: usize,
    name: &'a str,
    kind: Option<&'static str>,
    metrics: Metrics<'a>,
}

struct Metrics<'a> {
    columns: &'a [Column],
    node: usize,
}

struct Value<'a>(&'a MetricValue);

/// Writes one object on one line.
pub(super) fn write(
    out: &mut impl Write,
    file: &Path,
    profile: &Profile,
    columns: &[Column],
    rows: &Rows,
) -> io::Result<()> {
    let meta = &profile.meta;
    let document = Document {
        file: file.to_string_lossy(),
        process: meta.process.as_ref(),
        overhead: meta.overhead.as_ref(),
        losses: &meta.losses,
        devices: &profile.devices,
        hidden_nodes: rows.hidden,
        nodes: Nodes { profile, columns, rows: &rows.rows },
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

fn as_map<S: Serializer>(pairs: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| {
            let id = row.node.index();
            let node = &self.profile.nodes[id];
            Node {
                id,
                parent: node.parent.map(NodeId::index),
                depth: row.depth,
                name: &node.name,
                kind: node.kind.map(NodeKind::as_str),
                metrics: Metrics { columns: self.columns, node: id },
            }
        }))
    }
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.columns.iter().filter_map(|column| {
            let value = column.values[self.node].as_ref()?;
            Some((&*column.key, Value(value)))
        }))
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MetricValue::Int(value) => serializer.serialize_i64(*value),
            MetricValue::Float(value) => serializer.serialize_f64(*value),
            MetricValue::Text(value) => serializer.serialize_str(value),
            MetricValue::Ints(values) => values.serialize(serializer),
            MetricValue::Floats(values) => values.serialize(serializer),
        }
    }
}
