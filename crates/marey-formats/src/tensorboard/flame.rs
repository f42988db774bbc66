//! The flame graph as a picture, outermost contexts at the top. It has no names: it is for comparing
//! runs at a glance, and the SVG has them.

use std::collections::BTreeMap;

use flate2::Crc;
use marey_store::Reader;

use super::png::{Canvas, Colour, Picture};
use crate::Format;
use crate::export::ExportError;
use crate::weights::weights;

const WIDTH: usize = 1200;
const ROW_HEIGHT: usize = 16;

/// What is deeper is not drawn.
const MAX_ROWS: usize = 64;

const WHITE: Colour = [0xff; 3];

/// The picture, if anything has weight.
pub(super) fn draw(reader: &Reader) -> Result<Option<Picture>, ExportError> {
    let weights = match weights(reader, Format::TensorBoard) {
        Err(ExportError::Nothing { .. }) => return Ok(None),
        weights => weights?,
    };
    let mut totals: BTreeMap<u32, f64> = BTreeMap::new();
    for (stack, weight) in &weights.by_stack {
        *totals.entry(stack.context_id).or_default() += weight.as_f64().max(0.0);
    }
    // A context has a larger number than those around it, so the innermost come first.
    let mut waiting = totals.clone();
    while let Some((context, total)) = waiting.pop_last() {
        if let Some(parent) = reader.context(context).parent.filter(|&parent| parent < context) {
            *waiting.entry(parent).or_default() += total;
            *totals.entry(parent).or_default() += total;
        }
    }
    let all = totals.remove(&0).unwrap_or(0.0);
    if !(all > 0.0 && all.is_finite()) {
        return Ok(None);
    }
    let depths = totals.keys().map(|&context| reader.context(context).depth as usize);
    let rows = depths.max().unwrap_or(0).clamp(1, MAX_ROWS);
    let mut canvas = Canvas::new(WIDTH, rows * ROW_HEIGHT, WHITE);
    // Where the next context inside each one begins, in pixels.
    let mut next: BTreeMap<u32, f64> = BTreeMap::from([(0, 0.0)]);
    for (&context, total) in &totals {
        let place = reader.context(context);
        let free = next.entry(place.parent.unwrap_or(0)).or_default();
        let start = *free;
        *free += total / all * WIDTH as f64;
        let end = *free;
        next.insert(context, start);
        let row = (place.depth as usize).saturating_sub(1);
        // A pixel between neighbours is left white where there is room.
        let x = [start.round() as usize, (end.round() as usize).saturating_sub(1)];
        let y = [row * ROW_HEIGHT, (row + 1) * ROW_HEIGHT - 1];
        canvas.fill(x, y, colour(reader.text(place.name_id)));
    }
    Ok(Some(canvas.picture()?))
}

/// A warm colour that a name always has.
fn colour(name: &str) -> Colour {
    let mut checksum = Crc::new();
    checksum.update(name.as_bytes());
    let [a, b, c, _] = checksum.sum().to_le_bytes();
    [205 + a % 50, 90 + b % 130, c % 90]
}
