//! Writes a run as an event file of `TensorBoard`: scalars by training step, and the flame graph as
//! a picture.
//!
//! A file is a sequence of records ([`record`]) with a message each ([`event`]). The tags of the
//! scalars begin with the process, such as `rank 0/`, if there are several processes:
//!
//! | tag | value |
//! |---|---|
//! | `step/time_ms` | duration of a step |
//! | `gpu<n>/busy_percent` | share of the step in which the device was busy |
//! | `scope/<name>_ms` | time of the step in spans of this name, for the names with the most time |
//! | `metric/<name>` | a value of a metric, at the step in which it was added |
//!
//! In a process without steps, the values of each metric are numbered instead.

mod event;
mod flame;
mod message;
mod metrics;
mod record;
mod steps;

use std::io::Write;

use marey_model::table::Table;
use marey_model::table::stored::{GPU_ACTIVITIES, METRICS, SAMPLES, SPANS, STEPS};
use marey_store::Reader;

use self::event::Events;
use self::steps::Steps;
use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::format::Format;

/// The tables that the format can hold.
const WRITTEN_TABLES: [&Table; 5] = [&SPANS, &GPU_ACTIVITIES, &SAMPLES, &STEPS, &METRICS];

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    leave_out_tables_except(&WRITTEN_TABLES, reader, left_out)?;
    let steps = Steps::read(reader)?;
    let flame = flame::draw(reader, left_out)?;
    let start_nanos = reader.processes().map(|process| process.start_nanos).min().unwrap_or(0);
    let mut events = Events::begin(out, start_nanos)?;
    steps::write(reader, &steps, &mut events, left_out)?;
    metrics::write(reader, &steps, &mut events, left_out)?;
    if let Some(picture) = flame {
        events.write_image("marey/flame", start_nanos, picture)?;
    }
    if events.is_empty() {
        let missing = "no steps, metrics, spans, device activities or samples";
        return Err(ExportError::NoData { format: Format::TensorBoard, missing });
    }
    Ok(())
}

/// Returns a tag, with the process as a prefix if there are several.
fn tag(reader: &Reader, process: u32, tag: &str) -> String {
    let mut processes = reader.processes();
    let (Some(_), Some(_)) = (processes.next(), processes.next()) else { return tag.to_owned() };
    let process = reader.process(process);
    match process.and_then(|process| process.rank) {
        Some(rank) => format!("rank {rank}/{tag}"),
        None => format!("process {}/{tag}", process.map_or(0, |process| process.pid)),
    }
}
