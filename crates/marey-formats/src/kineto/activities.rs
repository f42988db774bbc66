//! Writes device activities. Devices are processes of the file, and streams are their threads.

use marey_store::row::{ActivityKind, GpuActivity};

use super::header::process_name;
use crate::shared::export::{ExportError, LeftOut};
use crate::shared::trace_json::activity::{
    LaunchFlows, Survey, category, stream_number, write_columns, write_stream,
};
use crate::shared::trace_json::{Event, TraceWriter, Track, write_args};

/// The sort index of the first device in Kineto. It comes after all processes.
const FIRST_DEVICE_SORT_INDEX: u64 = 5_000_000;

/// Names the devices and streams.
pub(super) fn describe_streams(
    survey: &Survey,
    writer: &mut TraceWriter,
) -> Result<(), ExportError> {
    let mut last_device = None;
    for &(process_id, device, stream) in &survey.streams {
        let track = track(device, stream);
        if last_device.replace((process_id, device)) != Some((process_id, device)) {
            let name = writer.reader.process(process_id).and_then(process_name).unwrap_or_default();
            writer.describe("process_name", track, |args| args.text("name", &name))?;
            let labels = format!("GPU {device}");
            writer.describe("process_labels", track, |args| args.text("labels", &labels))?;
            let sort_index = FIRST_DEVICE_SORT_INDEX + u64::from(device);
            writer.describe("process_sort_index", track, |args| {
                args.value("sort_index", sort_index);
            })?;
        }
        let stream = stream_number(stream);
        let name = format!("stream {stream} ");
        writer.describe("thread_name", track, |args| args.text("name", &name))?;
        writer.describe("thread_sort_index", track, |args| args.value("sort_index", stream))?;
    }
    Ok(())
}

/// Writes the device activities of one process, and the ends of their flows. The file does not
/// state which process has launched an activity, so readers would take those of other processes for
/// those of this one.
pub(super) fn write(
    gpu_process_id: Option<u32>,
    launch_flows: &LaunchFlows,
    writer: &mut TraceWriter,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    let mut args = String::new();
    for row in reader.rows::<GpuActivity>()? {
        let row = row?;
        if Some(row.process_id) != gpu_process_id {
            *left_out.entry("device activities of other processes").or_default() += 1;
            continue;
        }
        args.clear();
        reader.args(&row.args, &mut args);
        let track = track(row.device, row.stream);
        let event = Event {
            phase: "X",
            category: Some(category(&row, reader)),
            name: reader.text(row.name_id),
            track,
            time_nanos: row.start_nanos,
            duration_nanos: Some(row.duration_nanos),
        };
        writer.add(&event, |event| {
            write_args(event, &args, |event| {
                // An annotation is no work on its stream. Analysers would count it as work if it
                // had a stream.
                if row.kind != ActivityKind::Annotation {
                    write_stream(&row, event);
                }
                write_columns(&row, tracks, event);
            });
        })?;
        if let Some(correlation) = row.correlation_id
            && launch_flows.is_started(row.process_id, correlation)
        {
            writer.end_launch_flow(&row, correlation, track, super::LAUNCH_FLOW)?;
        }
    }
    Ok(())
}

fn track(device: u32, stream: u32) -> Track {
    Track { pid: device.into(), tid: Some(stream_number(stream)) }
}
