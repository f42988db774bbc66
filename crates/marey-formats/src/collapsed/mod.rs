//! Collapsed stacks: one line `outer;inner 12` for each stack, which flame graph tools read.

mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;
