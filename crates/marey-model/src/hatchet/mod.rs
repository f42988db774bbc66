//! Writes context trees in Proton's schema, the list `[ROOT, DEVICES]`, as JSON or `MessagePack`.
//! The recorder and the export use it.

mod document;
mod json;
mod msgpack;

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Deref;

use crate::context::NodeKind;
use crate::metric::MetricValue;
use crate::profile::{Device, Meta};

/// Version of the key `marey`, which other readers of the schema ignore.
pub const VERSION: u64 = 1;

/// The two encodings of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.hatchet` in Proton's layout: four spaces for each level, sorted keys.
    Json,
    /// `.hatchet_msgpack`.
    Msgpack,
}

/// The program that writes a document. The documents of the two differ in a few bytes that readers
/// treat alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producer {
    /// The recorder. It states no `argv`. Its JSON has `null` for infinities. Its `MessagePack`
    /// uses the longest form for numbers and lengths that do not fit into the first byte.
    Recorder,
    /// An export. JSON has `Infinity` and `-Infinity`, as in Python's `json` module, and
    /// `MessagePack` has the shortest form of each number and length, as Proton writes it.
    Export,
}

/// A context tree that can be written.
pub trait Tree {
    /// Handle of a node.
    type Node: Copy + PartialEq;

    /// Returns the nodes in pre-order, the root first.
    fn nodes(&self) -> impl Iterator<Item = Self::Node>;

    /// Returns the parent of a node; `None` for the root.
    fn parent(&self, node: Self::Node) -> Option<Self::Node>;

    /// Returns how many of [`nodes`](Self::nodes) have this parent.
    fn child_count(&self, node: Self::Node) -> usize;

    /// Returns the name of a node.
    fn name(&self, node: Self::Node) -> impl Deref<Target = str>;

    /// Returns the kind of a node, if it is known.
    fn kind(&self, node: Self::Node) -> Option<NodeKind>;

    /// Returns the metrics of a node, in the order in which they are written.
    fn metrics(
        &self,
        node: Self::Node,
    ) -> impl ExactSizeIterator<Item = (impl Deref<Target = str>, MetricValue)>;

    /// Returns the buckets and counts of a node's quantile sketch.
    fn sketch(&self, node: Self::Node) -> Option<impl ExactSizeIterator<Item = (i64, u64)>>;

    /// Returns the states of a node that are written inside its key `marey`. They are not among
    /// [`nodes`](Self::nodes), because Proton has no nodes for them.
    fn states(&self, _node: Self::Node) -> Vec<Self::Node> {
        Vec::new()
    }

    /// Returns the metadata, which is written on the root.
    fn meta(&self) -> &Meta;

    /// Returns the devices to which metrics refer.
    fn devices(&self) -> Cow<'_, [Device]>;
}

/// Writes a tree.
///
/// JSON has no NaN, which becomes `null`.
///
/// # Errors
///
/// Errors of `out`, and `InvalidInput` for a text or list that is too long for `MessagePack`.
pub fn write(
    tree: &impl Tree,
    format: Format,
    producer: Producer,
    out: &mut impl Write,
) -> io::Result<()> {
    match format {
        Format::Json => document::write(tree, producer, &mut json::Json::new(out, producer)),
        Format::Msgpack => {
            document::write(tree, producer, &mut msgpack::Msgpack::new(out, producer))
        }
    }
}
