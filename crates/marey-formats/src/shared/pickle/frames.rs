//! Converts the call stacks of PyTorch's dumps to contexts. A stack is a list of
//! `{filename, line, name}`, innermost frame first, and many entries share it.

use marey_model::context::NodeKind;
use marey_store::Assembler;

use super::fields::Fields;
use super::values::{Value, ValueError, Values};

/// Returns the context of a call stack, if it has frames.
///
/// In `values`, the context replaces the list, and the name replaces each frame. So each is
/// converted once, and a stack takes no more memory than a number. A stack is cut at an element
/// that is no frame. Only the first entry that refers to the stack gets the error.
pub(crate) fn stack_context(
    values: &mut Values,
    frames: Value,
    run: &mut Assembler,
) -> (Option<u32>, Result<(), ValueError>) {
    if let Some(context) = values.converted(frames) {
        return (Some(context).filter(|&id| id != Assembler::ROOT), Ok(()));
    }
    let Some(items) = values.items(frames) else {
        let is_none = frames == Value::None;
        return (None, if is_none { Ok(()) } else { Err(ValueError::NotAFrame) });
    };
    let items = items.to_vec();
    let mut context = Assembler::ROOT;
    let mut result = Ok(());
    for &frame in items.iter().rev() {
        match intern_frame_name(values, frame, run) {
            Ok(name_id) => context = run.context_id(context, NodeKind::Frame, name_id),
            Err(reason) => {
                result = Err(reason);
                break;
            }
        }
    }
    values.set_converted(frames, context);
    (Some(context).filter(|&id| id != Assembler::ROOT), result)
}

/// Returns the name of a frame: `file:line@function`.
fn intern_frame_name(
    values: &mut Values,
    frame: Value,
    run: &mut Assembler,
) -> Result<u32, ValueError> {
    if let Some(name_id) = values.converted(frame) {
        return Ok(name_id);
    }
    let fields = Fields::from_dict(values, frame);
    let mut fields = fields.map_err(|error| match error {
        ValueError::NotADict => ValueError::NotAFrame,
        error => error,
    })?;
    let file =
        fields.take(values, "filename", |value| values.text(value)).ok_or(ValueError::NotAFrame)?;
    let line = fields.take_int(values, "line").ok_or(ValueError::NotAFrame)?;
    let function =
        fields.take(values, "name", |value| values.text(value)).ok_or(ValueError::NotAFrame)?;
    values.count_expansion(file.len() + function.len())?;
    let name_id = run.text_id(&format!("{file}:{line}@{function}"));
    values.set_converted(frame, name_id);
    Ok(name_id)
}
