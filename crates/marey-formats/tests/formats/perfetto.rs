//! Perfetto traces.

mod hostile;
mod message;
mod read;
mod round_trip;
