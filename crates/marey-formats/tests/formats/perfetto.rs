//! Traces of Perfetto.

mod hostile;
mod message;
mod read;
mod round_trip;
