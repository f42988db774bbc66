//! Writes a run as trace-event JSON in Kineto's vocabulary, as `torch.profiler` does. HTA and
//! `TensorBoard` read it.
//!
//! Processes and threads have their ids in the operating system. Devices are processes too, with
//! the device number as id. So a process with such an id is moved up by a million, and its name
//! event contains the original id. Spans that marey recorded get the Kineto category of their kind.
//!
//! Times are in microseconds since a base that all traces of a quarter of a year share. So tools
//! that know no bases can merge the traces of several ranks. Times are written exactly, and not as
//! doubles.

mod activities;
mod header;
mod spans;

use std::io::Write;

use marey_model::trace_json::Document;
use marey_store::Reader;

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::format::Format;
use crate::shared::trace_json::activity::Survey;
use crate::shared::trace_json::{self, RunMetadata, TraceWriter, Tracks, rows};

/// A quarter of a year in seconds. Kineto rounds its base down to a multiple of a quarter.
const QUARTER_SECONDS: i64 = 7_889_238;

/// The name of the flows from launches to activities.
const LAUNCH_FLOW: &str = "ac2g";

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    trace_json::check_events(reader, Format::Kineto)?;
    let mut survey = Survey::collect(reader)?;
    let metadata = RunMetadata::read(reader, left_out)?;
    let gpu_process_id =
        metadata.main_process(reader).and_then(|main| survey.gpu_process(main, reader));
    let gpu_streams = survey.streams.iter().filter(|stream| Some(stream.0) == gpu_process_id);
    let devices = gpu_streams.map(|&(_, device, _)| device.into()).collect();
    let tracks = Tracks::new(reader, &survey, &devices, |thread| thread.os_id);
    let mut writer = TraceWriter {
        reader,
        tracks: &tracks,
        document: Document::new(out),
        base_nanos: base_nanos(trace_json::time_range_nanos(reader)),
    };
    header::write(&metadata, gpu_process_id, &mut writer, left_out)?;
    survey.retain_process(gpu_process_id);
    writer.document.begin_events();
    header::describe_processes(&metadata, &mut writer)?;
    activities::describe_streams(&survey, &mut writer)?;
    spans::write(&mut survey.launch_flows, &mut writer)?;
    activities::write(gpu_process_id, &survey.launch_flows, &mut writer, left_out)?;
    rows::write_flows(&mut writer)?;
    rows::write_instants(&mut writer)?;
    rows::write_memory_events(&mut writer, left_out)?;
    rows::write_counters(&mut writer, left_out, |row, left_out| {
        *left_out.entry("metric scopes").or_default() += u64::from(!rows::is_counter(row));
        true
    })?;
    rows::write_async_spans(&mut writer)?;
    writer.document.end_events();
    if let Some(name) = metadata.get("traceName") {
        writer.document.member("traceName", name);
    }
    trace_json::leave_out(reader, left_out)?;
    writer.document.finish()?;
    Ok(())
}

/// Returns the start of the quarter in which the run began, or 0 for a run that is longer than
/// relative times may be.
fn base_nanos((first_nanos, last_nanos): (i64, i64)) -> i64 {
    const QUARTER_NANOS: i64 = QUARTER_SECONDS * 1_000_000_000;
    let base_nanos = first_nanos.div_euclid(QUARTER_NANOS).saturating_mul(QUARTER_NANOS);
    let is_short = last_nanos.saturating_sub(base_nanos) < trace_json::MAX_RELATIVE_NANOS;
    if is_short { base_nanos } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_that_of_kineto() {
        for base_seconds in [1_711_964_646, 1_719_853_884, 1_727_743_122, 1_735_632_360] {
            let base = base_seconds * 1_000_000_000;
            let later = base + 5_000_000_000_000_000;
            assert_eq!(base_nanos((base, later)), base);
            assert_eq!(base_nanos((later, later)), base);
            assert_eq!(base_nanos((base - 1, later)), base - QUARTER_SECONDS * 1_000_000_000);
        }
        assert_eq!(base_nanos((0, 5)), 0);
        assert_eq!(base_nanos((-1, 5)), -QUARTER_SECONDS * 1_000_000_000);
        assert_eq!(base_nanos((-1, i64::MAX)), 0);
        assert_eq!(base_nanos((i64::MIN, i64::MAX)), 0);
    }
}
