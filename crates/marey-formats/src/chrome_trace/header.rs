//! Writes the parts before and after the events: time base, metadata, names of processes and
//! threads.

use marey_model::proton_trace::{
    ProcessPart, lane_sort_index, lane_title, process_title, write_marey_part,
};
use marey_model::table::stored::{DEVICES, SESSIONS};
use marey_store::ThreadRow;

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::trace_json::{RunMetadata, TraceWriter, Track, device_properties};

/// Writes the members before the events.
pub(super) fn write(
    metadata: &RunMetadata,
    writer: &mut TraceWriter,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let reader = writer.reader;
    let document = &mut writer.document;
    document.member("baseTimeNanoseconds", writer.base_nanos.to_string());
    document.member("displayTimeUnit", metadata.get("displayTimeUnit").unwrap_or("\"us\""));
    if !reader.run().parts(&DEVICES).is_empty() {
        document.member("deviceProperties", device_properties(reader, None, left_out)?);
    }
    Ok(())
}

/// Writes the members after the events. For a run that marey recorded, also writes its own part.
pub(super) fn write_tail(metadata: &RunMetadata, writer: &mut TraceWriter) {
    let (reader, document) = (writer.reader, &mut writer.document);
    metadata.write_entries(&[], document);
    for key in ["schemaVersion", "traceName"] {
        if let Some(value) = metadata.get(key) {
            document.member(key, value);
        }
    }
    if let (None, Some(process)) = (metadata.get("marey"), metadata.main_process(reader))
        && !reader.run().parts(&SESSIONS).is_empty()
    {
        let manifest = reader.run().manifest();
        let losses = manifest.losses.iter().map(|(cause, count)| (cause.as_str(), *count));
        let part = ProcessPart {
            host: &process.host,
            pid: process.pid,
            rank: process.rank,
            start_unix_nanos: process.start_nanos,
        };
        let torn = manifest.spools.iter().map(|spool| spool.torn_bytes);
        document.object("marey", |marey| write_marey_part(losses, &part, torn.sum(), marey));
    }
}

/// Writes names and sort indices of processes, and of the first lane of each thread.
pub(super) fn describe_processes(
    metadata: &RunMetadata,
    writer: &mut TraceWriter,
) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    for process in reader.processes() {
        writer.name_process(
            process,
            process.name.as_deref().unwrap_or(&process_title(process.rank, &process.host)),
        )?;
        if let Some(rank) = process.rank
            && !metadata.has_sort_index(process.id, None)
        {
            let track = tracks.process(process.id);
            writer.describe("process_sort_index", track, |args| args.value("sort_index", rank))?;
        }
    }
    for thread in reader.threads() {
        let track = tracks.thread(thread.id);
        name_lane(writer, thread, track, 0)?;
        if !metadata.has_sort_index(thread.process_id, Some(thread.id)) {
            sort_lane(writer, thread, track, 0)?;
        }
    }
    metadata.write_labels(writer)
}

/// Names the additional lane number `lane` of a thread.
pub(super) fn add_lane(
    writer: &mut TraceWriter,
    thread: u32,
    track: Track,
    lane: u64,
) -> Result<(), ExportError> {
    let Some(thread) = writer.reader.thread(thread) else { return Ok(()) };
    name_lane(writer, thread, track, lane)?;
    sort_lane(writer, thread, track, lane)
}

fn name_lane(
    writer: &mut TraceWriter,
    thread: &ThreadRow,
    track: Track,
    lane: u64,
) -> Result<(), ExportError> {
    let title = lane_title(&thread.name, thread.id, lane);
    writer.describe("thread_name", track, |args| {
        args.text("name", &title);
        args.value("os_id", thread.os_id);
    })?;
    Ok(())
}

fn sort_lane(
    writer: &mut TraceWriter,
    thread: &ThreadRow,
    track: Track,
    lane: u64,
) -> Result<(), ExportError> {
    // The main thread, whose id equals the process id, sorts first.
    let is_main =
        writer.reader.process(thread.process_id).is_some_and(|process| process.pid == thread.os_id);
    let sort_index = lane_sort_index(thread.id, is_main, lane);
    writer.describe("thread_sort_index", track, |args| args.value("sort_index", sort_index))?;
    Ok(())
}
