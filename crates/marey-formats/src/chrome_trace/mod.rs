//! Writes a run as a Chrome trace in Proton's form, which marey's recorder also writes for its
//! sessions.
//!
//! A scope is a complete event with its call stack on a lane of its thread. A device activity is a
//! complete event on a lane of its stream. Events of a lane nest. A thread or stream with events
//! that overlap without nesting gets further lanes. Metric values are summed up in the event of the
//! scope that they were added in.

mod activities;
mod header;
mod lanes;
mod scopes;
mod thread;

use std::collections::HashSet;
use std::io::Write;

use marey_model::trace_json::Document;
use marey_store::Reader;

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::format::Format;
use crate::shared::trace_json::activity::Survey;
use crate::shared::trace_json::{self, RunMetadata, TraceWriter, Tracks, rows};

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    trace_json::check_events(reader, Format::ChromeTrace)?;
    let mut survey = Survey::collect(reader)?;
    let tracks = Tracks::new(reader, &survey, &HashSet::new(), |thread| thread.id.into());
    let mut writer = TraceWriter {
        reader,
        tracks: &tracks,
        document: Document::new(out),
        base_nanos: base_nanos(reader),
    };
    let metadata = RunMetadata::read(reader, left_out)?;
    header::write(&metadata, &mut writer, left_out)?;
    writer.document.begin_events();
    header::describe_processes(&metadata, &mut writer)?;
    scopes::write(&mut survey.launch_flows, &mut writer)?;
    activities::write(&mut survey.launch_flows, &mut writer)?;
    rows::write_flows(&mut writer)?;
    rows::write_instants(&mut writer)?;
    rows::write_memory_events(&mut writer, left_out)?;
    rows::write_counters(&mut writer, left_out, |row, _| rows::is_counter(row))?;
    rows::write_async_spans(&mut writer)?;
    writer.document.end_events();
    header::write_tail(&metadata, &mut writer);
    trace_json::leave_out(reader, left_out)?;
    writer.document.finish()?;
    Ok(())
}

/// Returns the start of the recording as the base of times, or 0 for a run that is longer than
/// relative times may be.
fn base_nanos(reader: &Reader) -> i64 {
    let (first_nanos, last_nanos) = trace_json::time_range_nanos(reader);
    let is_short = last_nanos.saturating_sub(first_nanos) < trace_json::MAX_RELATIVE_NANOS;
    if is_short { first_nanos } else { 0 }
}
