//! Collapsed stacks: one line `outer;inner 12` for each stack, the input of flame graph tools.

mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;
