//! What stands beside the events: the base of times, what the run says of itself, and names.

use marey_model::table::stored::{DEVICES, SESSIONS};
use marey_store::{ProcessRow, ThreadRow};

use crate::export::{ExportError, LeftOut};
use crate::trace_json::{About, Object, Place, Trace, device_properties, object};

/// Version of marey's own part of the trace.
const VERSION: u64 = 1;

/// Lanes of one thread stand together: this many sort indices are its own.
const LANES_A_THREAD: u64 = 1000;

/// Writes what stands before the events.
pub(super) fn write(
    about: &About,
    trace: &mut Trace,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let reader = trace.reader;
    let document = &mut trace.document;
    document.member("baseTimeNanoseconds", &trace.base_nanos.to_string());
    document.member("displayTimeUnit", about.get("displayTimeUnit").unwrap_or("\"us\""));
    if !reader.run().parts(&DEVICES).is_empty() {
        document.member("deviceProperties", &device_properties(reader, None, left_out)?);
    }
    Ok(())
}

/// Writes what stands behind the events, marey's own part of a run that it recorded included.
pub(super) fn write_tail(about: &About, trace: &mut Trace) {
    let (reader, document) = (trace.reader, &mut trace.document);
    about.write_rest(&[], document);
    for key in ["schemaVersion", "traceName"] {
        if let Some(value) = about.get(key) {
            document.member(key, value);
        }
    }
    if let (None, Some(process)) = (about.get("marey"), about.host(reader))
        && !reader.run().parts(&SESSIONS).is_empty()
    {
        let manifest = reader.run().manifest();
        let mut own = String::new();
        object(&mut own, |own| {
            own.object("losses", |losses| {
                manifest.losses.iter().for_each(|(cause, count)| losses.value(cause, count));
            });
            own.object("process", |about| write_process(process, about));
            let torn = manifest.spools.iter().map(|spool| spool.torn_bytes);
            own.value("torn_bytes", torn.sum::<u64>());
            own.value("version", VERSION);
        });
        document.member("marey", &own);
    }
}

fn write_process(process: &ProcessRow, about: &mut Object) {
    about.text("host", &process.host);
    about.value("pid", process.pid);
    match process.rank {
        Some(rank) => about.value("rank", rank),
        None => about.value("rank", "null"),
    }
    about.value("start_unix_nanos", process.start_nanos);
}

/// Says what processes and the first lanes of threads are called, and where they stand.
pub(super) fn describe_processes(about: &About, trace: &mut Trace) -> Result<(), ExportError> {
    let (reader, places) = (trace.reader, trace.places);
    for process in reader.processes() {
        trace.name_process(process, process.name.as_deref().unwrap_or(&title(process)))?;
        if let Some(rank) = process.rank
            && !about.is_sorted(process.id, None)
        {
            let place = places.process(process.id);
            trace.describe("process_sort_index", place, |args| args.value("sort_index", rank))?;
        }
    }
    for thread in reader.threads() {
        let place = places.thread(thread.id);
        name_lane(trace, thread, place, 0)?;
        if !about.is_sorted(thread.process_id, Some(thread.id)) {
            sort_lane(trace, thread, place, 0)?;
        }
    }
    about.write_labels(trace)
}

/// Names one more lane of a thread, its `at`-th.
pub(super) fn add_lane(
    trace: &mut Trace,
    thread: u32,
    place: Place,
    at: u64,
) -> Result<(), ExportError> {
    let Some(thread) = trace.reader.thread(thread) else { return Ok(()) };
    name_lane(trace, thread, place, at)?;
    sort_lane(trace, thread, place, at)
}

fn name_lane(
    trace: &mut Trace,
    thread: &ThreadRow,
    place: Place,
    at: u64,
) -> Result<(), ExportError> {
    let mut name = thread.name.clone();
    if name.is_empty() {
        name = format!("CPU Thread {}", thread.id);
    }
    if at > 0 {
        name = format!("{name} ({})", at + 1);
    }
    trace.describe("thread_name", place, |args| {
        args.text("name", &name);
        args.value("os_id", thread.os_id);
    })?;
    Ok(())
}

fn sort_lane(
    trace: &mut Trace,
    thread: &ThreadRow,
    place: Place,
    at: u64,
) -> Result<(), ExportError> {
    // The main thread has the number of its process in the system, and stands first.
    let is_main = trace.reader.process(thread.process_id).is_some_and(|at| at.pid == thread.os_id);
    let lanes_from = if is_main { 0 } else { u64::from(thread.id) + 1 };
    let sort_index = lanes_from * LANES_A_THREAD + at.min(LANES_A_THREAD - 1);
    trace.describe("thread_sort_index", place, |args| args.value("sort_index", sort_index))?;
    Ok(())
}

/// What a process is called that has no name: `Trace (rank 3, host)`.
fn title(process: &ProcessRow) -> String {
    let rank = process.rank.map(|rank| format!("rank {rank}"));
    let host = (!process.host.is_empty()).then(|| process.host.clone());
    let about: Vec<String> = rank.into_iter().chain(host).collect();
    if about.is_empty() { "Trace".to_owned() } else { format!("Trace ({})", about.join(", ")) }
}
