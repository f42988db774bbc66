//! Writes the sums of spans to the table `rollups`, for both collections and assemblies.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use marey_model::table::stored;

use crate::StoreError;
use crate::columns::{ids, ints, maybe_ints};
use crate::parts::{LazyPart, Parts};
use crate::rollup::{Rollup, Sums, Totals};

/// Number of rows in a batch.
const BATCH_ROWS: usize = 1 << 14;

/// The thread, context and name of a node, by the run's ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) thread_id: u32,
    pub(crate) context_id: u32,
    pub(crate) name_id: u32,
    /// Start of its process's recording.
    pub(crate) start_nanos: i64,
}

/// Writes the sums of the whole recording by node, then the rows of each level by bucket
/// width and time.
pub(crate) fn write(
    totals: &[Totals],
    rollup: Rollup,
    node_info: impl Fn(u32) -> NodeInfo,
    owner_id: Option<u32>,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::ROLLUPS);
    let nonempty_nodes: Vec<u32> =
        (0..totals.len() as u32).filter(|&node| !totals[node as usize].sums.is_empty()).collect();
    for nodes in nonempty_nodes.chunks(BATCH_ROWS) {
        let sums = nodes
            .iter()
            .map(|&node| (node_info(node).start_nanos, node, totals[node as usize].sums));
        let sketches = nodes.iter().map(|&node| {
            let Totals { sums, sketch } = &totals[node as usize];
            // Samples have no durations, so they have no extremes and no sketch.
            sums.extremes_nanos.map(|_| {
                let mut bytes = Vec::new();
                sketch.encode(&mut bytes);
                bytes
            })
        });
        part.write(columns(0, sums, sketches.collect(), &node_info), parts)?;
    }
    rollup.finish(|width_log2, cells| {
        cells.chunks(BATCH_ROWS).try_for_each(|cells| {
            let sums = cells.iter().map(|cell| (cell.bucket << width_log2, cell.node, cell.sums));
            let sketches = BinaryArray::new_null(cells.len());
            part.write(columns(1 << width_log2, sums, sketches, &node_info), parts)
        })
    })?;
    part.finish(owner_id, parts)
}

/// Returns the columns of rows, given as bucket start, node and sums.
fn columns(
    bucket_nanos: i64,
    rows: impl Iterator<Item = (i64, u32, Sums)> + Clone,
    sketches: BinaryArray,
    node_info: &impl Fn(u32) -> NodeInfo,
) -> Vec<ArrayRef> {
    let nodes = rows.clone().map(|row| node_info(row.1));
    let sums = rows.clone().map(|row| row.2);
    vec![
        ints(rows.clone().map(|_| bucket_nanos)),
        ints(rows.map(|row| row.0)),
        ids(nodes.clone().map(|node| node.thread_id)),
        ids(nodes.clone().map(|node| node.context_id)),
        ids(nodes.map(|node| node.name_id)),
        ints(sums.clone().map(|sums| sums.count)),
        ints(sums.clone().map(|sums| sums.total_nanos)),
        ints(sums.clone().map(|sums| sums.self_nanos)),
        maybe_ints(sums.clone().map(|sums| sums.extremes_nanos.map(|extremes| extremes.0))),
        maybe_ints(sums.map(|sums| sums.extremes_nanos.map(|extremes| extremes.1))),
        Arc::new(sketches),
    ]
}
