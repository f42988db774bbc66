//! Writes the weights of a run's stacks as collapsed stacks.

use std::borrow::Cow;
use std::io::{BufWriter, Write};

use marey_store::Reader;

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::format::Format;
use crate::shared::weights::{Stack, stack_weights};

/// Writes a line for each stack. In names, `;` becomes `:` and line ends become blanks. A `#` at
/// the start of a line becomes `:`, so that no line is read as a comment.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let weights = stack_weights(reader, Format::Collapsed)?;
    weights.leave_out(reader, left_out)?;
    let mut out = BufWriter::new(out);
    for (&stack, sum) in &weights.by_stack {
        let Some(names) = join_names(reader, stack, left_out) else {
            *left_out.entry("values without a stack").or_default() += 1;
            continue;
        };
        if !sum.as_f64().is_finite() {
            *left_out.entry("values that are not numbers").or_default() += 1;
            continue;
        }
        writeln!(out, "{names} {sum}")?;
    }
    Ok(out.flush()?)
}

/// Joins the names from the outermost frame inwards. Returns `None` if there is none.
fn join_names(reader: &Reader, stack: Stack, left_out: &mut LeftOut) -> Option<String> {
    let names = reader.path(stack.context_id).into_iter().map(|id| reader.context(id).name_id);
    let mut joined: Option<String> = None;
    for name_id in names.chain(stack.kernel_id) {
        let name = sanitise(reader.text(name_id), joined.is_none());
        if let Cow::Owned(_) = name {
            *left_out.entry("separators in names").or_default() += 1;
        }
        match &mut joined {
            Some(joined) => {
                joined.push(';');
                joined.push_str(&name);
            }
            None => joined = Some(name.into_owned()),
        }
    }
    joined
}

fn sanitise(name: &str, is_first: bool) -> Cow<'_, str> {
    let is_comment = is_first && name.starts_with('#');
    if !is_comment && !name.contains([';', '\n', '\r']) {
        return Cow::Borrowed(name);
    }
    let mut sanitised = name.replace(';', ":").replace(['\n', '\r'], " ");
    if is_comment {
        sanitised.replace_range(..1, ":");
    }
    Cow::Owned(sanitised)
}
