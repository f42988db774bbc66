//! Collecting spools into tables.

mod again;
mod autograd;
mod devices;
mod hostile;
mod meaning;
mod memory;
mod model;
mod random;
mod read_only;
mod rings;
mod span_times;
pub(crate) mod spools;
pub(crate) mod tables;
mod windows;
