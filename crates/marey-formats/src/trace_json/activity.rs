//! What devices did, in Kineto's words.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use marey_store::row::{ActivityKind, GpuActivity};
use marey_store::{ProcessRow, Reader, StoreError};

use super::{Event, Object, PROTON_CATEGORIES, Place, Places, other_ranks};

/// The stream of what is on none.
const NO_STREAM: u32 = u32::MAX;

/// What has to be known of all activities before the first event is written.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Process, device and stream of each activity.
    pub(crate) streams: BTreeSet<(u32, u32, u32)>,
    /// Which arrows can be drawn.
    pub(crate) arrows: Arrows,
}

impl Survey {
    /// Of all activities that the reader sees.
    pub(crate) fn of(reader: &Reader) -> Result<Self, StoreError> {
        let mut survey = Self::default();
        for row in reader.rows::<GpuActivity>()? {
            let row = row?;
            survey.streams.insert((row.process_id, row.device, row.stream));
            let key = row.correlation_id.map(|correlation| (row.process_id, correlation));
            survey.arrows.without_start.extend(key);
        }
        Ok(survey)
    }

    /// Whether numbers of launches are those of several profilers: there are several ranks, or several
    /// processes that use devices.
    pub(super) fn is_of_several(&self, reader: &Reader) -> bool {
        let user = |stream: Option<&(u32, u32, u32)>| stream.map(|stream| stream.0);
        user(self.streams.first()) != user(self.streams.last()) || other_ranks(reader) > 0
    }

    /// Whose use of devices a file tells of that is of one process, and of the rank of it: its own, or
    /// that of the first other one, unless it has another rank.
    pub(crate) fn user(&self, host: &ProcessRow, reader: &Reader) -> Option<u32> {
        let is_of_rank = |id: &u32| {
            let rank = reader.process(*id).and_then(|process| process.rank);
            rank == host.rank || rank.is_none() || host.rank.is_none()
        };
        let users = || self.streams.iter().map(|&(process, ..)| process);
        users().find(|user| *user == host.id).or_else(|| users().find(is_of_rank))
    }

    /// Forgets what others did on devices than one process.
    pub(crate) fn keep(&mut self, user: Option<u32>) {
        self.streams.retain(|&(process, ..)| Some(process) == user);
        self.arrows.without_start.retain(|&(process, _)| Some(process) == user);
    }
}

/// The arrows from launches to activities, each by its process and the number that both ends share.
#[derive(Debug, Default)]
pub(crate) struct Arrows {
    without_start: HashSet<(u32, u64)>,
    started: HashSet<(u32, u64)>,
}

impl Arrows {
    /// Whether an arrow begins at this call: it is the first one of the number, and launched something.
    pub(crate) fn start(&mut self, process: u32, correlation: u64) -> bool {
        let key = (process, correlation);
        self.without_start.remove(&key) && self.started.insert(key)
    }

    /// Whether an arrow ends at an activity.
    pub(crate) fn ends(&self, process: u32, correlation: u64) -> bool {
        self.started.contains(&(process, correlation))
    }

    /// Whether an arrow ends at an activity, which then is its only end.
    pub(crate) fn end(&mut self, process: u32, correlation: u64) -> bool {
        self.started.remove(&(process, correlation))
    }
}

/// An end of an arrow from a launch to what it launched. Readers know by the category that it follows
/// from the numbers of both.
pub(crate) fn arrow<'a>(phase: &'a str, name: &'a str, place: Place, time_nanos: i64) -> Event<'a> {
    Event { phase, category: Some("ac2g"), name, place, time_nanos, duration_nanos: None }
}

/// Its category.
pub(crate) fn category<'r>(row: &GpuActivity, reader: &'r Reader) -> &'r str {
    let known = row.category_id.map(|id| reader.text(id));
    known.filter(|category| !PROTON_CATEGORIES.contains(category)).unwrap_or(match row.kind {
        ActivityKind::Kernel => "kernel",
        ActivityKind::Memcpy => "gpu_memcpy",
        ActivityKind::Memset => "gpu_memset",
        ActivityKind::Sync => "cuda_sync",
        ActivityKind::Annotation => "gpu_user_annotation",
        ActivityKind::Other => "cuda_event",
    })
}

/// The number of a stream; -1 for none.
pub(crate) fn stream_number(stream: u32) -> i64 {
    if stream == NO_STREAM { -1 } else { stream.into() }
}

/// Adds the device and the stream of an activity.
pub(crate) fn write_stream(row: &GpuActivity, event: &mut Object) {
    event.value("device", row.device);
    event.value("stream", stream_number(row.stream));
}

/// Adds what else is known of an activity.
pub(crate) fn write_columns(row: &GpuActivity, places: &Places, event: &mut Object) {
    if let Some(external) = row.external_id {
        event.value("External id", places.launch_number(row.process_id, external));
    }
    if let Some(correlation) = row.correlation_id {
        event.value("correlation", places.launch_number(row.process_id, correlation));
    }
    if let Some(node) = row.graph_node_id {
        event.value("graph node id", node);
    }
    if let Some(registers) = row.registers {
        event.value("registers per thread", registers);
    }
    if let Some(bytes) = row.shared_bytes {
        event.value("shared memory", bytes);
    }
    for (key, axes) in [("grid", row.grid), ("block", row.block)] {
        if let Some([x, y, z]) = axes {
            event.list(key, |list| write!(list, "{x},{y},{z}").expect("texts take everything"));
        }
    }
    if let Some(bytes) = row.bytes {
        event.value("bytes", bytes);
    }
}
