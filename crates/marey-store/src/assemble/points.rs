//! Finds the context node of points in time on threads, such as memory events: the node of the
//! innermost slice around each point.

use crate::names;

/// The points of events that have a thread and no context node of their own. They stay in memory.
#[derive(Debug, Default)]
pub(super) struct Points {
    /// Time and thread of each point.
    points: Vec<(i64, u32)>,
}

impl Points {
    /// Adds a point.
    pub(super) fn add(&mut self, time_nanos: i64, thread_id: u32) {
        self.points.push((time_nanos, thread_id));
    }

    /// Sorts the points by time. Points of the same time keep their order.
    pub(super) fn into_located(mut self, shift_nanos: i64) -> LocatedPoints {
        self.points.sort_by_key(|&(time_nanos, _)| time_nanos);
        let contexts = Vec::with_capacity(self.points.len());
        LocatedPoints { points: self.points, shift_nanos, contexts }
    }
}

/// Points sorted by time. The first `contexts.len()` of them have their context nodes.
#[derive(Debug, Default)]
pub(super) struct LocatedPoints {
    points: Vec<(i64, u32)>,
    shift_nanos: i64,
    contexts: Vec<u32>,
}

impl LocatedPoints {
    /// Returns the time and thread of the next point without a context node, if it is before
    /// `time_nanos`.
    pub(super) fn next_before(&self, time_nanos: i64) -> Option<(i64, u32)> {
        let &(point_nanos, thread_id) = self.points.get(self.contexts.len())?;
        let point_nanos = point_nanos.saturating_add(self.shift_nanos);
        (point_nanos < time_nanos).then_some((point_nanos, thread_id))
    }

    /// Sets the context node of the next point. The root stands for no node.
    pub(super) fn set_next(&mut self, context_id: u32) {
        self.contexts.push(context_id);
    }

    /// Returns the context nodes in the order of the points.
    pub(super) fn into_contexts(self) -> impl Iterator<Item = Option<u32>> {
        self.contexts.into_iter().map(|id| Some(id).filter(|&id| id != names::ROOT))
    }
}
