//! What devices did: processes are devices, and threads streams.

use marey_store::row::{ActivityKind, GpuActivity};

use super::head::process_name;
use crate::export::{ExportError, LeftOut};
use crate::trace_json::activity::{
    Arrows, Survey, arrow, category, stream_number, write_columns, write_stream,
};
use crate::trace_json::{Event, Place, Trace};

/// Where Kineto sorts the first device: behind all processes.
const FIRST_DEVICE_SORT_INDEX: u64 = 5_000_000;

/// Says which devices and streams there are.
pub(super) fn describe_streams(survey: &Survey, trace: &mut Trace) -> Result<(), ExportError> {
    let mut last_device = None;
    for &(process, device, stream) in &survey.streams {
        let place = place(device, stream);
        if last_device.replace((process, device)) != Some((process, device)) {
            let name = trace.reader.process(process).and_then(process_name).unwrap_or_default();
            trace.describe("process_name", place, |args| args.text("name", &name))?;
            let labels = format!("GPU {device}");
            trace.describe("process_labels", place, |args| args.text("labels", &labels))?;
            let sort_index = FIRST_DEVICE_SORT_INDEX + u64::from(device);
            trace.describe("process_sort_index", place, |args| {
                args.value("sort_index", sort_index);
            })?;
        }
        let stream = stream_number(stream);
        let name = format!("stream {stream} ");
        trace.describe("thread_name", place, |args| args.text("name", &name))?;
        trace.describe("thread_sort_index", place, |args| args.value("sort_index", stream))?;
    }
    Ok(())
}

/// Writes what one process did on devices, and the ends of the arrows to it: the file does not say
/// whose launch an activity is, so that what others did would be taken for this one's.
pub(super) fn write(
    user: Option<u32>,
    arrows: &Arrows,
    trace: &mut Trace,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let (reader, places) = (trace.reader, trace.places);
    let mut args = String::new();
    for row in reader.rows::<GpuActivity>()? {
        let row = row?;
        if Some(row.process_id) != user {
            *left_out.entry("activities of devices of other processes").or_default() += 1;
            continue;
        }
        args.clear();
        reader.args(&row.args, &mut args);
        let place = place(row.device, row.stream);
        let event = Event {
            phase: "X",
            category: Some(category(&row, reader)),
            name: reader.text(row.name_id),
            place,
            time_nanos: row.start_nanos,
            duration_nanos: Some(row.duration_nanos),
        };
        trace.add(&event, |event| {
            event.object_with("args", &args, |event| {
                // An annotation is no work of its stream, as which analysers would count it.
                if row.kind != ActivityKind::Annotation {
                    write_stream(&row, event);
                }
                write_columns(&row, places, event);
            });
        })?;
        if let Some(correlation) = row.correlation_id
            && arrows.ends(row.process_id, correlation)
        {
            let end = arrow("f", super::LAUNCH, place, row.start_nanos);
            let id = trace.places.arrow_id(row.process_id, correlation);
            trace.add(&end, |event| {
                event.value("id", id);
                event.text("bp", "e");
            })?;
        }
    }
    Ok(())
}

fn place(device: u32, stream: u32) -> Place {
    Place { pid: device.into(), tid: Some(stream_number(stream)) }
}
