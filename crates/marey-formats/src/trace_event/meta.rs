//! What a file says of processes and threads: their names, ranks, devices and the rest.
//!
//! It may stand anywhere, before or after the events, so it waits for the end.

use std::sync::Arc;

use marey_model::loss::LossCause;
use marey_store::ProcessGroup;
use marey_store::row::{Device, Metadata};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::Event;
use super::lanes::{Id, Lanes};
use super::number::whole;
use crate::shared::group_ranks::GroupRanks;
use crate::shared::import::{Import, ReaderError};

/// Where Kineto sorts devices among processes.
const DEVICE_PLACES: std::ops::Range<i64> = 5_000_000..5_001_000;

/// What the file said so far.
#[derive(Debug, Default)]
pub(super) struct Meta {
    labels: Vec<Label>,
    /// Keys beside the events, with their values as JSON.
    about: Vec<(String, String)>,
    /// What times are counted from, in nanoseconds since 1970.
    base_nanos: i64,
}

/// A word on a process or a thread.
#[derive(Debug)]
struct Label {
    ids: (Id, Id),
    key: String,
    /// The arguments as JSON.
    value: String,
    /// The name that it gives, if that is what it does.
    name: Option<String>,
    /// The id in the system, where the file calls it otherwise.
    os_id: Option<i64>,
    /// The rank of the process, where the file has several.
    rank: Option<u32>,
    /// Whether it is a device's that stands where processes do.
    is_of_device: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Distributed<'a> {
    rank: Option<u32>,
    #[serde(borrow)]
    pg_config: Option<&'a RawValue>,
}

/// A process group, as `distributedInfo` has it.
#[derive(Deserialize)]
struct Group {
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

/// What marey's recorder says of itself.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Recorder {
    losses: std::collections::BTreeMap<String, u64>,
    process: RecordedProcess,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedProcess {
    host: String,
    rank: Option<u32>,
}

impl Meta {
    /// An event that is a word on a process or a thread.
    pub(super) fn add_event(&mut self, event: &Event, lanes: &mut Lanes) {
        let ids = lanes.ids(event);
        let key = event.name().into_owned();
        let name = event.arg("name").map(|name| event.text_of(name).into_owned());
        let os_id = event.arg("os_id").and_then(whole);
        if key == "thread_name"
            && let Some(os_id) = os_id
        {
            lanes.set_os_id(ids, os_id);
        }
        let rank = event.arg("rank").and_then(whole).and_then(|rank| rank.try_into().ok());
        let is_labelled = event.arg("labels").is_some_and(|text| text.starts_with("\"GPU"));
        let place = event.arg("sort_index").and_then(whole);
        let is_of_device = is_labelled || place.is_some_and(|place| DEVICE_PLACES.contains(&place));
        if is_of_device {
            lanes.add_device(ids.0);
        }
        let value = event.args_json();
        self.labels.push(Label { ids, key, value, name, os_id, rank, is_of_device });
    }

    /// A key beside the events, and its value as JSON.
    pub(super) fn add_key(&mut self, key: &str, value: &str) {
        match whole(value) {
            Some(base_nanos) if key == "baseTimeNanoseconds" => self.base_nanos = base_nanos,
            _ => self.about.push((key.to_owned(), value.to_owned())),
        }
    }

    /// Puts it all where it belongs.
    pub(super) fn settle(
        mut self,
        lanes: &mut Lanes,
        is_complete: bool,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        for label in std::mem::take(&mut self.labels) {
            settle_label(label, lanes, import)?;
        }
        for (key, value) in std::mem::take(&mut self.about) {
            settle_key(&key, value, lanes, import)?;
        }
        for process in lanes.all_processes() {
            import.run.process_mut(process).is_complete = is_complete;
        }
        self.set_base(lanes, import);
        Ok(())
    }

