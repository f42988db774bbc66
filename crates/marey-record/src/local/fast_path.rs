//! The fast path: enters and exits scopes while no session records Python frames.
//!
//! The slow path ([`super::slow_path`]) looks a scope's node up once and caches it. Each node has links
//! to the node that was entered next and, with a single session that does not trace, to its own
//! statistics. The cache of a node is valid for one version of the masks
//! ([`crate::control::Control::version`]). If an event finds another name or no link, it takes the
//! slow path. It has changed nothing by then.
//!
//! Reading the clock makes the processor wait for earlier instructions, so the cost depends less on
//! the number of instructions than on the number of dependent loads.

use super::Local;
use crate::clock;
use crate::control::{CONTROL, slots};
use crate::perf;
use crate::scope_frame::ScopeFrame;
use crate::thread::ThreadTree;
use crate::tree::{Node, name_kind};
use std::sync::atomic::Ordering;

impl ThreadTree {
    /// Enters a scope of a `NodeKind`. Returns its id, or `None` if the slow path is needed.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes and frames are reached through links")]
    pub(super) fn enter_fast(&self, name_id: u32, kind: u8) -> Option<u64> {
        let name_kind = name_kind(name_id, kind.into());
        // SAFETY: nodes and frames live as long as the tree, and `init_bottom` has set the first
        // frame.
        let (outer, node) = unsafe { (self.top.get_non_null(), self.expected.get()?.get()?) };
        // SAFETY: frames live as long as the tree.
        let frame = unsafe { outer.above.get()? };
        if node.name_kind() != name_kind || !node.is_fast(CONTROL.version()) {
            return None;
        }
        let id = self.next_id();
        self.outer.set(Some(outer));
        self.top.set(Some(frame));
        self.expected.set(Some(&node.expected_child));
        frame.enter(node, outer.python_node(), self.state_name_id.load(Ordering::Relaxed), id);
        Some(id)
    }

    /// Exits the innermost scope if it has this name. Returns its id, or `None` if the slow path
    /// is needed. `now` is a reading of the processor's counter.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes, frames and statistics are reached through links")]
    pub(super) fn exit_fast(&self, name_id: u32, now: u64) -> Option<u64> {
        // SAFETY: frames live as long as the tree, and `init_bottom` has set the first one.
        let (frame, outer) = unsafe { (self.top.get_non_null(), self.outer.get_non_null()) };
        if frame.exit_name_id.load(Ordering::Relaxed) != u64::from(name_id) {
            return None;
        }
        // SAFETY: nodes live as long as the tree. A frame with an exit name has a node, which is a
        // child of the node of the frame below.
        let node = unsafe { frame.node.get_non_null() };
        if !node.is_fast(CONTROL.version()) {
            return None;
        }
        let nanos = clock::counter_nanos(now.checked_sub(frame.start_ticks())?);
        // SAFETY: the link was cached under this version of the masks, so the column has not been
        // taken, or the thread that took it waits for the end of this event before it frees the
        // column.
        let Some(stats) = (unsafe { node.stats.get() }) else {
            return Some(self.exit_for_sessions(node, now, nanos));
        };
        if !stats.record(nanos, nanos.saturating_sub(frame.child_nanos())) {
            return None;
        }
        outer.add_child_nanos(nanos);
        self.set_top_expecting(outer, Some(&node.expected_sibling));
        Some(frame.id())
    }

    /// Exits the innermost scope, whose node is `node`, with several sessions or one that traces.
    /// Returns its id.
    #[inline(never)]
    #[expect(unsafe_code, reason = "frames are reached through links")]
    fn exit_for_sessions(&self, node: &Node, now: u64, nanos: u64) -> u64 {
        // SAFETY: frames live as long as the tree.
        let (frame, outer) = unsafe { (self.top.get_non_null(), self.outer.get_non_null()) };
        let self_nanos = nanos.saturating_sub(frame.child_nanos());
        for slot in slots(node.sessions()) {
            if let Some(column) = self.column(slot) {
                column.record(node.number(), nanos, self_nanos);
            }
        }
        let trace_sessions = node.sessions() & CONTROL.trace_sessions.load(Ordering::Relaxed);
        if trace_sessions != 0
            && let Some(log) = self.log_or_create()
        {
            log.push_span(node.number(), frame.start_ticks(), now, trace_sessions);
        }
        outer.add_child_nanos(nanos);
        self.set_top_expecting(outer, Some(&node.expected_sibling));
        frame.id()
    }
}

impl Local {
    /// Caches in a frame's node what the fast path needs to enter and exit it. Does nothing if the
    /// fast path cannot handle the node's sessions. `version` is the version of the masks, read
    /// before the event read the masks.
    #[inline(always)]
    pub(super) fn cache_fast_path(&self, frame: &ScopeFrame, version: u64) {
        let sessions = fast_sessions();
        let Some(node) = frame.node() else { return };
        if sessions == 0 || node.sessions() != sessions {
            return;
        }
        let is_single = sessions.is_power_of_two();
        let column = if is_single && sessions & CONTROL.trace_sessions.load(Ordering::Relaxed) == 0
        {
            self.tree.column(sessions.trailing_zeros())
        } else {
            None
        };
        node.cache_fast_path(column.and_then(|column| column.stats(node.number())), version);
    }
}

/// Returns the active sessions if the fast path applies to them: none records Python frames, no
/// performance events are counted, and the clock is the processor's counter. Else returns 0.
#[inline(always)]
fn fast_sessions() -> u64 {
    let (active_sessions, python_sessions) = CONTROL.recording_sessions();
    let is_fast = python_sessions == 0 && perf::events().is_none() && clock::is_counter();
    if is_fast { active_sessions } else { 0 }
}
