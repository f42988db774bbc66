//! Writes device activities as events on the lanes of their streams.

use std::collections::HashMap;

use marey_model::proton_trace::{FIRST_STREAM_TID, LAUNCH_FLOW};
use marey_store::row::GpuActivity;

use super::lanes::{ThreadLanes, free_tid};
use super::scopes::write_call_stack;
use crate::shared::export::ExportError;
use crate::shared::trace_json::activity::{
    LaunchFlows, category, stream_number, write_columns, write_stream,
};
use crate::shared::trace_json::{Event, TraceWriter, Track, write_args};

/// The offset of the sort indices of streams, so that streams come after all threads.
const STREAMS_SORT_INDEX: i64 = 1_000_000_000;

/// A stream of the trace.
#[derive(Debug, Default)]
struct StreamLanes {
    lanes: ThreadLanes,
    /// Thread ids of its lanes.
    lane_tids: Vec<i64>,
}

/// Writes all activities and the ends of their flows, one for each launch.
pub(super) fn write(
    launch_flows: &mut LaunchFlows,
    writer: &mut TraceWriter,
) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    let mut streams: HashMap<(u32, u32, u32), StreamLanes> = HashMap::new();
    let mut free_tid = free_tid(FIRST_STREAM_TID.into(), reader);
    let mut args = String::new();
    for row in reader.rows::<GpuActivity>()? {
        let row = row?;
        args.clear();
        reader.args(&row.args, &mut args);
        let stream = streams.entry((row.process_id, row.device, row.stream)).or_default();
        let end_nanos = row.start_nanos.saturating_add(row.duration_nanos);
        let lane = stream.lanes.assign(row.start_nanos, end_nanos);
        let process = tracks.process(row.process_id);
        if lane == stream.lane_tids.len() {
            stream.lane_tids.push(free_tid);
            name_lane(writer, &row, Track { tid: Some(free_tid), ..process }, lane)?;
            free_tid += 1;
        }
        let track = Track { tid: stream.lane_tids.get(lane).copied(), ..process };
        let name = reader.text(row.name_id);
        let event = Event {
            phase: "X",
            category: Some(category(&row, reader)),
            name,
            track,
            time_nanos: row.start_nanos,
            duration_nanos: Some(row.duration_nanos),
        };
        writer.add(&event, |event| {
            write_args(event, &args, |event| {
                if let Some(context) = row.context_id {
                    write_call_stack(reader, context, Some(name), event);
                }
                write_stream(&row, event);
                write_columns(&row, tracks, event);
            });
        })?;
        if let Some(correlation) = row.correlation_id
            && launch_flows.try_end(row.process_id, correlation)
        {
            writer.end_launch_flow(&row, correlation, track, LAUNCH_FLOW)?;
        }
    }
    Ok(())
}

fn name_lane(
    writer: &mut TraceWriter,
    row: &GpuActivity,
    track: Track,
    lane: usize,
) -> Result<(), ExportError> {
    let mut name = format!("GPU {} Stream {}", row.device, stream_number(row.stream));
    if lane > 0 {
        name = format!("{name} ({})", lane + 1);
    }
    writer.describe("thread_name", track, |args| args.text("name", &name))?;
    let sort_index = track.tid.unwrap_or_default().saturating_add(STREAMS_SORT_INDEX);
    writer.describe("thread_sort_index", track, |args| args.value("sort_index", sort_index))?;
    Ok(())
}
