//! Writes the flame graph of a run as a single SVG file, with the outermost frames at the top.
//!
//! The file is self-contained. It shows names, values and shares even without scripts. With
//! scripts, a click zooms into a frame, and names can be searched.

mod draw;
mod tree;

use std::io::Write;

use marey_store::Reader;

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::format::Format;
use crate::shared::weights::stack_weights;

/// Writes the flame graph of a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let weights = stack_weights(reader, Format::Svg)?;
    weights.leave_out(reader, left_out)?;
    let tree = tree::FlameTree::build(&weights, reader, left_out);
    if tree.nodes[0].inclusive_weight <= 0.0 {
        let missing = "no weight above zero";
        return Err(ExportError::NoData { format: Format::Svg, missing });
    }
    draw::draw(&tree, &weights, reader, out, left_out)
}
