//! The writer of device activities: turns activities and their launches into frames of the spool.

use super::frame_buffer::FrameBuffer;
use super::nodes::SpoolNodes;
use super::texts::SpoolTexts;
use super::thread::SpoolOutput;
use crate::control::CONTROL;
use crate::device::{CaptureSite, JoinedActivity, capture_site};
use crate::losses;
use crate::number_hash::NumberHash;
use marey_model::context::CAPTURED_AT;
use marey_model::loss::LossCause;
use marey_model::spool::{Activity, ActivityKind, ActivityShape, Detail, SpoolFrame};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;

/// The writer of device activities.
#[derive(Debug, Default)]
pub(super) struct ActivityWriter {
    /// The known shapes by the hash of their properties. If two hashes collide, the later shape
    /// replaces the earlier one, which is written again if it recurs.
    shapes: HashMap<u64, KnownShape, NumberHash>,
    /// The hash of the last shape, which is often the next one too.
    last_hash: Option<u64>,
    next_shape_id: u32,
    unwritten_shapes: Vec<ActivityShape>,
    batch: Vec<Activity>,
    batch_sessions: u64,
}

/// A shape that has an id in the spool.
#[derive(Debug)]
struct KnownShape {
    kind: ActivityKind,
    /// The interned id of the name.
    name_id: u32,
    device: u32,
    stream: u32,
    details: Box<[(Detail, u64)]>,
    shape_id: u32,
}

impl KnownShape {
    #[inline]
    fn matches(&self, joined: &JoinedActivity, details: &[(Detail, u64)]) -> bool {
        self.name_id == joined.name_id
            && self.stream == joined.stream
            && self.device == joined.device
            && self.kind == joined.kind
            && *self.details == *details
    }
}

/// The maximum number of known shapes. It bounds the memory for a program whose grids always
/// differ. A shape that was dropped is written again when it recurs.
const MAX_SHAPES: usize = 1 << 16;

/// The maximum number of activities in a frame.
const MAX_FRAME_ACTIVITIES: usize = 4096;

/// The place of a launch in the spool, for the sessions that see the same path.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchLocation {
    /// The mask of the sessions.
    pub(super) sessions: u64,
    /// The thread and the node in the spool. `None` if the launch is unknown.
    pub(super) node: Option<(u32, u32)>,
}

impl ActivityWriter {
    /// Adds an activity for each of these launch locations.
    pub(super) fn add(
        &mut self,
        joined: &JoinedActivity,
        details: &[(Detail, u64)],
        locations: &[LaunchLocation],
        output: &mut SpoolOutput,
    ) {
        let shape_id = self.shape_id(joined, details, &mut output.texts);
        let activity = Activity {
            shape_id,
            start_nanos: output.clock.nanos_at(joined.start_ticks),
            duration_nanos: joined.duration_nanos,
            bytes: joined.bytes,
            correlation_id: joined.correlation_id,
            launch: None,
        };
        for &LaunchLocation { sessions, node } in locations {
            if sessions != self.batch_sessions || self.batch.len() >= MAX_FRAME_ACTIVITIES {
                self.write_batch(&mut output.texts, &mut output.buffer);
                self.batch_sessions = sessions;
            }
            self.batch.push(Activity { launch: node, ..activity });
        }
    }

    fn shape_id(
        &mut self,
        joined: &JoinedActivity,
        details: &[(Detail, u64)],
        texts: &mut SpoolTexts,
    ) -> u32 {
        if let Some(known) = self.last_hash.and_then(|hash| self.shapes.get(&hash))
            && known.matches(joined, details)
        {
            return known.shape_id;
        }
        let hash = shape_hash(joined, details);
        self.last_hash = Some(hash);
        match self.shapes.get(&hash) {
            Some(known) if known.matches(joined, details) => known.shape_id,
            _ => self.new_shape(hash, joined, details, texts),
        }
    }

    #[cold]
    fn new_shape(
        &mut self,
        hash: u64,
        joined: &JoinedActivity,
        details: &[(Detail, u64)],
        texts: &mut SpoolTexts,
    ) -> u32 {
        if self.shapes.len() >= MAX_SHAPES {
            self.shapes.clear();
        }
        let &JoinedActivity { kind, device, stream, .. } = joined;
        let name_id = texts.scope_name_id(joined.name_id);
        self.unwritten_shapes.push(ActivityShape {
            kind,
            name_id,
            device,
            stream,
            details: details.to_vec(),
        });
        let shape_id = self.next_shape_id;
        self.next_shape_id += 1;
        let known = KnownShape {
            kind,
            name_id: joined.name_id,
            device,
            stream,
            details: details.into(),
            shape_id,
        };
        self.shapes.insert(hash, known);
        shape_id
    }

    /// Writes the batch, preceded by its texts and shapes. Its nodes are written already.
    pub(super) fn write_batch(&mut self, texts: &mut SpoolTexts, buffer: &mut FrameBuffer) {
        let activity_count = self.batch.len() as u64;
        if activity_count == 0 {
            return;
        }
        if !buffer.has_room() {
            losses::add(LossCause::Spool, activity_count);
            self.batch.clear();
            return;
        }
        texts.take_unwritten().for_each(|texts| buffer.push(&texts));
        if !self.unwritten_shapes.is_empty() {
            let shapes = std::mem::take(&mut self.unwritten_shapes);
            buffer.push(&SpoolFrame::Shapes {
                first_id: self.next_shape_id - shapes.len() as u32,
                shapes,
            });
        }
        let activities = std::mem::take(&mut self.batch);
        buffer.push_entries(
            &SpoolFrame::Activities { sessions: self.batch_sessions, activities },
            activity_count,
        );
    }
}

/// Returns the location of an activity whose launch is unknown. All active trace sessions see it.
pub(super) fn location_without_launch() -> LaunchLocation {
    let sessions = CONTROL.trace_sessions.load(Ordering::Relaxed)
        & CONTROL.active_sessions.load(Ordering::Relaxed);
    LaunchLocation { sessions, node: None }
}

fn shape_hash(joined: &JoinedActivity, details: &[(Detail, u64)]) -> u64 {
    let mut hasher = NumberHash::default().build_hasher();
    hasher.write_u64(u64::from(joined.name_id) << 32 | u64::from(joined.stream));
    hasher.write_u64(u64::from(joined.device) << 8 | joined.kind as u64);
    for &(detail, value) in details {
        hasher.write_u64(value ^ (detail as u64) << 56);
    }
    hasher.finish()
}

/// Returns the node of a capture site below the node that launched the graph.
pub(super) fn capture_site_node(
    nodes: &mut SpoolNodes,
    launch_node: u32,
    site_number: u32,
    sessions: u64,
    texts: &mut SpoolTexts,
) -> u32 {
    let captured_at = nodes.scope_below(launch_node, crate::names::intern(CAPTURED_AT), texts);
    let Some(CaptureSite { tree, shadow_node, python_node, .. }) = capture_site(site_number) else {
        return captured_at;
    };
    let is_python = sessions & !CONTROL.python_sessions.load(Ordering::Relaxed) == 0;
    let node = if is_python { python_node } else { shadow_node };
    nodes.path_below(captured_at, &tree.nodes, node, sessions, texts)
}
