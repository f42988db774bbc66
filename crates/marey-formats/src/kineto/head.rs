//! What stands beside the events: ranks, devices, what the run says of itself, and names.

use std::borrow::Cow;

use marey_store::{ProcessRow, Reader};

use crate::export::{ExportError, LeftOut};
use crate::trace_json::{About, Trace, device_properties, other_ranks, quoted};

/// Writes what stands before the events.
pub(super) fn write(
    about: &About,
    user: Option<u32>,
    trace: &mut Trace,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let reader = trace.reader;
    let (base_nanos, document) = (trace.base_nanos, &mut trace.document);
    document.member("schemaVersion", about.get("schemaVersion").unwrap_or("1"));
    if let Some(info) = distributed_info(about, user, reader) {
        document.member("distributedInfo", &info);
    }
    document.member("deviceProperties", &device_properties(reader, user, left_out)?);
    if about.get("host_name").is_none()
        && let Some(process) = about.host(reader).filter(|process| !process.host.is_empty())
    {
        document.member("host_name", &quoted(&process.host));
    }
    about.write_rest(&["distributedInfo"], document);
    document.member("displayTimeUnit", about.get("displayTimeUnit").unwrap_or("\"ms\""));
    document.member("baseTimeNanoseconds", &base_nanos.to_string());
    Ok(())
}

/// Says what processes and threads are called.
pub(super) fn describe_processes(about: &About, trace: &mut Trace) -> Result<(), ExportError> {
    let (reader, places) = (trace.reader, trace.places);
    let has_others = other_ranks(reader) > 0;
    for process in reader.processes() {
        let name = process_name(process);
        let is_of_several = has_others && process.rank.is_some();
        if name.is_some() || is_of_several || places.process(process.id).pid != process.pid {
            trace.name_process(process, &name.unwrap_or_default())?;
        }
    }
    for thread in reader.threads().filter(|thread| !thread.name.is_empty()) {
        let place = places.thread(thread.id);
        trace.describe("thread_name", place, |args| args.text("name", &thread.name))?;
    }
    about.write_labels(trace)
}

/// The rank and what else is known of the job. Analysers find the rank by a line with `"rank": `, the
/// space included.
fn distributed_info<'a>(
    about: &'a About,
    user: Option<u32>,
    reader: &Reader,
) -> Option<Cow<'a, str>> {
    let user = user.and_then(|user| reader.process(user));
    let rank = user.and_then(|user| user.rank).or_else(|| about.host(reader)?.rank);
    let rank = rank.or_else(|| reader.processes().find_map(|process| process.rank));
    match about.get("distributedInfo") {
        Some(info) if info.contains("\"rank\": ") => Some(info.into()),
        Some(info) if info.contains("\"rank\":") => {
            Some(info.replace("\"rank\":", "\"rank\": ").into())
        }
        _ => Some(format!("{{\"rank\": {}}}", rank?).into()),
    }
}

/// The name that a process has, or that of its program.
pub(super) fn process_name(process: &ProcessRow) -> Option<Cow<'_, str>> {
    if let Some(name) = &process.name {
        return Some(name.into());
    }
    let argv: Vec<String> = serde_json::from_str(&process.argv).unwrap_or_default();
    let program = argv.into_iter().next()?;
    Some(program.rsplit('/').next().unwrap_or_default().to_owned().into())
}
