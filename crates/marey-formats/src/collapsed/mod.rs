//! Collapsed stacks: a line for each, `outer;inner 12`, the way flame graphs are fed.

mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;
