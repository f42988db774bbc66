//! Writes device activities, and the flows from launches to them, in Kineto's vocabulary.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Write as _};

use marey_model::json::Object;
use marey_store::row::{ActivityKind, GpuActivity, Span};
use marey_store::{ProcessRow, Reader, StoreError};

use super::{Event, PROTON_CATEGORIES, TraceWriter, Track, Tracks, other_ranks, write_optional};

/// Facts about all activities, which are collected before the first event is written.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Process, device and stream of the activities.
    pub(crate) streams: BTreeSet<(u32, u32, u32)>,
    /// The flows from launches to activities.
    pub(crate) launch_flows: LaunchFlows,
}

impl Survey {
    /// Collects the activities that the reader sees.
    pub(crate) fn collect(reader: &Reader) -> Result<Self, StoreError> {
        let mut survey = Self::default();
        for row in reader.rows::<GpuActivity>()? {
            let row = row?;
            survey.streams.insert((row.process_id, row.device, row.stream));
            let key = row.correlation_id.map(|correlation_id| (row.process_id, correlation_id));
            survey.launch_flows.without_start.extend(key);
        }
        Ok(survey)
    }

    /// Whether correlation ids come from several profilers and may collide, because there are
    /// several ranks or several processes that use devices.
    pub(super) fn ids_may_collide(&self, reader: &Reader) -> bool {
        let gpu_process = |stream: Option<&(u32, u32, u32)>| stream.map(|stream| stream.0);
        gpu_process(self.streams.first()) != gpu_process(self.streams.last())
            || other_ranks(reader) > 0
    }

    /// Returns the process whose device activities the file of one process contains. This is `main`
    /// itself, or else the first process with device activities whose rank is the same or unknown.
    pub(crate) fn gpu_process(&self, main: &ProcessRow, reader: &Reader) -> Option<u32> {
        let is_of_rank = |id: &u32| {
            let rank = reader.process(*id).and_then(|process| process.rank);
            rank == main.rank || rank.is_none() || main.rank.is_none()
        };
        let processes = || self.streams.iter().map(|&(process, ..)| process);
        processes().find(|process| *process == main.id).or_else(|| processes().find(is_of_rank))
    }

    /// Drops the activities of all processes but one.
    pub(crate) fn retain_process(&mut self, gpu_process_id: Option<u32>) {
        self.streams.retain(|&(process, ..)| Some(process) == gpu_process_id);
        self.launch_flows.without_start.retain(|&(process, _)| Some(process) == gpu_process_id);
    }
}

/// The flows from launches to activities, each identified by its process and correlation id.
#[derive(Debug, Default)]
pub(crate) struct LaunchFlows {
    without_start: HashSet<(u32, u64)>,
    started: HashSet<(u32, u64)>,
}

impl LaunchFlows {
    /// Starts a flow at a call. Returns whether it has: the call must have launched an activity and
    /// be the first with this correlation id.
    pub(crate) fn try_start(&mut self, process_id: u32, correlation_id: u64) -> bool {
        let key = (process_id, correlation_id);
        self.without_start.remove(&key) && self.started.insert(key)
    }

    /// Whether the flow that ends at an activity has started.
    pub(crate) fn is_started(&self, process_id: u32, correlation_id: u64) -> bool {
        self.started.contains(&(process_id, correlation_id))
    }

    /// Ends a flow at its first activity. Returns `false` if none has started or it has ended.
    pub(crate) fn try_end(&mut self, process_id: u32, correlation_id: u64) -> bool {
        self.started.remove(&(process_id, correlation_id))
    }
}

/// Methods that write the two ends of flows from launches to activities. By the category `ac2g`,
/// readers know that the correlation ids imply the flow.
impl TraceWriter<'_, '_> {
    /// Writes the start of a flow at a span, if the span launched an activity.
    pub(crate) fn start_launch_flow(
        &mut self,
        span: &Span,
        track: Track,
        name: &str,
        launch_flows: &mut LaunchFlows,
    ) -> io::Result<()> {
        let thread = self.reader.thread(span.thread_id);
        if let (Some(correlation), Some(thread)) = (span.correlation_id, thread)
            && launch_flows.try_start(thread.process_id, correlation)
        {
            let id = self.tracks.launch_flow_id(thread.process_id, correlation);
            let start = launch_flow_event("s", name, track, span.start_nanos);
            self.add(&start, |event| event.value("id", id))?;
        }
        Ok(())
    }

    /// Writes the end of a flow at an activity.
    pub(crate) fn end_launch_flow(
        &mut self,
        row: &GpuActivity,
        correlation_id: u64,
        track: Track,
        name: &str,
    ) -> io::Result<()> {
        let id = self.tracks.launch_flow_id(row.process_id, correlation_id);
        self.add(&launch_flow_event("f", name, track, row.start_nanos), |event| {
            event.value("id", id);
            event.text("bp", "e");
        })
    }
}

fn launch_flow_event<'a>(
    phase: &'a str,
    name: &'a str,
    track: Track,
    time_nanos: i64,
) -> Event<'a> {
    Event { phase, category: Some("ac2g"), name, track, time_nanos, duration_nanos: None }
}

/// Adds the ids that a span shares with the activities that it launched.
pub(crate) fn write_span_ids(span: &Span, reader: &Reader, tracks: &Tracks, args: &mut Object) {
    let process_id = reader.thread(span.thread_id).map_or(u32::MAX, |thread| thread.process_id);
    let id_in_file = |id: Option<u64>| id.map(|id| tracks.correlation_id(process_id, id));
    write_optional(args, "External id", id_in_file(span.external_id));
    write_optional(args, "correlation", id_in_file(span.correlation_id));
}

/// Returns the category of an activity.
pub(crate) fn category<'r>(row: &GpuActivity, reader: &'r Reader) -> &'r str {
    let category = row.category_id.map(|id| reader.text(id));
    category.filter(|category| !PROTON_CATEGORIES.contains(category)).unwrap_or(match row.kind {
        ActivityKind::Kernel => "kernel",
        ActivityKind::Memcpy => "gpu_memcpy",
        ActivityKind::Memset => "gpu_memset",
        ActivityKind::Sync => "cuda_sync",
        ActivityKind::Annotation => "gpu_user_annotation",
        ActivityKind::Other => "cuda_event",
    })
}

/// Returns the number of a stream, -1 for none.
pub(crate) fn stream_number(stream: u32) -> i64 {
    if stream == GpuActivity::NO_STREAM { -1 } else { stream.into() }
}

/// Adds the device and the stream of an activity.
pub(crate) fn write_stream(row: &GpuActivity, event: &mut Object) {
    event.value("device", row.device);
    event.value("stream", stream_number(row.stream));
}

/// Adds the remaining columns of an activity.
pub(crate) fn write_columns(row: &GpuActivity, tracks: &Tracks, event: &mut Object) {
    let id_in_file = |id: Option<u64>| id.map(|id| tracks.correlation_id(row.process_id, id));
    write_optional(event, "External id", id_in_file(row.external_id));
    write_optional(event, "correlation", id_in_file(row.correlation_id));
    write_optional(event, "graph node id", row.graph_node_id);
    write_optional(event, "registers per thread", row.registers);
    write_optional(event, "shared memory", row.shared_bytes);
    for (key, axes) in [("grid", row.grid), ("block", row.block)] {
        if let Some([x, y, z]) = axes {
            event.list(key, |list| {
                write!(list, "{x},{y},{z}").expect("writing to a `Vec` cannot fail");
            });
        }
    }
    write_optional(event, "bytes", row.bytes);
}
