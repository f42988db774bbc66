//! Writes a profile as a tree in either format.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::ops::Deref;

use marey_model::context::NodeKind;
use marey_model::hatchet::{self, Format, Producer, Tree};
use marey_model::metric::MetricValue;
use marey_model::profile::{Device, Meta, NodeId, Profile};

/// Writes a profile so that [`parse`](super::parse) and `proton-viewer` can read it.
///
/// The metrics of a node have the order of the profile. marey's extras are written if the profile
/// has any. JSON has no NaN and no infinities. NaN becomes `null`, and infinities become `Infinity`
/// and `-Infinity`, as in Python's `json` module.
///
/// A profile that is read back is equal if it is in the form that readers produce. In that form,
/// devices are grouped by family. Metrics have values and are in the order of their first
/// occurrence, and the values are [normalised](marey_model::profile::Values::normalise). An empty
/// list of numbers is a list of integers. The tree is not deeper than
/// [`MAX_DEPTH`](super::MAX_DEPTH).
///
/// # Errors
///
/// Errors of `out`, and `InvalidInput` for a profile that [`Profile::check`] refuses.
pub fn write(profile: &Profile, format: Format, out: &mut impl Write) -> io::Result<()> {
    profile.check().map_err(|broken| io::Error::new(io::ErrorKind::InvalidInput, broken))?;
    let mut out = BufWriter::new(out);
    hatchet::write(&ProfileTree::new(profile), format, Producer::Export, &mut out)?;
    out.flush()
}

/// A profile, with its values by node.
struct ProfileTree<'a> {
    profile: &'a Profile,
    /// Number of children of each node.
    child_counts: Vec<u32>,
    /// Start of the cells of each node, and the end of the last one.
    cell_starts: Vec<usize>,
    cells: Vec<Cell>,
}

/// A value of a node.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Index of the metric.
    metric_index: u32,
    /// Index of the value in the metric.
    value_index: u32,
}

impl<'a> ProfileTree<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut child_counts = vec![0; profile.nodes.len()];
        for parent in profile.nodes.iter().filter_map(|node| node.parent) {
            child_counts[parent.index()] += 1;
        }
        let (cell_starts, cells) = cells_by_node(profile);
        Self { profile, child_counts, cell_starts, cells }
    }
}

impl Tree for ProfileTree<'_> {
    type Node = NodeId;

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..self.profile.nodes.len()).map(|index| NodeId(index as u32))
    }

    fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.profile.nodes[id.index()].parent
    }

    fn child_count(&self, id: NodeId) -> usize {
        self.child_counts[id.index()] as usize
    }

    fn name(&self, id: NodeId) -> impl Deref<Target = str> {
        &*self.profile.nodes[id.index()].name
    }

    fn kind(&self, id: NodeId) -> Option<NodeKind> {
        self.profile.nodes[id.index()].kind
    }

    fn metrics(
        &self,
        id: NodeId,
    ) -> impl ExactSizeIterator<Item = (impl Deref<Target = str>, MetricValue)> {
        let cells = &self.cells[self.cell_starts[id.index()]..self.cell_starts[id.index() + 1]];
        cells.iter().map(|cell| {
            let metric = &self.profile.metrics[cell.metric_index as usize];
            (&*metric.key, metric.values.get(cell.value_index as usize))
        })
    }

    fn sketch(&self, id: NodeId) -> Option<impl ExactSizeIterator<Item = (i64, u64)>> {
        let sketches = &self.profile.sketches;
        let index = sketches.binary_search_by_key(&id, |(node, _)| *node).ok()?;
        Some(sketches[index].1.iter().copied())
    }

    fn meta(&self) -> &Meta {
        &self.profile.meta
    }

    fn devices(&self) -> Cow<'_, [Device]> {
        Cow::Borrowed(&self.profile.devices)
    }
}

/// Groups the values by node, each in the order of the metrics.
fn cells_by_node(profile: &Profile) -> (Vec<usize>, Vec<Cell>) {
    let mut cell_starts = vec![0; profile.nodes.len() + 1];
    for node in profile.metrics.iter().flat_map(|metric| &metric.nodes) {
        cell_starts[node.index() + 1] += 1;
    }
    for index in 1..cell_starts.len() {
        cell_starts[index] += cell_starts[index - 1];
    }
    let mut next_cells = cell_starts.clone();
    let mut cells = vec![Cell::default(); cell_starts[profile.nodes.len()]];
    for (metric_index, column) in profile.metrics.iter().enumerate() {
        for (index, node) in column.nodes.iter().enumerate() {
            cells[next_cells[node.index()]] =
                Cell { metric_index: metric_index as u32, value_index: index as u32 };
            next_cells[node.index()] += 1;
        }
    }
    (cell_starts, cells)
}
