//! The events that nearly all are: scopes of a thread's stack, while no session records Python frames.
//!
//! Where such a scope goes was worked out when the thread was here before, in [`super::stack`], and noted:
//! each node has links to the one that was entered next and, where there is but one session, which keeps no
//! events, to its own statistics. What was noted of a node holds for one version of the masks
//! ([`crate::control::Control::version`]). An event that finds another name, or a link missing, has
//! changed nothing yet, and takes the other way.
//!
//! Reading the clock makes the processor wait for what came before, so what counts is less how many
//! instructions there are than how many loads wait for each other.

use super::Local;
use crate::clock;
use crate::control::{CONTROL, slots};
use crate::thread::{Frame, ThreadTree};
use crate::tree::{Node, name_kind};
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
        if node.name_kind() != name_kind || !node.is_usual(CONTROL.version()) {
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
        if !node.is_usual(CONTROL.version()) {
            return None;
        }
        let nanos = clock::counter_nanos(now.checked_sub(frame.start_ticks())?);
        // SAFETY: noted under this version of the masks, so the column has not been taken away, or whoever
        // took it waits for the end of this event.
        let Some(stats) = (unsafe { node.stats.get() }) else {
            return Some(self.exit_in_all(node, now, nanos));
        };
        if !stats.record(nanos, nanos.saturating_sub(frame.child_nanos())) {
            return None;
        }
        outer.add_child_nanos(nanos);
        self.stand_at(outer, Some(&node.next));
        Some(frame.id())
    }

    /// Leaves the innermost scope, whose node this is, where several sessions record or one keeps events;
    /// returns its id.
    #[inline(never)]
    #[expect(unsafe_code, reason = "frames are reached through links")]
    fn exit_in_all(&self, node: &Node, now: u64, nanos: u64) -> u64 {
        // SAFETY: frames live as long as the tree.
        let (frame, outer) = unsafe { (self.top.get_set(), self.outer.get_set()) };
        let own_nanos = nanos.saturating_sub(frame.child_nanos());
        for slot in slots(node.sessions()) {
            if let Some(column) = self.column(slot) {
                column.record(node.number(), nanos, own_nanos);
            }
        }
        let traced = node.sessions() & CONTROL.trace.load(Ordering::Relaxed);
        if traced != 0
            && let Some(log) = self.own_log()
        {
            log.span(node.number(), frame.start_ticks(), now, traced);
        }
        outer.add_child_nanos(nanos);
        self.stand_at(outer, Some(&node.next));
        frame.id()
    }
}

impl Local {
    /// Notes for the next time how a frame's node is entered and left, if doing that was usual but for the
    /// note. `version` is that of the masks since before the event looked at anything.
    #[inline(always)]
    pub(super) fn note_usual(&self, frame: &Frame, version: u64) {
        let sessions = usual_sessions();
        let Some(node) = frame.own_node() else { return };
        // Entering an operator takes more than finding its node.
        if sessions == 0 || node.sessions() != sessions || node.kind() == NodeKind::Operator {
            return;
        }
        let is_single = sessions.is_power_of_two();
        let column = if is_single && sessions & CONTROL.trace.load(Ordering::Relaxed) == 0 {
            self.tree.column(sessions.trailing_zeros())
        } else {
            None
        };
        node.note_usual(column.and_then(|column| column.stats(node.number())), version);
    }
}

/// The sessions that record, if none of them keeps Python frames, and the clock is the processor's
/// counter; else none.
#[inline(always)]
fn usual_sessions() -> u64 {
    let (active, python) = CONTROL.recording();
    if python == 0 && clock::is_counter() { active } else { 0 }
}
