//! Import and export of foreign files through the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod build;
mod dump;
mod faults;

mod chrome_trace;
mod collapsed;
mod corpus;
mod csv;
mod flight_recorder;
mod hatchet;
mod json;
mod kineto;
mod memory_snapshot;
mod no_data;
mod perfetto;
mod pprof;
mod ptx;
mod ranks;
mod speedscope;
mod svg;
mod tables;
mod tensorboard;
mod trace_event;
