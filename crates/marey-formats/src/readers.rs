//! Which reader reads which format.

use crate::import::{Broken, Import};
use crate::input::Input;
use crate::{
    Format, collapsed, flight_recorder, hatchet, memory_snapshot, perfetto, pprof, speedscope,
    trace_event,
};

/// Reads a file of a format.
pub(crate) fn read(format: Format, input: &mut Input, import: &mut Import) -> Result<(), Broken> {
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
            unreachable!("these are not recognised")
        }
    }
}