    /// Adds what times are counted from, unless they are counted from 1970 all the same.
    fn set_base(&self, lanes: &Lanes, import: &mut Import) {
        /// 2001: a recording that is counted from its base is not so long.
        const ABSOLUTE_NANOS: i64 = 1_000_000_000_000_000_000;
        let extents = lanes.all_processes().filter_map(|process| import.run.extent_nanos(process));
        if extents.map(|(_, last)| last).max().is_none_or(|last| last < ABSOLUTE_NANOS) {
            import.run.set_base_nanos(self.base_nanos);
            for end in &mut import.collective_ends {
                end.end_nanos = end.end_nanos.saturating_add(self.base_nanos);
            }
        }
    }
}

/// Rows of devices have names that follow from their numbers; the profiler names them even where there
/// are none.
fn settle_label(label: Label, lanes: &mut Lanes, import: &mut Import) -> Result<(), ReaderError> {
    let Label { ids, key, value, name, os_id, rank, is_of_device } = label;
    let is_of_thread = key.starts_with("thread_");
    let is_known = if is_of_thread {
        lanes.known_lane(ids).is_some()
    } else {
        lanes.known_process(ids.0).is_some()
    };
    if is_of_device || (lanes.is_device(ids.0) && !is_known) {
        return Ok(());
    }
    let process_id = lanes.process(ids.0, import);
    let thread_id = is_of_thread.then(|| lanes.lane(ids, import).thread);
    // What is named by the file already keeps its name.
    let may_rename = |id| matches!(id, Id::Number(_));
    match (key.as_str(), name, thread_id) {
        ("process_name", Some(name), None) if may_rename(ids.0) => {
            let process = import.run.process_mut(process_id);
            process.name = Some(name);
            // What writes it has the process stand elsewhere than its number says.
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

fn settle_key(
    key: &str,
    value: String,
    lanes: &mut Lanes,
    import: &mut Import,
) -> Result<(), ReaderError> {
    match key {
        "deviceProperties" => {
            if let Ok(devices) = serde_json::from_str::<Vec<&RawValue>>(&value) {
                return add_devices(&devices, lanes, import);
            }
        }
        "distributedInfo" => {
            let Distributed { rank, pg_config } = serde_json::from_str(&value).unwrap_or_default();
            set_rank(rank, lanes, import);
            let groups = pg_config.and_then(|groups| serde_json::from_str(groups.get()).ok());
            set_groups(groups.unwrap_or_default(), import);
        }
        "host_name" => {
            let host: String = serde_json::from_str(&value).unwrap_or_default();
            set_host(&host, lanes, import);
        }
        "marey" => {
            let Recorder { losses, process } = serde_json::from_str(&value).unwrap_or_default();
            set_rank(process.rank, lanes, import);
            set_host(&process.host, lanes, import);
            let host = lanes.host(import);
            for cause in LossCause::ALL {
                if let Some(&count) = losses.get(cause.as_str()) {
                    import.run.lose(host, cause, count);
                }
            }
        }
        _ => {}
    }
    let process_id = lanes.host(import);
    let (key, value) = (Arc::from(key), Arc::from(value));
    import.run.add_metadata(&Metadata { process_id, thread_id: None, key, value })?;
    Ok(())
}

/// A process that has a rank of its own keeps it.
fn set_rank(rank: Option<u32>, lanes: &Lanes, import: &mut Import) {
    for process in lanes.real_processes() {
        let process = import.run.process_mut(process);
        process.rank = process.rank.or(rank);
    }
}

fn set_groups(groups: Vec<Group>, import: &mut Import) {
    for Group { pg_name, pg_size, ranks } in groups {
        let name_id = import.run.text(&pg_name);
        let ranks = GroupRanks::of(ranks);
        let size = pg_size.or(ranks.as_ref().map(|ranks| ranks.count));
        let ranks_id = ranks.map(|ranks| import.run.text(&ranks.text));
        import.run.set_process_group(name_id, ProcessGroup { size, ranks_id });
    }
}

fn set_host(host: &str, lanes: &Lanes, import: &mut Import) {
    for process in lanes.real_processes() {
        host.clone_into(&mut import.run.process_mut(process).host);
    }
}

fn add_devices(
    devices: &[&RawValue],
    lanes: &mut Lanes,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let process_id = lanes.host(import);
    for (properties, number) in devices.iter().zip(0..) {
        let Ok(device) = serde_json::from_str::<DeviceProperties>(properties.get()) else {
            import.lose(LossCause::Unreadable, 1, 0, "a device that is no object");
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
    /// The files do not say it: each maker's properties have other names.
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
