//! The stack of a thread's open scopes: pushes, reads and pops its frames, and keeps in them what
//! [`super::fast_path`] needs.

use super::{CLOSING, CompletedEntry, FORKED, INHERITED, Local, NAMES_KERNELS, NodePair, STEP};
use crate::control::{CONTROL, bit};
use crate::names;
use crate::scope_frame::{NO_FAST_EXIT, OpenScope, ScopeFrame};
use crate::thread::ThreadTree;
use crate::tree::{PYTHON_ROOT, SHADOW_ROOT, name_kind};
use marey_model::context::NodeKind;
use std::sync::atomic::Ordering;

impl Local {
    /// Pushes a scope.
    #[inline(always)]
    pub(super) fn push(&mut self, scope: &OpenScope) {
        let Some(frame) = self.tree.frames.ensure(self.depth()) else { return };
        frame.link_above(self.top_frame());
        self.write_frame(frame, scope);
        self.cache_expected(frame);
        self.tree.set_top(frame);
        self.open_operators += u32::from(is_launch_operator(scope.kind_flags));
    }

    /// Writes the contents of a frame, and what the fast path caches in it.
    #[inline(always)]
    fn write_frame(&self, frame: &ScopeFrame, scope: &OpenScope) {
        frame.set(scope);
        let key = name_kind(scope.name_id, scope.kind_flags & 0xff);
        let node = self.tree.nodes.get(scope.shadow_node);
        frame.node.set(node.filter(|node| node.matches(key, scope.sessions)));
        update_exit_name(frame);
    }

    /// Caches the scope's node as the one to expect next here, if it is a child of the innermost
    /// scope's node.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the link is reached through another link")]
    fn cache_expected(&self, frame: &ScopeFrame) {
        // SAFETY: a link inside a node of the tree, which `self` keeps alive.
        let expected = unsafe { self.tree.expected.get() };
        if let (Some(expected), Some(node)) = (expected, frame.child_node_of(self.top_frame())) {
            expected.set(Some(node));
        }
    }

    /// Returns the innermost frame, or the bottom frame.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the frame is reached by a pointer")]
    pub(super) fn top_frame(&self) -> &ScopeFrame {
        // SAFETY: a frame of the tree, which `self` keeps alive; `init_bottom` has set the first.
        unsafe { self.tree.top.get_non_null() }
    }

