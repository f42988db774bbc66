//! Draws the flame graph as a PNG picture, with the outermost contexts at the top. It serves to
//! compare runs at a glance, and shows no names. The SVG has them.

use std::collections::BTreeMap;
use std::io;

use flate2::Crc;
use marey_store::Reader;
use png::{BitDepth, ColorType, Encoder, Filter};

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::format::Format;
use crate::shared::weights::stack_weights;

const WIDTH: usize = 1200;
const ROW_HEIGHT: usize = 16;

/// The maximum depth of contexts that are drawn.
const MAX_DEPTH: usize = 64;

/// Red, green and blue.
type Colour = [u8; 3];

const WHITE: Colour = [0xff; 3];

/// An encoded picture.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) png: Vec<u8>,
}

/// Draws the flame graph. Returns `None` if no context has a weight. Counts the samples that are
/// not in it.
pub(super) fn draw(
    reader: &Reader,
    left_out: &mut LeftOut,
) -> Result<Option<Picture>, ExportError> {
    let weights = match stack_weights(reader, Format::TensorBoard) {
        Err(ExportError::NoData { .. }) => return Ok(None),
        weights => weights?,
    };
    *left_out.entry("values of other kinds").or_default() += weights.other_value_count;
    let mut totals: BTreeMap<u32, f64> = BTreeMap::new();
    for (stack, weight) in &weights.by_stack {
        *totals.entry(stack.context_id).or_default() += weight.as_f64().max(0.0);
    }
    // A context has a larger id than its ancestors, so `pop_last` yields innermost contexts first.
    let mut pending = totals.clone();
    while let Some((context_id, total)) = pending.pop_last() {
        if let Some(parent) =
            reader.context(context_id).parent.filter(|&parent| parent < context_id)
        {
            *pending.entry(parent).or_default() += total;
            *totals.entry(parent).or_default() += total;
        }
    }
    let root_total = totals.remove(&0).unwrap_or(0.0);
    if !(root_total > 0.0 && root_total.is_finite()) {
        return Ok(None);
    }
    let depths = totals.keys().map(|&context_id| reader.context(context_id).depth as usize);
    let rows = depths.max().unwrap_or(0).clamp(1, MAX_DEPTH);
    let mut canvas = Canvas::new(rows * ROW_HEIGHT);
    // The horizontal position of the next child of each context, in pixels.
    let mut next_x: BTreeMap<u32, f64> = BTreeMap::from([(0, 0.0)]);
    for (&context_id, total) in &totals {
        let row = reader.context(context_id);
        let free_x = next_x.entry(row.parent.unwrap_or(0)).or_default();
        let start_x = *free_x;
        *free_x += total / root_total * WIDTH as f64;
        let end_x = *free_x;
        next_x.insert(context_id, start_x);
        let depth = (row.depth as usize).saturating_sub(1);
        // One white pixel separates neighbours that are wide enough.
        let x = [start_x.round() as usize, (end_x.round() as usize).saturating_sub(1)];
        let y = [depth * ROW_HEIGHT, (depth + 1) * ROW_HEIGHT - 1];
        canvas.fill(x, y, colour(reader.text(row.name_id)));
    }
    Ok(Some(canvas.picture()?))
}

/// A picture with a width of [`WIDTH`] pixels. It is white at first.
struct Canvas {
    pixels: Vec<Colour>,
}

impl Canvas {
    fn new(height: usize) -> Self {
        Self { pixels: vec![WHITE; WIDTH * height] }
    }

    /// Fills a rectangle, clipped to the picture.
    fn fill(&mut self, x: [usize; 2], y: [usize; 2], colour: Colour) {
        for row in self.pixels.chunks_exact_mut(WIDTH).take(y[1]).skip(y[0]) {
            row.iter_mut().take(x[1]).skip(x[0]).for_each(|pixel| *pixel = colour);
        }
    }

    fn picture(&self) -> io::Result<Picture> {
        let (width, height) = (WIDTH as u32, (self.pixels.len() / WIDTH) as u32);
        let mut png = Vec::new();
        let mut encoder = Encoder::new(&mut png, width, height);
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Eight);
        encoder.set_filter(Filter::NoFilter);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(self.pixels.as_flattened())?;
        writer.finish()?;
        Ok(Picture { width: width.cast_signed(), height: height.cast_signed(), png })
    }
}

/// Returns a warm colour that depends on the name alone.
fn colour(name: &str) -> Colour {
    let mut checksum = Crc::new();
    checksum.update(name.as_bytes());
    let [red, green, blue, _] = checksum.sum().to_le_bytes();
    [205 + red % 50, 90 + green % 130, blue % 90]
}
