//! Writes device activities to a Chrome trace, with one lane for each stream of each device.

use super::event::{EventContext, Events};
use super::thread::ThreadPlayback;
use crate::names;
use marey_model::context::NodeKind;
use marey_model::proton_trace::{FIRST_STREAM_TID, Metrics};
use marey_model::spool::{Activity, ActivityKind, ActivityShape, IdMap};
use std::collections::BTreeMap;
use std::io;

/// The shapes of activities, and the lanes of the streams.
#[derive(Debug, Default)]
pub(super) struct Activities {
    pub(super) shapes: IdMap<ActivityShape>,
    /// Named lanes, by device and stream.
    lanes: BTreeMap<(u32, u32), u64>,
}

impl Activities {
    /// Begins another trace, in which no lane is named yet.
    pub(super) fn begin_trace(&mut self) {
        self.lanes.clear();
    }

    /// Writes an activity.
    pub(super) fn write(
        &mut self,
        activity: &Activity,
        threads: &BTreeMap<u32, ThreadPlayback>,
        texts: &IdMap<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        let Some(shape) = self.shapes.get(activity.shape_id) else { return Ok(()) };
        let lane = lane(&mut self.lanes, shape, events)?;
        let name = texts.get(shape.name_id).map_or(names::LOST_NAME, String::as_str);
        let launch = activity.launch.and_then(|(thread, node)| Some((threads.get(&thread)?, node)));
        let mut path = launch.map(|(thread, node)| thread.path(node, texts)).unwrap_or_default();
        // A launch hook has named the node after the kernel.
        let is_named = launch.is_some_and(|(thread, node)| thread.kind(node) == NodeKind::Operator);
        if !is_named || path.last() != Some(&name) {
            path.push(name);
        }
        let event = EventContext { path: &path, metrics: &Metrics::default(), lane };
        events.activity(&event, category(shape.kind), activity)
    }
}

/// Returns the lane of a stream, which is named at its first activity.
fn lane(
    lanes: &mut BTreeMap<(u32, u32), u64>,
    shape: &ActivityShape,
    events: &mut Events,
) -> io::Result<u64> {
    let key = (shape.device, shape.stream);
    if let Some(&lane) = lanes.get(&key) {
        return Ok(lane);
    }
    // Use Proton's number, unless a stream of another device has it.
    let mut lane = u64::from(FIRST_STREAM_TID) + u64::from(shape.stream);
    while lanes.values().any(|&used_lane| used_lane == lane) {
        lane += 1 << 32;
    }
    let mut name = match shape.stream {
        u32::MAX => "GPU".to_owned(),
        stream => format!("GPU Stream {stream}"),
    };
    if shape.device > 0 {
        name = format!("{name} (device {})", shape.device);
    }
    events.name_stream(lane, &name)?;
    lanes.insert(key, lane);
    Ok(lane)
}

fn category(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::Kernel => "kernel",
        ActivityKind::Memcpy => "gpu_memcpy",
        ActivityKind::Memset => "gpu_memset",
        ActivityKind::Sync => "cuda_sync",
        ActivityKind::Overhead => "overhead",
    }
}
