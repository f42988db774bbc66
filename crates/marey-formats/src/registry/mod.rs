//! Recognises the format of a file, and calls the reader or writer of a format.
//!
//! This is the only place that names the modules of all formats. They import
//! [`shared`](crate::shared), and never this module or each other. `cargo xtask deps` checks that.

mod align;
mod export;
mod import;
mod recognise;

use std::io::Write;

use marey_store::Reader;

pub use self::export::export;
#[cfg(fuzzing)]
pub use self::import::fuzz_import;
pub use self::import::{
    ImportError, Imported, ImportedFile, TemporaryRun, import, open, read_window,
};
pub use self::recognise::recognise_file;
use crate::shared::export::{ExportError, LeftOut};
use crate::shared::format::Format;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;
use crate::{
    chrome_trace, collapsed, csv, flight_recorder, hatchet, json, kineto, memory_snapshot,
    perfetto, pprof, speedscope, svg, tensorboard, trace_event,
};

/// Reads a file of a format that [`recognise`] returns.
fn read(format: Format, input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    match format {
        Format::Kineto | Format::ChromeTrace => trace_event::read(input, import),
        Format::Perfetto => perfetto::read(input, import),
        Format::Speedscope => speedscope::read(input, import),
        Format::Pprof => pprof::read(input, import),
        Format::Collapsed => collapsed::read(input, import),
        Format::Hatchet | Format::HatchetMsgpack => hatchet::import(input, import),
        Format::MemorySnapshot => memory_snapshot::read(input, import),
        Format::FlightRecorder => flight_recorder::read(input, import),
        Format::Svg | Format::Csv | Format::Json | Format::TensorBoard => {
            unreachable!("`recognise` returns formats with a reader only")
        }
    }
}

/// Writes a run in a format.
fn write(
    format: Format,
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    match format {
        Format::Kineto => kineto::write(reader, out, left_out),
        Format::ChromeTrace => chrome_trace::write(reader, out, left_out),
        Format::Perfetto => perfetto::write(reader, out, left_out),
        Format::Speedscope => speedscope::write(reader, out, left_out),
        Format::Pprof => pprof::write(reader, out, left_out),
        Format::Collapsed => collapsed::write(reader, out, left_out),
        Format::Svg => svg::write(reader, out, left_out),
        Format::Csv => csv::write(reader, out, left_out),
        Format::Json => json::write(reader, out, left_out),
        Format::Hatchet => hatchet::export(reader, hatchet::Format::Json, out, left_out),
        Format::HatchetMsgpack => hatchet::export(reader, hatchet::Format::Msgpack, out, left_out),
        Format::TensorBoard => tensorboard::write(reader, out, left_out),
        Format::MemorySnapshot | Format::FlightRecorder => Err(ExportError::ReadOnly(format)),
    }
}
