//! The events that nearly all are: scopes of a thread's stack, while one session records sums.
//!
//! Where such a scope goes was worked out when the thread was here before, in [`super::stack`], and noted:
//! each node has links to the one that was entered next and to its own statistics. The latter holds for one
//! version of the masks ([`crate::control::Control::version`]). An event that finds another name, or a
//! link missing, has changed nothing yet, and takes the other way.
//!
//! Reading the clock makes the processor wait for what came before, so what counts is less how many
//! instructions there are than how many loads wait for each other.

use super::Local;
use crate::clock;
use crate::control::CONTROL;
use crate::thread::{Frame, ThreadTree};
use crate::tree::name_kind;
use marey_model::context::NodeKind;
use std::sync::atomic::Ordering;

impl ThreadTree {
    /// Enters a scope of a `NodeKind`, if that is usual; returns its id.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes and frames are reached through links")]
    pub(super) fn enter_usual(&self, name: u32, kind: u8) -> Option<u64> {
        let name_kind = name_kind(name, kind.into());
        // SAFETY: nodes and frames live as long as the tree, and `lay_bottom` has set the first frame.
        let (outer, node) = unsafe { (self.top.get_set(), self.expected.get()?.get()?) };
        // SAFETY: as above.
        let frame = unsafe { outer.above.get()? };
        if node.name_kind() != name_kind || !node.has_noted(CONTROL.version()) {
            return None;
        }
        let id = self.next_id();
        self.outer.set(Some(outer));
        self.top.set(Some(frame));
        self.expected.set(Some(&node.first));
        frame.enter(node, outer.python_node(), self.state.load(Ordering::Relaxed), id);
        Some(id)
    }

    /// Leaves the innermost scope, if it is called `name` and that is usual; returns its id. `now` is
    /// the processor's counter.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes, frames and statistics are reached through links")]
    pub(super) fn exit_usual(&self, name: u32, now: u64) -> Option<u64> {
        // SAFETY: as above.
        let (frame, outer) = unsafe { (self.top.get_set(), self.outer.get_set()) };
        if frame.left_as.load(Ordering::Relaxed) != u64::from(name) {
            return None;
        }
        // SAFETY: as above; a frame that is left by a name has a node, inside that of the one below.
        let node = unsafe { frame.node.get_set() };
        if !node.has_noted(CONTROL.version()) {
            return None;
        }
        // SAFETY: noted under this version of the masks, so the column has not been taken away, or whoever
        // took it waits for the end of this event.
        let stats = unsafe { node.stats.get_set() };
        // A counter that went back gives a time for which there is no counter of entries.
        let nanos = clock::counter_nanos(now.wrapping_sub(frame.start_ticks()));
        if !stats.record(nanos, nanos.saturating_sub(frame.child_nanos())) {
            return None;
        }
        outer.add_child_nanos(nanos);
        self.stand_at(outer, Some(&node.next));
        Some(frame.id())
    }
}

impl Local {
    /// Notes for the next time where the statistics of a frame are, if leaving it was usual but for the
    /// note. `version` is that of the masks since before the event looked at anything.
    #[inline(always)]
    pub(super) fn note_stats(&self, frame: &Frame, version: u64) {
        let session = usual_session();
        let Some(node) = frame.own_node() else { return };
        // Entering an operator takes more than finding its node.
        if session == 0 || node.sessions() != session || node.kind() == NodeKind::Operator {
            return;
        }
        let column = self.tree.column(session.trailing_zeros());
        if let Some(stats) = column.and_then(|column| column.stats(node.number())) {
            node.note_stats(stats, version);
        }
    }
}

/// The session that records, if there is but one, it keeps neither events nor Python frames, and
/// the clock is the processor's counter; else 0.
#[inline(always)]
fn usual_session() -> u64 {
    let active = CONTROL.active.load(Ordering::Relaxed);
    let unusual = CONTROL.python.load(Ordering::Relaxed) | CONTROL.trace.load(Ordering::Relaxed);
    let is_usual = active.is_power_of_two() && active & unusual == 0 && clock::is_counter();
    if is_usual { active } else { 0 }
}
