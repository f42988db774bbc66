//! What devices did: on lanes of their streams.

use std::collections::HashMap;

use marey_store::row::GpuActivity;

use super::LAUNCH;
use super::lanes::{Lanes, free_lane};
use super::scopes::write_call_stack;
use crate::export::ExportError;
use crate::trace_json::activity::{
    Arrows, arrow, category, stream_number, write_columns, write_stream,
};
use crate::trace_json::{Event, Place, Trace};

/// Lanes of streams have numbers from here.
const STREAM_LANES: i64 = 200_000;

/// Streams stand behind all threads.
const STREAMS_SORT_INDEX: i64 = 1_000_000_000;

/// A stream of the trace.
#[derive(Debug, Default)]
struct Stream {
    lanes: Lanes,
    /// The trace's numbers of its lanes.
    lane_numbers: Vec<i64>,
}

/// Writes all activities, and the ends of the arrows to them: of a launch's arrow one.
pub(super) fn write(arrows: &mut Arrows, trace: &mut Trace) -> Result<(), ExportError> {
    let (reader, places) = (trace.reader, trace.places);
    let mut streams: HashMap<(u32, u32, u32), Stream> = HashMap::new();
    let mut free_lane = free_lane(STREAM_LANES, reader);
    let mut args = String::new();
    for row in reader.rows::<GpuActivity>()? {
        let row = row?;
        args.clear();
        reader.args(&row.args, &mut args);
        let stream = streams.entry((row.process_id, row.device, row.stream)).or_default();
        let end_nanos = row.start_nanos.saturating_add(row.duration_nanos);
        let lane = stream.lanes.place(row.start_nanos, end_nanos);
        let process = places.process(row.process_id);
        if lane == stream.lane_numbers.len() {
            stream.lane_numbers.push(free_lane);
            name_lane(trace, &row, Place { tid: Some(free_lane), ..process }, lane)?;
            free_lane += 1;
        }
        let place = Place { tid: stream.lane_numbers.get(lane).copied(), ..process };
        let name = reader.text(row.name_id);
        let event = Event {
            phase: "X",
            category: Some(category(&row, reader)),
            name,
            place,
            time_nanos: row.start_nanos,
            duration_nanos: Some(row.duration_nanos),
        };
        trace.add(&event, |event| {
            event.object_with("args", &args, |event| {
                if let Some(context) = row.context_id {
                    write_call_stack(reader, context, Some(name), event);
                }
                write_stream(&row, event);
                write_columns(&row, places, event);
            });
        })?;
        if let Some(correlation) = row.correlation_id
            && arrows.end(row.process_id, correlation)
        {
            let id = places.arrow_id(row.process_id, correlation);
            trace.add(&arrow("f", LAUNCH, place, row.start_nanos), |event| {
                event.value("id", id);
                event.text("bp", "e");
            })?;
        }
    }
    Ok(())
}

fn name_lane(
    trace: &mut Trace,
    row: &GpuActivity,
    place: Place,
    at: usize,
) -> Result<(), ExportError> {
    let mut name = format!("GPU {} Stream {}", row.device, stream_number(row.stream));
    if at > 0 {
        name = format!("{name} ({})", at + 1);
    }
    trace.describe("thread_name", place, |args| args.text("name", &name))?;
    let sort_index = place.tid.unwrap_or_default().saturating_add(STREAMS_SORT_INDEX);
    trace.describe("thread_sort_index", place, |args| args.value("sort_index", sort_index))?;
    Ok(())
}
