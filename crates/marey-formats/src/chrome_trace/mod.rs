//! Proton's Chrome trace, as marey's recorder writes it for a session of its own.
//!
//! A scope is a complete event with its call stack, on a lane of its thread, and so is what a device
//! did, on a lane of its stream. Events of one lane nest: where those of a thread or a stream overlap
//! without nesting, it gets more lanes. Values of metrics stand with the scope that they were added
//! in, all added up.

mod activities;
mod head;
mod lanes;
mod metrics;
mod scopes;
mod thread;

use std::collections::HashSet;
use std::io::Write;

use marey_store::Reader;

use crate::Format;
use crate::export::{ExportError, LeftOut};
use crate::trace_json::activity::Survey;
use crate::trace_json::{self, About, Document, Places, Trace, rows};

/// Name of the arrows from launches.
const LAUNCH: &str = "launch->kernel";

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    trace_json::check_events(reader, Format::ChromeTrace)?;
    let mut survey = Survey::of(reader)?;
    let places = Places::new(reader, &survey, &HashSet::new(), |thread| thread.id.into());
    let mut trace = Trace {
        reader,
        places: &places,
        document: Document::new(out),
        base_nanos: base_nanos(reader),
    };
    let about = About::of(reader, left_out)?;
    head::write(&about, &mut trace, left_out)?;
    trace.document.begin_events();
    head::describe_processes(&about, &mut trace)?;
    scopes::write(&mut survey.arrows, &mut trace)?;
    activities::write(&mut survey.arrows, &mut trace)?;
    rows::write_flows(&mut trace)?;
    rows::write_instants(&mut trace)?;
    rows::write_memory_events(&mut trace, left_out)?;
    rows::write_counters(&mut trace, left_out, |row, _| rows::is_counter(row))?;
    rows::write_async_spans(&mut trace)?;
    trace.document.end_events();
    head::write_tail(&about, &mut trace);
    trace_json::leave_out_tables(reader, left_out)?;
    trace.document.finish()?;
    Ok(())
}

/// When recording began. A run that is longer than times can be counted from there, for who must tell
/// them from times since 1970, is counted from 1970.
fn base_nanos(reader: &Reader) -> i64 {
    let (first_nanos, last_nanos) = trace_json::extent_nanos(reader);
    let is_short = last_nanos.saturating_sub(first_nanos) < trace_json::MOST_NANOS;
    if is_short { first_nanos } else { 0 }
}
