//! Which writer writes which format.

use std::io::Write;

use marey_store::Reader;

use crate::export::{ExportError, LeftOut};
use crate::{
    Format, chrome_trace, collapsed, csv, hatchet, json, kineto, perfetto, pprof, speedscope, svg,
    tensorboard,
};

/// Writes a run in a format.
pub(crate) fn write(
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
