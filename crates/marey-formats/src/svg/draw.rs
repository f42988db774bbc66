//! Lays out the frames of a flame graph, and writes the SVG text.

use std::io::{BufWriter, Write};

use marey_store::Reader;

use super::tree::{FlameTree, Palette};
use crate::shared::export::{ExportError, LeftOut};
use crate::shared::weights::{Weights, is_nanosecond_unit};

/// The width in pixels of the image, which is scaled to the window.
const WIDTH: f64 = 1200.0;
const FRAME_HEIGHT: usize = 16;
const HEADER_HEIGHT: usize = 28;

/// The width of a character in a monospaced font of 11 pixels.
const CHAR_WIDTH: f64 = 6.6;

/// The minimum width of a frame in pixels. Narrower frames are invisible and left out.
const MIN_WIDTH: f64 = 0.1;

/// A frame with its position.
struct PlacedFrame {
    node: usize,
    x: f64,
    depth: usize,
}

pub(super) fn draw(
    tree: &FlameTree,
    weights: &Weights,
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let frames = lay_out(tree);
    let narrow_count = (tree.nodes.len() - frames.len()) as u64;
    *left_out.entry("frames narrower than a tenth of a pixel").or_default() += narrow_count;
    let mut out = BufWriter::new(out);
    let depth = frames.iter().map(|frames| frames.depth).max().unwrap_or(0);
    let height = HEADER_HEIGHT + (depth + 1) * FRAME_HEIGHT + 4;
    let name = escape(&weights.name);
    write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
        font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"11\" \
        data-char-width=\"{CHAR_WIDTH}\">\n\
        <title>{name}</title>\n<style>\n{}</style>\n\
        <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n\
        <text class=\"head\" x=\"3\" y=\"18\">{name}: {}</text>\n",
        include_str!("style.css"),
        escape(&format_value(tree.nodes[0].inclusive_weight, &weights.unit)),
    )?;
    for frame in &frames {
        draw_frame(frame, tree, weights, reader, &mut out)?;
    }
    let script = include_str!("script.js");
    write!(out, "<script><![CDATA[\n{script}]]></script>\n</svg>\n")?;
    Ok(out.flush()?)
}

/// Returns the visible frames, parents before children, from left to right.
fn lay_out(tree: &FlameTree) -> Vec<PlacedFrame> {
    let mut frames = Vec::new();
    let mut pending = vec![PlacedFrame { node: 0, x: 0.0, depth: 0 }];
    while let Some(frame) = pending.pop() {
        if width(tree, frame.node) < MIN_WIDTH {
            continue;
        }
        let mut x = frame.x;
        let first = pending.len();
        for &node in &tree.nodes[frame.node].children {
            pending.push(PlacedFrame { node, x, depth: frame.depth + 1 });
            x += width(tree, node);
        }
        pending[first..].reverse();
        frames.push(frame);
    }
    frames
}

fn width(tree: &FlameTree, node: usize) -> f64 {
    WIDTH * share(tree, node)
}

fn share(tree: &FlameTree, node: usize) -> f64 {
    tree.nodes[node].inclusive_weight / tree.nodes[0].inclusive_weight
}

fn draw_frame(
    frame: &PlacedFrame,
    tree: &FlameTree,
    weights: &Weights,
    reader: &Reader,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let &PlacedFrame { node, x, depth } = frame;
    let (inclusive_weight, palette) = (tree.nodes[node].inclusive_weight, tree.nodes[node].palette);
    let name = match palette {
        Palette::Root => "all",
        _ => reader.text(tree.nodes[node].name_id),
    };
    let (width, y) = (width(tree, node), HEADER_HEIGHT + depth * FRAME_HEIGHT);
    let value = format_value(inclusive_weight, &weights.unit);
    let percent = 100.0 * share(tree, node);
    writeln!(
        out,
        "<g class=\"frame\"><title>{}\n{} ({percent:.2} %)</title>\
        <rect x=\"{x:.3}\" y=\"{y}\" width=\"{width:.3}\" height=\"{FRAME_HEIGHT}\" fill=\"{}\"/>\
        <text x=\"{:.3}\" y=\"{}\">{}</text></g>",
        escape(name),
        escape(&value),
        palette.colour(name),
        x + 3.0,
        y + 12,
        escape(&shorten_to_width(name, width)),
    )?;
    Ok(())
}

/// Shortens a name so that it fits into a width in pixels.
fn shorten_to_width(name: &str, width: f64) -> String {
    let count = ((width - 6.0) / CHAR_WIDTH).max(0.0) as usize;
    if name.chars().nth(count).is_none() {
        return name.to_owned();
    }
    if count < 3 {
        return String::new();
    }
    name.chars().take(count - 1).chain(['…']).collect()
}

/// Formats a weight with its unit. Nanoseconds are scaled to a larger unit.
fn format_value(weight: f64, unit: &str) -> String {
    if !is_nanosecond_unit(unit) {
        return if unit.is_empty() { weight.to_string() } else { format!("{weight} {unit}") };
    }
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    match units.into_iter().find(|(nanos, _)| weight >= *nanos) {
        Some((nanos, unit)) => format!("{:.3} {unit}", weight / nanos),
        None => format!("{weight} ns"),
    }
}

/// Escapes a text for XML. Replaces characters that XML does not allow.
fn escape(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\'' => xml.push_str("&#39;"),
            '\r' => xml.push_str("&#13;"),
            '\t' | '\n' => xml.push(char),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => xml.push(char::REPLACEMENT_CHARACTER),
            _ => xml.push(char),
        }
    }
    xml
}
