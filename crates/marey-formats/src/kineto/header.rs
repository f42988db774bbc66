//! Writes the members before the events: rank, devices, metadata, names of processes and threads.

use std::borrow::Cow;

use marey_model::json::quoted;
use marey_store::{ProcessRow, Reader};

use crate::shared::export::{ExportError, LeftOut};
use crate::shared::trace_json::{RunMetadata, TraceWriter, device_properties, other_ranks};

/// Writes the members before the events.
pub(super) fn write(
    metadata: &RunMetadata,
    gpu_process_id: Option<u32>,
    writer: &mut TraceWriter,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let reader = writer.reader;
    let (base_nanos, document) = (writer.base_nanos, &mut writer.document);
    document.member("schemaVersion", metadata.get("schemaVersion").unwrap_or("1"));
    if let Some(info) = distributed_info(metadata, gpu_process_id, reader) {
        document.member("distributedInfo", &*info);
    }
    document.member("deviceProperties", device_properties(reader, gpu_process_id, left_out)?);
    if metadata.get("host_name").is_none()
        && let Some(process) =
            metadata.main_process(reader).filter(|process| !process.host.is_empty())
    {
        document.member("host_name", quoted(&process.host));
    }
    metadata.write_entries(&["distributedInfo"], document);
    document.member("displayTimeUnit", metadata.get("displayTimeUnit").unwrap_or("\"ms\""));
    document.member("baseTimeNanoseconds", base_nanos.to_string());
    Ok(())
}

/// Names processes and threads.
pub(super) fn describe_processes(
    metadata: &RunMetadata,
    writer: &mut TraceWriter,
) -> Result<(), ExportError> {
    let (reader, tracks) = (writer.reader, writer.tracks);
    let has_other_ranks = other_ranks(reader) > 0;
    for process in reader.processes() {
        let name = process_name(process);
        let needs_rank = has_other_ranks && process.rank.is_some();
        if name.is_some() || needs_rank || tracks.process(process.id).pid != process.pid {
            writer.name_process(process, &name.unwrap_or_default())?;
        }
    }
    for thread in reader.threads().filter(|thread| !thread.name.is_empty()) {
        let track = tracks.thread(thread.id);
        writer.describe("thread_name", track, |args| args.text("name", &thread.name))?;
    }
    metadata.write_labels(writer)
}

/// Returns the member `distributedInfo` with the rank. Analysers search for a line with `"rank": `,
/// including the space.
fn distributed_info<'a>(
    metadata: &'a RunMetadata,
    gpu_process: Option<u32>,
    reader: &Reader,
) -> Option<Cow<'a, str>> {
    let gpu_process = gpu_process.and_then(|gpu_process| reader.process(gpu_process));
    let rank = gpu_process
        .and_then(|gpu_process| gpu_process.rank)
        .or_else(|| metadata.main_process(reader)?.rank);
    let rank = rank.or_else(|| reader.processes().find_map(|process| process.rank));
    match metadata.get("distributedInfo") {
        Some(info) if info.contains("\"rank\": ") => Some(info.into()),
        Some(info) if info.contains("\"rank\":") => {
            Some(info.replace("\"rank\":", "\"rank\": ").into())
        }
        _ => Some(format!("{{\"rank\": {}}}", rank?).into()),
    }
}

/// Returns the name of a process, or else of its program.
pub(super) fn process_name(process: &ProcessRow) -> Option<Cow<'_, str>> {
    if let Some(name) = &process.name {
        return Some(name.into());
    }
    let argv: Vec<String> = serde_json::from_str(&process.argv).unwrap_or_default();
    let program = argv.into_iter().next()?;
    Some(program.rsplit('/').next().unwrap_or_default().to_owned().into())
}