    /// Returns the number of frames on the stack, inherited ones included.
    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.top_frame().depth()
    }

    /// Returns a copy of the innermost frame.
    #[inline(always)]
    pub(super) fn top(&self) -> Option<OpenScope> {
        let top = self.top_frame();
        (top.depth() > 0).then(|| top.copy())
    }

    /// Returns a copy of the frame at this depth, 0 for the outermost one.
    #[inline(always)]
    pub(super) fn open_scope(&self, index: u32) -> Option<OpenScope> {
        self.tree.frames.get(index).map(ScopeFrame::copy)
    }

    /// Returns a copy of the innermost frame, unless it is inherited.
    #[inline(always)]
    pub(super) fn entered_top(&self) -> Option<OpenScope> {
        let top = self.top_frame();
        (top.depth() > self.inherited_frames).then(|| top.copy())
    }

    /// Returns the depth of the scope with this id, if it is open and was entered on this thread.
    pub(super) fn entered_index(&self, id: u64) -> Option<u32> {
        let mut entered = (self.inherited_frames..self.depth()).rev();
        entered.find(|&index| self.open_scope(index).is_some_and(|scope| scope.id == id))
    }

    /// Pops the innermost frame and records it. Returns the scope's id.
    #[inline(always)]
    pub(super) fn pop_frame(&mut self, top: &OpenScope, now_ticks: u64) -> u64 {
        self.count_before_exit(top);
        let version = CONTROL.version();
        let entry = completed_entry(top, now_ticks);
        self.record(&entry);
        self.cache_fast_path(self.top_frame(), version);
        self.drop_top(entry.nanos);
        top.id
    }

    /// Pops the innermost frame and records it, unless it is inherited. Returns the scope's id or 0.
    pub(super) fn pop(&mut self, now_ticks: u64) -> u64 {
        self.entered_top().map_or(0, |top| self.pop_frame(&top, now_ticks))
    }

    /// Drops the innermost frame, and adds `nanos` to the child time of the frame below.
    #[inline(always)]
    pub(super) fn drop_top(&mut self, nanos: u64) {
        let top = self.top_frame();
        let (was_operator, outer) = (is_launch_operator(top.kind_flags()), top.below());
        let Some(outer) = outer else { return };
        match top.child_node_of(outer) {
            Some(node) => self.tree.set_top_expecting(outer, Some(&node.expected_sibling)),
            None => self.tree.set_top(outer),
        }
        outer.add_child_nanos(nanos);
        let closes_step = outer.kind_flags() & CLOSING != 0;
        self.open_operators -= u32::from(was_operator);
        if closes_step {
            self.close_step();
        }
    }

    /// Removes and records a frame that is not the innermost one. The frames above it keep their
    /// nodes.
    pub(super) fn remove_below_top(&mut self, index: u32, now_ticks: u64) {
        let Some(scope) = self.open_scope(index) else { return };
        if scope.kind_flags & FORKED == 0 {
            let entry = completed_entry(&scope, now_ticks);
            self.record(&entry);
            if let Some(parent) = index.checked_sub(1).and_then(|index| self.tree.frames.get(index))
            {
                parent.add_child_nanos(entry.nanos);
            }
        }
        self.open_operators -= u32::from(is_launch_operator(scope.kind_flags));
        for index in index + 1..self.depth() {
            if let (Some(inner), Some(frame)) =
                (self.open_scope(index), self.tree.frames.get(index - 1))
            {
                self.write_frame(frame, &inner);
            }
        }
        if let Some(outer) = self.top_frame().below() {
            self.tree.set_top(outer);
        }
    }

    pub(super) fn has_flag(&self, index: u32, flag: u32) -> bool {
        self.open_scope(index).is_some_and(|scope| scope.kind_flags & flag != 0)
    }

    pub(super) fn change_flags(&self, index: u32, set: u32, clear: u32) {
        if let Some(frame) = self.tree.frames.get(index) {
            frame.change_flags(set, clear);
            update_exit_name(frame);
            // The frame above may have to end this one at its own exit, so its exit name changes
            // too.
            if index + 1 < self.depth()
                && let Some(inner) = self.tree.frames.get(index + 1)
            {
                update_exit_name(inner);
            }
        }
    }

    /// Returns the id of the innermost scope, 0 for none.
    pub(crate) fn top_id(&self) -> u64 {
        self.top().map_or(0, |top| top.id)
    }

    /// Adds to the child time of the scope with this id, if it is still open. Children that overlap
    /// may sum up to more than the scope's time; its exclusive time is then 0.
    pub(crate) fn add_child_nanos(&self, id: u64, nanos: u64) {
        let entered = (self.inherited_frames..self.depth()).rev();
        let frame =
            entered.filter_map(|index| self.tree.frames.get(index)).find(|frame| frame.id() == id);
        if let Some(frame) = frame {
            frame.add_child_nanos(nanos);
        }
    }

    /// Returns the id of the name of the innermost scope that the program entered on this thread, 0 for none.
    pub(crate) fn top_name_id(&self) -> u32 {
        (self.inherited_frames..self.depth())
            .rev()
            .find(|&index| !self.is_step(index))
            .and_then(|index| self.open_scope(index))
            .map_or(0, |scope| scope.name_id)
    }

    /// Writes the ids of the names of the open scopes, outermost first, or those of the path of `python_leaf`
    /// if it is given. Returns their number, which may be larger than `name_ids`.
    pub(crate) fn context_name_ids(
        &mut self,
        python_leaf: Option<u32>,
        name_ids: &mut [u32],
    ) -> usize {
        let mut path = std::mem::take(&mut self.path);
        if let Some(mut node) = python_leaf {
            while node > PYTHON_ROOT
                && let Some(python_frame) = self.tree.nodes.get(node)
            {
                path.push(python_frame.name_id());
                node = python_frame.parent();
            }
            path.reverse();
        } else {
            path.extend(
                (0..self.depth()).filter_map(|index| Some(self.open_scope(index)?.name_id)),
            );
        }
        for (slot, name_id) in name_ids.iter_mut().zip(&path) {
            *slot = *name_id;
        }
        let len = path.len();
        path.clear();
        self.path = path;
        len
    }

    /// Returns the number of scopes on the stack that a session sees.
    pub(crate) fn visible_depth(&self, slot: u32) -> u32 {
        let visible = (0..self.depth()).filter(|&index| {
            self.open_scope(index).is_some_and(|scope| scope.sessions & bit(slot) != 0)
        });
        visible.count() as u32
    }
}

/// Updates the name by which the fast path may exit a frame.
#[inline(always)]
fn update_exit_name(frame: &ScopeFrame) {
    let (name_id, kind_flags) = frame.name_id_and_kind_flags();
    let is_fast = kind_flags & (INHERITED | STEP | FORKED | NAMES_KERNELS) == 0
        && frame.below().is_some_and(|below| {
            below.kind_flags() & CLOSING == 0 && frame.child_node_of(below).is_some()
        });
    frame
        .exit_name_id
        .store(if is_fast { name_id.into() } else { NO_FAST_EXIT }, Ordering::Relaxed);
}

/// Initialises the bottom frame of a new thread, which is below all scopes.
pub(super) fn init_bottom(tree: &ThreadTree) {
    tree.bottom.set(&OpenScope {
        name_id: names::LOST_NAME_ID,
        kind_flags: NodeKind::Root as u32 | INHERITED,
        shadow_node: SHADOW_ROOT,
        python_node: PYTHON_ROOT,
        state_name_id: 0,
        sessions: u64::MAX,
        start_ticks: 0,
        child_nanos: 0,
        id: 0,
    });
    tree.bottom.exit_name_id.store(NO_FAST_EXIT, Ordering::Relaxed);
    tree.bottom.node.set(tree.nodes.get(SHADOW_ROOT));
    tree.set_top(&tree.bottom);
}

#[inline(always)]
pub(super) fn open_scope_nodes(scope: &OpenScope) -> NodePair {
    NodePair { shadow_node: scope.shadow_node, python_node: scope.python_node }
}

#[inline(always)]
pub(super) fn completed_entry(scope: &OpenScope, now_ticks: u64) -> CompletedEntry {
    CompletedEntry::new(
        open_scope_nodes(scope),
        scope.sessions,
        scope.start_ticks..now_ticks,
        scope.child_nanos,
    )
}

/// Whether a launch hook entered this operator on this thread. Other operators are entered like any
/// scope.
#[inline(always)]
fn is_launch_operator(kind_flags: u32) -> bool {
    kind_flags & NAMES_KERNELS != 0
}
