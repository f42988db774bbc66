//! Call stacks as PyTorch writes them: lists of `{filename, line, name}`, innermost frame first, which
//! many entries share.

use marey_model::context::NodeKind;
use marey_store::Assembler;

use super::fields::Fields;
use super::values::{Unfit, Value, Values};

/// The context of a call stack, if it has frames.
///
/// It takes the place of the list, and names the place of its frames: so each is looked at once, and
/// what is kept of a stack is a number. A stack that is not all frames is cut there; the reason is
/// given for the first entry that has it.
pub(crate) fn context(
    values: &mut Values,
    frames: Value,
    run: &mut Assembler,
) -> (Option<u32>, Result<(), Unfit>) {
    if let Some(context) = values.known(frames) {
        return (Some(context).filter(|&id| id != Assembler::ROOT), Ok(()));
    }
    let Some(items) = values.items(frames) else {
        let is_none = frames == Value::None;
        return (None, if is_none { Ok(()) } else { Err(Unfit::Stack) });
    };
    let items = items.to_vec();
    let mut context = Assembler::ROOT;
    let mut result = Ok(());
    for &frame in items.iter().rev() {
        match name(values, frame, run) {
            Ok(name_id) => context = run.context(context, NodeKind::Frame, name_id),
            Err(reason) => {
                result = Err(reason);
                break;
            }
        }
    }
    values.set_known(frames, context);
    (Some(context).filter(|&id| id != Assembler::ROOT), result)
}

/// The name of a frame: `file:line@function`.
fn name(values: &mut Values, frame: Value, run: &mut Assembler) -> Result<u32, Unfit> {
    if let Some(name_id) = values.known(frame) {
        return Ok(name_id);
    }
    let fields = Fields::of(values, frame);
    let mut fields = fields.map_err(|unfit| match unfit {
        Unfit::NoDict => Unfit::Stack,
        unfit => unfit,
    })?;
    let file = fields.take(values, "filename", |value| values.text(value)).ok_or(Unfit::Stack)?;
    let line = fields.int(values, "line").ok_or(Unfit::Stack)?;
    let function = fields.take(values, "name", |value| values.text(value)).ok_or(Unfit::Stack)?;
    values.unfold(file.len() + function.len())?;
    let name_id = run.text(&format!("{file}:{line}@{function}"));
    values.set_known(frame, name_id);
    Ok(name_id)
}
