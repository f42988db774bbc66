//! From weights to lines.

use std::borrow::Cow;
use std::io::{BufWriter, Write};

use marey_store::Reader;

use crate::Format;
use crate::export::{ExportError, LeftOut};
use crate::weights::{Stack, weights};

/// Writes a line for each stack. `;` in a name becomes `:`, the end of a line a blank, and a `#` that
/// a line would begin with `:`, so that every line is read as what it is.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let weights = weights(reader, Format::Collapsed)?;
    weights.leave_out(reader, left_out);
    let mut out = BufWriter::new(out);
    for (&stack, sum) in &weights.by_stack {
        let Some(frames) = frames(reader, stack, left_out) else {
            *left_out.entry("values without a stack").or_default() += 1;
            continue;
        };
        if !sum.as_f64().is_finite() {
            *left_out.entry("values that are no numbers").or_default() += 1;
            continue;
        }
        writeln!(out, "{frames} {sum}")?;
    }
    Ok(out.flush()?)
}

/// The names from the outermost frame; `None` if there is none.
fn frames(reader: &Reader, stack: Stack, left_out: &mut LeftOut) -> Option<String> {
    let names = reader.path(stack.context_id).into_iter().map(|id| reader.context(id).name_id);
    let mut frames: Option<String> = None;
    for name_id in names.chain(stack.kernel_id) {
        let name = clean(reader.text(name_id), frames.is_none());
        if let Cow::Owned(_) = name {
            *left_out.entry("separators in names").or_default() += 1;
        }
        match &mut frames {
            Some(frames) => {
                frames.push(';');
                frames.push_str(&name);
            }
            none => *none = Some(name.into_owned()),
        }
    }
    frames
}

fn clean(name: &str, is_first: bool) -> Cow<'_, str> {
    let is_comment = is_first && name.starts_with('#');
    if !is_comment && !name.contains([';', '\n', '\r']) {
        return Cow::Borrowed(name);
    }
    let mut clean = name.replace(';', ":").replace(['\n', '\r'], " ");
    if is_comment {
        clean.replace_range(..1, ":");
    }
    Cow::Owned(clean)
}
