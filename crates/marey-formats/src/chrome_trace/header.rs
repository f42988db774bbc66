//! The parts before and after the events: time base, metadata, names of processes and threads.

use marey_model::table::stored::{DEVICES, SESSIONS};
use marey_store::{ProcessRow, ThreadRow};

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::trace_json::{
    Object, RunMetadata, TraceWriter, Track, device_properties, object,
};

/// Version of marey's own part of the trace.
const VERSION: u64 = 1;

/// Sort indices reserved for each thread, so that its lanes are adjacent.
const SORT_INDICES_PER_THREAD: u64 = 1000;

/// Writes the members before the events.
pub(super) fn write(
    metadata: &RunMetadata,
    writer: &mut TraceWriter,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let reader = writer.reader;
    let document = &mut writer.document;
    document.member("baseTimeNanoseconds", &writer.base_nanos.to_string());
    document.member("displayTimeUnit", metadata.get("displayTimeUnit").unwrap_or("\"us\""));
    if !reader.run().parts(&DEVICES).is_empty() {
        document.member("deviceProperties", &device_properties(reader, None, left_out)?);
    }
    Ok(())
}

/// Writes the members after the events; for a run that marey recorded, its own part too.
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
        let mut marey = String::new();
        object(&mut marey, |marey| {
            marey.object("losses", |losses| {
                manifest.losses.iter().for_each(|(cause, count)| losses.value(cause, count));
            });
            marey.object("process", |object| write_process(process, object));
            let torn = manifest.spools.iter().map(|spool| spool.torn_bytes);
            marey.value("torn_bytes", torn.sum::<u64>());
            marey.value("version", VERSION);
        });
        document.member("marey", &marey);
    }
}

fn write_process(process: &ProcessRow, object: &mut Object) {
    object.text("host", &process.host);
    object.value("pid", process.pid);
    match process.rank {
        Some(rank) => object.value("rank", rank),
        None => object.value("rank", "null"),
    }
    object.value("start_unix_nanos", process.start_nanos);
}

/// Writes names and sort indices of processes, and of the first lane of each thread.
pub(super) fn describe_processes(
    metadata: &RunMetadata,
    writer: &mut TraceWriter,
) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    for process in reader.processes() {
        writer.name_process(process, process.name.as_deref().unwrap_or(&title(process)))?;
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
    let mut name = thread.name.clone();
    if name.is_empty() {
        name = format!("CPU Thread {}", thread.id);
    }
    if lane > 0 {
        name = format!("{name} ({})", lane + 1);
    }
    writer.describe("thread_name", track, |args| {
        args.text("name", &name);
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
        writer.reader.process(thread.process_id).is_some_and(|lane| lane.pid == thread.os_id);
    let lanes_from = if is_main { 0 } else { u64::from(thread.id) + 1 };
    let sort_index = lanes_from * SORT_INDICES_PER_THREAD + lane.min(SORT_INDICES_PER_THREAD - 1);
    writer.describe("thread_sort_index", track, |args| args.value("sort_index", sort_index))?;
    Ok(())
}

/// Returns the title of a process without a name: `TraceWriter (rank 3, host)`.
fn title(process: &ProcessRow) -> String {
    let rank = process.rank.map(|rank| format!("rank {rank}"));
    let host = (!process.host.is_empty()).then(|| process.host.clone());
    let parts: Vec<String> = rank.into_iter().chain(host).collect();
    if parts.is_empty() { "Trace".to_owned() } else { format!("Trace ({})", parts.join(", ")) }
}
