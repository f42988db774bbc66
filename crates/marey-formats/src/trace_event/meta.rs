//! Collects the metadata of a trace: the names and ranks of processes and threads, devices, and the
//! keys next to the list of events.
//!
//! Metadata may precede or follow the events, so it is applied at the end.

use std::sync::Arc;

use marey_model::loss::LossCause;
use marey_store::ProcessGroup;
use marey_store::row::{Device, Metadata};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::Event;
use super::number::parse_integer;
use super::threads::{FileId, Threads};
use crate::shared::group_ranks::GroupRanks;
use crate::shared::import::{Import, ReaderError};

/// The sort indices that Kineto gives to devices among processes.
const DEVICE_SORT_INDICES: std::ops::Range<i64> = 5_000_000..5_001_000;

/// The metadata found so far.
#[derive(Debug, Default)]
pub(super) struct TraceMetadata {
    labels: Vec<Label>,
    /// The keys next to the list of events, with their values as JSON.
    entries: Vec<(String, String)>,
    /// The base of the times, in nanoseconds since 1970.
    base_nanos: i64,
}

/// A metadata event of a process or thread.
#[derive(Debug)]
struct Label {
    ids: (FileId, FileId),
    key: String,
    /// The arguments as JSON.
    value: String,
    /// The argument `name`.
    name: Option<String>,
    /// The id in the operating system, if the file uses another one.
    os_id: Option<i64>,
    /// The rank of the process, if the file has several ranks.
    rank: Option<u32>,
    /// Whether it belongs to a device that is listed among the processes.
    is_device: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DistributedInfo<'a> {
    rank: Option<u32>,
    #[serde(borrow)]
    pg_config: Option<&'a RawValue>,
}

/// A process group in `distributedInfo`.
#[derive(Deserialize)]
struct GroupInfo {
    pg_name: String,
    pg_size: Option<u32>,
    #[serde(default)]
    ranks: Vec<u32>,
}

#[derive(Deserialize)]
struct DeviceProperties {
    id: Option<u32>,
    #[serde(default)]
    name: String,
    vendor: Option<String>,
    #[serde(rename = "maxSharedMemoryPerMultiProcessor")]
    amd_shared_bytes: Option<u64>,
}

/// The key `marey`, which marey's recorder writes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecorderInfo {
    losses: std::collections::BTreeMap<String, u64>,
    process: RecordedProcess,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedProcess {
    host: String,
    rank: Option<u32>,
}

impl TraceMetadata {
    /// Adds a metadata event.
    pub(super) fn add_event(&mut self, event: &Event, threads: &mut Threads) {
        let ids = threads.ids(event);
        let key = event.name().into_owned();
        let name = event.arg("name").map(|name| event.unquote(name).into_owned());
        let os_id = event.arg("os_id").and_then(parse_integer);
        if key == "thread_name"
            && let Some(os_id) = os_id
        {
            threads.set_os_id(ids, os_id);
        }
        let rank = event.arg("rank").and_then(parse_integer).and_then(|rank| rank.try_into().ok());
        let has_gpu_label = event.arg("labels").is_some_and(|text| text.starts_with("\"GPU"));
        let sort_index = event.arg("sort_index").and_then(parse_integer);
        let is_device = has_gpu_label
            || sort_index.is_some_and(|sort_index| DEVICE_SORT_INDICES.contains(&sort_index));
        if is_device {
            threads.add_device(ids.0);
        }
        let value = event.args_json();
        self.labels.push(Label { ids, key, value, name, os_id, rank, is_device });
    }

    /// Adds a key next to the list of events, with its value as JSON.
    pub(super) fn add_entry(&mut self, key: &str, value: &str) {
        match parse_integer(value) {
            Some(base_nanos) if key == "baseTimeNanoseconds" => self.base_nanos = base_nanos,
            _ => self.entries.push((key.to_owned(), value.to_owned())),
        }
    }

    /// Applies the metadata to processes and threads.
    pub(super) fn apply(
        mut self,
        threads: &mut Threads,
        is_complete: bool,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        for label in std::mem::take(&mut self.labels) {
            apply_label(label, threads, import)?;
        }
        for (key, value) in std::mem::take(&mut self.entries) {
            apply_entry(&key, &value, threads, import)?;
        }
        for process in threads.all_processes() {
            import.run.process_mut(process).is_complete = is_complete;
        }
        self.set_base(threads, import);
        Ok(())
    }

    /// Sets the base of the times, unless they are absolute already.
    fn set_base(&self, threads: &Threads, import: &mut Import) {
        /// September 2001. Times relative to a base are smaller.
        const ABSOLUTE_NANOS: i64 = 1_000_000_000_000_000_000;
        let extents =
            threads.all_processes().filter_map(|process| import.run.extent_nanos(process));
        if extents.map(|(_, last)| last).max().is_none_or(|last| last < ABSOLUTE_NANOS) {
            import.run.set_base_nanos(self.base_nanos);
            for end in &mut import.collective_ends {
                end.end_nanos = end.end_nanos.saturating_add(self.base_nanos);
            }
        }
    }
}

