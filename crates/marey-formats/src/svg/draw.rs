//! From the frames to the text of the file.

use std::io::{BufWriter, Write};

use marey_store::Reader;

use super::tree::{Palette, Tree};
use crate::export::{ExportError, LeftOut};
use crate::weights::{Weights, is_nanos};

/// In pixels of the graph, which is scaled to the room that there is.
const WIDTH: f64 = 1200.0;
const FRAME_HEIGHT: usize = 16;
const HEAD_HEIGHT: usize = 28;

/// What a character takes, of 11 pixels of a monospaced font.
const CHAR_WIDTH: f64 = 6.6;

/// Frames that are narrower cannot be seen.
const MIN_WIDTH: f64 = 0.1;

/// A frame and where it is.
struct Drawn {
    node: usize,
    x: f64,
    depth: usize,
}

pub(super) fn draw(
    tree: &Tree,
    weights: &Weights,
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let drawn = place(tree);
    let narrow = (tree.nodes.len() - drawn.len()) as u64;
    *left_out.entry("frames narrower than a tenth of a pixel").or_default() += narrow;
    let mut out = BufWriter::new(out);
    let depth = drawn.iter().map(|drawn| drawn.depth).max().unwrap_or(0);
    let height = HEAD_HEIGHT + (depth + 1) * FRAME_HEIGHT + 4;
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
        escape(&value(tree.nodes[0].total, &weights.unit)),
    )?;
    for frame in &drawn {
        draw_frame(frame, tree, weights, reader, &mut out)?;
    }
    let script = include_str!("script.js");
    write!(out, "<script><![CDATA[\n{script}]]></script>\n</svg>\n")?;
    Ok(out.flush()?)
}

/// Where the frames are that can be seen: those around others first, from left to right.
fn place(tree: &Tree) -> Vec<Drawn> {
    let mut drawn = Vec::new();
    let mut waiting = vec![Drawn { node: 0, x: 0.0, depth: 0 }];
    while let Some(frame) = waiting.pop() {
        if width(tree, frame.node) < MIN_WIDTH {
            continue;
        }
        let mut x = frame.x;
        let first = waiting.len();
        for &node in &tree.nodes[frame.node].children {
            waiting.push(Drawn { node, x, depth: frame.depth + 1 });
            x += width(tree, node);
        }
        waiting[first..].reverse();
        drawn.push(frame);
    }
    drawn
}

fn width(tree: &Tree, node: usize) -> f64 {
    WIDTH * share(tree, node)
}

fn share(tree: &Tree, node: usize) -> f64 {
    tree.nodes[node].total / tree.nodes[0].total
}

fn draw_frame(
    frame: &Drawn,
    tree: &Tree,
    weights: &Weights,
    reader: &Reader,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let &Drawn { node, x, depth } = frame;
    let (total, palette) = (tree.nodes[node].total, tree.nodes[node].palette);
    let name = match palette {
        Palette::Root => "all",
        _ => reader.text(tree.nodes[node].name_id),
    };
    let (width, y) = (width(tree, node), HEAD_HEIGHT + depth * FRAME_HEIGHT);
    let value = value(total, &weights.unit);
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
        escape(&fit(name, width)),
    )?;
    Ok(())
}

/// As much of a name as there is room for.
fn fit(name: &str, width: f64) -> String {
    let count = ((width - 6.0) / CHAR_WIDTH).max(0.0) as usize;
    if name.chars().nth(count).is_none() {
        return name.to_owned();
    }
    if count < 3 {
        return String::new();
    }
    name.chars().take(count - 1).chain(['…']).collect()
}

/// A weight with its unit; nanoseconds in the unit that suits them.
fn value(weight: f64, unit: &str) -> String {
    if !is_nanos(unit) {
        return if unit.is_empty() { weight.to_string() } else { format!("{weight} {unit}") };
    }
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    match units.into_iter().find(|(nanos, _)| weight >= *nanos) {
        Some((nanos, unit)) => format!("{:.3} {unit}", weight / nanos),
        None => format!("{weight} ns"),
    }
}

/// A text as XML; characters that XML has no place for are replaced.
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
