//! Writes the rows of `marey view` as JSON. Values are in the units of their labels. JSON has only
//! finite numbers, so infinity is a string and NaN is null.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::profile::{Device, Meta, Process};
use marey_query::graph::{Cells, CellsByNode, DifferenceLabels, Graph};
use marey_store::OverheadEntry;
use serde::{Serialize, Serializer};

use super::choose::ChosenMetric;
use super::columns::change_word;
use super::rows::Rows;

/// A JSON document.
pub(super) struct JsonDocument<'a> {
    pub(super) file: &'a Path,
    /// The file that it is compared with.
    pub(super) before: Option<&'a Path>,
    pub(super) graph: &'a Graph,
    pub(super) metrics: &'a [ChosenMetric],
    pub(super) rows: &'a Rows,
    /// Number of nodes that are not shown.
    pub(super) hidden_nodes: usize,
}

#[derive(Serialize)]
struct DocumentFields<'a> {
    file: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Cow<'a, str>>,
    process: Option<ProcessFields<'a>>,
    overhead: Option<OverheadEntry>,
    #[serde(serialize_with = "as_map")]
    losses: &'a [(String, u64)],
    devices: Vec<DeviceFields<'a>>,
    hidden_nodes: usize,
    nodes: NodeList<'a>,
}

#[derive(Serialize)]
struct ProcessFields<'a> {
    pid: u64,
    rank: Option<u64>,
    host: &'a str,
    argv: &'a [String],
    start_unix_nanos: u64,
    duration_nanos: u64,
    complete: bool,
}

#[derive(Serialize)]
struct DeviceFields<'a> {
    family: &'a str,
    id: &'a str,
    arch: Option<&'a str>,
    bus_width_bits: Option<u64>,
    clock_rate_khz: Option<u64>,
    memory_clock_rate_khz: Option<u64>,
    num_sms: Option<u64>,
}

struct NodeList<'a> {
    document: &'a JsonDocument<'a>,
    columns: JsonColumns<'a>,
}

/// The labels of metrics, with their cells or with the cells of their changes.
enum JsonColumns<'a> {
    Values { labels: Vec<&'a str>, cells: CellsByNode<'a> },
    Changes(Vec<(&'a str, [(&'static str, Cells); 4])>),
}

#[derive(Serialize)]
struct NodeFields<'a> {
    id: usize,
    parent: Option<usize>,
    depth: usize,
    name: &'a str,
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<NodeChange>,
    metrics: NodeMetrics<'a>,
}

/// The change of a node. `None` is a node that both files have, and is written as null.
#[derive(Serialize)]
struct NodeChange(Option<&'static str>);

struct NodeMetrics<'a> {
    columns: &'a JsonColumns<'a>,
    node: usize,
}

struct ChangeRow<'a> {
    cells: &'a [(&'static str, Cells); 4],
    node: usize,
}

struct JsonValue(MetricValue);

struct JsonReal(f64);

impl JsonDocument<'_> {
    /// Writes one object on one line.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Meta { process, overhead, losses, .. } = self.graph.meta();
        let fields = DocumentFields {
            file: self.file.to_string_lossy(),
            before: self.before.map(Path::to_string_lossy),
            process: process.as_ref().map(process_fields),
            overhead: overhead.map(OverheadEntry::from),
            losses,
            devices: self.graph.devices().iter().map(device_fields).collect(),
            hidden_nodes: self.hidden_nodes,
            nodes: NodeList { document: self, columns: self.columns() },
        };
        serde_json::to_writer(&mut *out, &fields)?;
        writeln!(out)
    }

    fn columns(&self) -> JsonColumns<'_> {
        let labels = self.metrics.iter().map(|metric| &*metric.label);
        if self.before.is_none() {
            let labels: Vec<&str> = labels.collect();
            let cells = self.graph.cells_by_node(&labels);
            return JsonColumns::Values { labels, cells };
        }
        let empty_cells = || Cells::Values(vec![None; self.graph.nodes().len()]);
        let cells = |label: &str| self.graph.column(label).unwrap_or_else(empty_cells);
        let changes = |label: &str| {
            DifferenceLabels::new(label).by_word().map(|(word, label)| (word, cells(&label)))
        };
        JsonColumns::Changes(labels.map(|label| (label, changes(label))).collect())
    }
}

fn process_fields(process: &Process) -> ProcessFields<'_> {
    ProcessFields {
        pid: process.pid,
        rank: process.rank,
        host: &process.host,
        argv: &process.argv,
        start_unix_nanos: process.start_unix_nanos,
        duration_nanos: process.duration_nanos,
        complete: process.is_complete,
    }
}

fn device_fields(device: &Device) -> DeviceFields<'_> {
    DeviceFields {
        family: &device.family,
        id: &device.id,
        arch: device.arch.as_deref(),
        bus_width_bits: device.bus_width_bits,
        clock_rate_khz: device.clock_rate_khz,
        memory_clock_rate_khz: device.memory_clock_rate_khz,
        num_sms: device.num_sms,
    }
}

fn as_map<S: Serializer>(pairs: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

impl Serialize for NodeList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let JsonDocument { graph, before, rows, .. } = self.document;
        serializer.collect_seq(rows.rows.iter().map(|row| {
            let node = &graph.nodes()[row.node_index];
            NodeFields {
                id: row.node_index,
                parent: node.parent,
                depth: node.depth,
                name: &node.name,
                kind: node.kind.map(NodeKind::as_str),
                change: before.map(|_| NodeChange(change_word(node.side))),
                metrics: NodeMetrics { columns: &self.columns, node: row.node_index },
            }
        }))
    }
}

impl Serialize for NodeMetrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let node = self.node;
        match self.columns {
            JsonColumns::Values { labels, cells } => serializer.collect_map(
                cells.node_cells(node).map(|(column, value)| (labels[column], JsonValue(value))),
            ),
            JsonColumns::Changes(columns) => serializer.collect_map(
                columns.iter().map(|(label, cells)| (label, ChangeRow { cells, node })),
            ),
        }
    }
}

impl Serialize for ChangeRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = |cells: &Cells| cells.get(self.node).map(JsonValue);
        serializer.collect_map(self.cells.iter().map(|(word, cells)| (word, value(cells))))
    }
}

impl Serialize for JsonValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            MetricValue::Int(value) => serializer.serialize_i64(*value),
            MetricValue::Float(value) => JsonReal(*value).serialize(serializer),
            MetricValue::Text(value) => serializer.serialize_str(value),
            MetricValue::Ints(values) => values.serialize(serializer),
            MetricValue::Floats(values) => {
                serializer.collect_seq(values.iter().map(|value| JsonReal(*value)))
            }
        }
    }
}

impl Serialize for JsonReal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            // serde_json writes NaN as null.
            value => serializer.serialize_f64(value),
        }
    }
}
