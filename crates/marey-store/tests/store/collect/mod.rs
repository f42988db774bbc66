//! From spools to tables.

mod again;
mod devices;
mod hostile;
mod meaning;
mod model;
mod random;
mod read_only;
mod spools;
mod tables;