/// Applies a metadata event. Drops the names of devices, because they follow from the numbers, and
/// the profiler writes them even for devices without activities.
fn apply_label(
    label: Label,
    threads: &mut Threads,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let Label { ids, key, value, name, os_id, rank, is_device } = label;
    let is_thread_label = key.starts_with("thread_");
    let is_known = if is_thread_label {
        threads.known_thread(ids).is_some()
    } else {
        threads.known_process(ids.0).is_some()
    };
    if is_device || (threads.is_device(ids.0) && !is_known) {
        return Ok(());
    }
    let process_id = threads.process(ids.0, import);
    let thread_id = is_thread_label.then(|| threads.thread(ids, import).thread_id);
    // Processes and threads with a text as id keep that text as their name.
    let may_rename = |id| matches!(id, FileId::Number(_));
    match (key.as_str(), name, thread_id) {
        ("process_name", Some(name), None) if may_rename(ids.0) => {
            let process = import.run.process_mut(process_id);
            process.name = Some(name);
            // The writers of this crate move a process id that is taken, and keep the original
            // here.
            process.pid = os_id.unwrap_or(process.pid);
            process.rank = rank.or(process.rank);
        }
        ("thread_name", Some(name), Some(thread)) if may_rename(ids.1) => {
            import.run.rename_thread(thread, &name);
        }
        (_, _, thread_id) => {
            let (key, value) = (Arc::from(key), Arc::from(value));
            import.run.add_metadata(&Metadata { process_id, thread_id, key, value })?;
        }
    }
    Ok(())
}

fn apply_entry(
    key: &str,
    value: &str,
    threads: &mut Threads,
    import: &mut Import,
) -> Result<(), ReaderError> {
    match key {
        "deviceProperties" => {
            if let Ok(devices) = serde_json::from_str::<Vec<&RawValue>>(value) {
                return add_devices(&devices, threads, import);
            }
        }
        "distributedInfo" => {
            let DistributedInfo { rank, pg_config } =
                serde_json::from_str(value).unwrap_or_default();
            set_rank(rank, threads, import);
            let groups = pg_config.and_then(|groups| serde_json::from_str(groups.get()).ok());
            set_groups(groups.unwrap_or_default(), import);
        }
        "host_name" => {
            let host: String = serde_json::from_str(value).unwrap_or_default();
            set_host(&host, threads, import);
        }
        "marey" => {
            let RecorderInfo { losses, process } = serde_json::from_str(value).unwrap_or_default();
            set_rank(process.rank, threads, import);
            set_host(&process.host, threads, import);
            let device_process_id = threads.device_process(import);
            for cause in LossCause::ALL {
                if let Some(&count) = losses.get(cause.as_str()) {
                    import.run.lose(device_process_id, cause, count);
                }
            }
        }
        _ => {}
    }
    let process_id = threads.device_process(import);
    Ok(import.run.add_metadata(&Metadata::new(process_id, key, value))?)
}

/// Sets the rank of processes without one.
fn set_rank(rank: Option<u32>, threads: &Threads, import: &mut Import) {
    for process in threads.os_processes() {
        let process = import.run.process_mut(process);
        process.rank = process.rank.or(rank);
    }
}

fn set_groups(groups: Vec<GroupInfo>, import: &mut Import) {
    for GroupInfo { pg_name, pg_size, ranks } in groups {
        let name_id = import.run.text_id(&pg_name);
        let ranks = GroupRanks::new(ranks);
        let size = pg_size.or(ranks.as_ref().map(|ranks| ranks.count));
        let ranks_id = ranks.map(|ranks| import.run.text_id(&ranks.canonical));
        import.run.set_process_group(name_id, ProcessGroup { size, ranks_id });
    }
}

fn set_host(host: &str, threads: &Threads, import: &mut Import) {
    for process in threads.os_processes() {
        host.clone_into(&mut import.run.process_mut(process).host);
    }
}

fn add_devices(
    devices: &[&RawValue],
    threads: &mut Threads,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let process_id = threads.device_process(import);
    for (properties, number) in devices.iter().zip(0..) {
        let Ok(device) = serde_json::from_str::<DeviceProperties>(properties.get()) else {
            import.lose(LossCause::Unreadable, 1, 0, "a device that is not an object");
            continue;
        };
        import.run.add_device(&Device {
            process_id,
            device: device.id.unwrap_or(number),
            device_type: device.type_name().into(),
            name: device.name.as_str().into(),
            properties: properties.get().into(),
        })?;
    }
    Ok(())
}

impl DeviceProperties {
    /// Returns the type of a device. Files do not state it, so the keys of the properties decide,
    /// which differ by vendor.
    fn type_name(&self) -> &'static str {
        if self.amd_shared_bytes.is_some() || self.name.starts_with("AMD") {
            "HIP"
        } else if self.vendor.is_some() {
            "XPU"
        } else {
            "CUDA"
        }
    }
}
