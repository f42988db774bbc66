//! The slow path: enters and exits scopes in all the cases that [`super::fast_path`] refuses.
//!
//! Verbs: *exit* ends a scope on behalf of the program, *pop* removes the innermost frame and
//! records it, *drop* removes a frame without recording it.

use super::{
    AutogradCall, CLOSING, Entry, FORKED, INHERITED, Local, MAX_OUTLIVING, NAMES_KERNELS, NodePair,
    OUTLIVES, STEP, task,
};
use crate::clock;
use crate::control::{CONTROL, bit};
use crate::detached::Detached;
use crate::losses;
use crate::names;
use crate::thread::{Frame, NO_FAST_EXIT, OpenFrame, ThreadTree};
use crate::tree::{Node, NodeKey, PYTHON_ROOT, SHADOW_ROOT, name_kind};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Local {
    /// Enters a scope and returns its id. `python_leaf` is the node of the innermost Python frame
    /// if a session asks for Python paths.
    #[inline(always)]
    pub(crate) fn enter(&mut self, name: u32, kind: NodeKind, python_leaf: u32) -> u64 {
        let parent = self.parent_nodes();
        self.enter_child_of(parent, name, kind, 0, python_leaf)
    }

    /// Returns the nodes below which the next scope is entered. If this thread follows the main
    /// thread, first updates the inherited frames.
    #[inline(always)]
    pub(super) fn parent_nodes(&mut self) -> NodePair {
        if self.depth() == self.inherited && self.follows_main {
            self.follow_main();
        }
        self.top_nodes()
    }

    /// Enters a scope below `parent`, which need not be on the stack. Its frame gets `flags`.
    #[inline(always)]
    fn enter_child_of(
        &mut self,
        parent: NodePair,
        name: u32,
        kind: NodeKind,
        flags: u32,
        python_leaf: u32,
    ) -> u64 {
        let (active, python) = CONTROL.recording();
        let mut parent = parent.with_python_leaf(python_leaf);
        let mut state = self.state_name();
        if flags & NAMES_KERNELS != 0 && state != 0 {
            parent = self.child_nodes(parent, state, NodeKind::State, active, python);
            state = 0;
        }
        let nodes = self.child_nodes(parent, name, kind, active, python);
        let id = self.next_id();
        self.count_before_entry();
        self.push(&OpenFrame {
            name,
            kind_flags: kind as u32 | flags,
            shadow_node: nodes.shadow,
            python_node: nodes.python,
            state,
            sessions: active,
            start_ticks: clock::ticks(),
            child_nanos: 0,
            id,
        });
        id
    }

    /// Enters a scope below `task`, the innermost scope of the task that the thread runs, or below
    /// the thread's innermost scope.
    pub(crate) fn enter_in_task(
        &mut self,
        name: u32,
        kind: NodeKind,
        python_leaf: u32,
        task: Option<&Detached>,
    ) {
        let parent = self.innermost_nodes(task);
        self.enter_child_of(parent, name, kind, 0, python_leaf);
    }

    /// Does the same for a scope that may end after the scopes around it. Returns its id.
    pub(crate) fn enter_outliving(
        &mut self,
        name: u32,
        kind: NodeKind,
        python_leaf: u32,
        task: Option<&Detached>,
    ) -> u64 {
        let parent = self.innermost_nodes(task);
        self.enter_child_of(parent, name, kind, OUTLIVES, python_leaf)
    }

    /// Exits the innermost scope called `name` (0: any name). Returns its id, or 0 when there is
    /// none.
    #[inline(always)]
    pub(crate) fn exit(&mut self, name: u32, now: u64) -> u64 {
        let Some(top) = self.entered_top() else { return count_unmatched_exit() };
        if top.kind_flags & (STEP | FORKED) == 0 && (name == 0 || top.name == name) {
            return self.pop_frame(&top, now);
        }
        self.exit_below_top(name, now)
    }

    /// Exits the scope called `name`. If it is the innermost one, also logs its part in a backward
    /// pass.
    pub(crate) fn exit_autograd(&mut self, name: u32, now: u64, call: AutogradCall) {
        let is_top = self.entered_top().is_some_and(|top| top.name == name);
        self.autograd = is_top.then_some(call);
        self.exit(name, now);
        self.autograd = None;
    }

    /// Returns the nodes of the innermost scope, or the roots.
    #[inline(always)]
    pub(crate) fn top_nodes(&self) -> NodePair {
        task::frame_nodes(self.top_frame())
    }

    /// Finds or makes a child of `parent` in each tree that the active sessions need.
    #[inline(always)]
    pub(crate) fn child_nodes(
        &mut self,
        parent: NodePair,
        name: u32,
        kind: NodeKind,
        active: u64,
        python: u64,
    ) -> NodePair {
        let shadow = active & !python;
        let mut child = parent;
        if shadow != 0 {
            child.shadow = self.child(parent.shadow, name, kind, shadow);
        }
        if python != 0 {
            child.python = self.child(parent.python, name, kind, python);
        }
        child
    }

    /// Finds or makes one node. Returns `<lost>` below the root when the tree is full.
    #[inline(always)]
    pub(crate) fn child(&mut self, parent: u32, name: u32, kind: NodeKind, sessions: u64) -> u32 {
        let key = NodeKey { parent, name, kind, sessions };
        match self.index.child(&self.tree.nodes, &key) {
            Some(node) => node,
            None => self.lost_node(parent),
        }
    }

    #[cold]
    fn lost_node(&mut self, parent: u32) -> u32 {
        losses::count(LossCause::Nodes);
        let root = if self.is_in_python_tree(parent) { PYTHON_ROOT } else { SHADOW_ROOT };
        let key =
            NodeKey { parent: root, name: names::LOST, kind: NodeKind::Scope, sessions: u64::MAX };
        self.index.child_beyond_limit(&self.tree.nodes, &key).unwrap_or(root)
    }

    fn is_in_python_tree(&self, mut node: u32) -> bool {
        while node > PYTHON_ROOT {
            node = self.tree.nodes.get(node).map_or(SHADOW_ROOT, Node::parent);
        }
        node == PYTHON_ROOT
    }

    #[inline(always)]
    pub(super) fn push(&mut self, frame: &OpenFrame) {
        let Some(slot) = self.tree.frames.ensure(self.depth()) else { return };
        slot.link_above(self.top_frame());
        self.write_frame(slot, frame);
        self.cache_expected(slot);
        self.tree.set_top(slot);
        self.open_operators += u32::from(is_launch_operator(frame.kind_flags));
    }

    /// Writes the contents of a frame, and what the fast path caches in it.
    #[inline(always)]
    fn write_frame(&self, slot: &Frame, frame: &OpenFrame) {
        slot.set(frame);
        let key = name_kind(frame.name, frame.kind_flags & 0xff);
        let node = self.tree.nodes.get(frame.shadow_node);
        slot.node.set(node.filter(|node| node.matches(key, frame.sessions)));
        update_exit_name(slot);
    }

    /// Caches the scope's node as the one to expect next here, if it is a child of the innermost
    /// scope's node.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the link is reached through another link")]
    fn cache_expected(&self, slot: &Frame) {
        // SAFETY: a link inside a node of the tree, which `self` keeps alive.
        let expected = unsafe { self.tree.expected.get() };
        if let (Some(expected), Some(node)) = (expected, slot.child_node_of(self.top_frame())) {
            expected.set(Some(node));
        }
    }

    /// Returns the innermost frame, or the bottom frame.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the frame is reached by a pointer")]
    pub(super) fn top_frame(&self) -> &Frame {
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
    pub(super) fn top(&self) -> Option<OpenFrame> {
        let top = self.top_frame();
        (top.depth() > 0).then(|| top.copy())
    }

    #[inline(always)]
    pub(super) fn frame(&self, index: u32) -> Option<OpenFrame> {
        self.tree.frames.get(index).map(Frame::copy)
    }

    /// Returns a copy of the innermost frame, unless it is inherited.
    #[inline(always)]
    pub(super) fn entered_top(&self) -> Option<OpenFrame> {
        let top = self.top_frame();
        (top.depth() > self.inherited).then(|| top.copy())
    }

    /// Pops the innermost frame and records it.
    #[inline(always)]
    fn pop_frame(&mut self, top: &OpenFrame, now: u64) -> u64 {
        self.count_before_exit(top);
        let version = CONTROL.version();
        let entry = completed_entry(top, now);
        self.record(&entry);
        self.cache_fast_path(self.top_frame(), version);
        self.drop_top(entry.nanos);
        top.id
    }

    pub(super) fn pop(&mut self, now: u64) -> u64 {
        self.entered_top().map_or(0, |top| self.pop_frame(&top, now))
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

    /// Exits a scope that is not the innermost one, together with all scopes inside it. Those may
    /// be a step that marey opened, scopes whose exit was forgotten, and scopes of another
    /// greenlet.
    #[cold]
    #[inline(never)]
    fn exit_below_top(&mut self, name: u32, now: u64) -> u64 {
        let entered = self.inherited..self.depth();
        let is_called = |frame: OpenFrame| name == 0 || frame.name == name;
        let wanted = entered
            .rev()
            .find(|&index| !self.is_step(index) && self.frame(index).is_some_and(is_called));
        let Some(wanted) = wanted else { return count_unmatched_exit() };
        while self.depth() > wanted + 1 {
            self.end_unclosed(now);
        }
        if self.has_flag(wanted, FORKED) { self.drop_forked() } else { self.pop(now) }
    }

    /// Exits the scope with this id if it is still open, and logs its part in a backward pass.
    /// Scopes inside it stay open, except steps that marey opened. Returns whether the scope was
    /// open.
    #[inline(always)]
    pub(crate) fn exit_only(&mut self, id: u64, now: u64, call: Option<AutogradCall>) -> bool {
        self.autograd = call;
        let was_open = match self.entered_top() {
            Some(top) if top.id == id && top.kind_flags & FORKED == 0 => {
                self.pop_frame(&top, now);
                true
            }
            _ => self.exit_only_below_top(id, now),
        };
        self.autograd = None;
        was_open
    }

    #[cold]
    #[inline(never)]
    fn exit_only_below_top(&mut self, id: u64, now: u64) -> bool {
        let mut entered = (self.inherited..self.depth()).rev();
        let Some(index) =
            entered.find(|&index| self.frame(index).is_some_and(|frame| frame.id == id))
        else {
            return self.exit_outliving(id, now);
        };
        while self.depth() > index + 1 && self.is_step(self.depth() - 1) {
            self.drop_step();
        }
        if self.depth() > index + 1 {
            self.remove_below_top(index, now);
        } else if self.has_flag(index, FORKED) {
            self.drop_forked();
        } else {
            self.pop(now);
        }
        true
    }

    /// Removes and records a frame that is not the innermost one. The frames above it keep their
    /// nodes.
    fn remove_below_top(&mut self, index: u32, now: u64) {
        let Some(frame) = self.frame(index) else { return };
        if frame.kind_flags & FORKED == 0 {
            let entry = completed_entry(&frame, now);
            self.record(&entry);
            if let Some(parent) = index.checked_sub(1).and_then(|index| self.tree.frames.get(index))
            {
                parent.add_child_nanos(entry.nanos);
            }
        }
        self.open_operators -= u32::from(is_launch_operator(frame.kind_flags));
        for index in index + 1..self.depth() {
            if let (Some(inner), Some(slot)) = (self.frame(index), self.tree.frames.get(index - 1))
            {
                self.write_frame(slot, &inner);
            }
        }
        if let Some(outer) = self.top_frame().below() {
            self.tree.set_top(outer);
        }
    }

    /// Ends the innermost frame because a scope around it ends. Drops it if it is a step or was
    /// forked, and keeps it open outside of the stack if it may outlive that scope; otherwise counts
    /// a missing exit and records it.
    pub(super) fn end_unclosed(&mut self, now: u64) {
        let index = self.depth() - 1;
        if self.is_step(index) {
            self.drop_step();
        } else if self.has_flag(index, FORKED) {
            self.drop_forked();
        } else if self.has_flag(index, OUTLIVES) && self.outliving.len() < MAX_OUTLIVING {
            self.outliving.extend(self.entered_top());
            self.publish_outliving();
            self.drop_top(0);
        } else {
            losses::count(LossCause::Unclosed);
            self.pop(now);
        }
    }

    /// Exits the scope with this id if it is open outside of the stack. Returns whether it was.
    fn exit_outliving(&mut self, id: u64, now: u64) -> bool {
        let Some(index) = self.outliving.iter().rposition(|frame| frame.id == id) else {
            return false;
        };
        let frame = self.outliving.swap_remove(index);
        self.publish_outliving();
        self.record(&completed_entry(&frame, now));
        true
    }

    /// Publishes the sessions that may still record a scope outside of the stack, so that no other
    /// session gets their bits.
    fn publish_outliving(&self) {
        let sessions = self.outliving.iter().fold(0, |bits, frame| bits | frame.sessions);
        self.tree.outliving_sessions.store(sessions, Ordering::Relaxed);
    }

    /// Ends the scopes that are open outside of the stack, because their thread ends.
    pub(super) fn end_outliving(&mut self, now: u64) {
        for frame in std::mem::take(&mut self.outliving) {
            losses::count(LossCause::Unclosed);
            self.record(&completed_entry(&frame, now));
        }
    }

    pub(super) fn has_flag(&self, index: u32, flag: u32) -> bool {
        self.frame(index).is_some_and(|frame| frame.kind_flags & flag != 0)
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

    /// Drops a scope that the parent process entered. The parent records it.
    pub(super) fn drop_forked(&mut self) -> u64 {
        let id = self.entered_top().map_or(0, |frame| frame.id);
        self.drop_top(0);
        id
    }

    /// Enters an operator below `parent`, by default below the innermost scope. If an operator is
    /// in progress, only counts the nesting.
    pub(crate) fn enter_operator(
        &mut self,
        name: u32,
        python_leaf: u32,
        parent: Option<NodePair>,
    ) -> u64 {
        if self.open_operators > 0 {
            self.nested_operators += 1;
            return 0;
        }
        let parent = parent.unwrap_or_else(|| self.parent_nodes());
        self.enter_child_of(parent, name, NodeKind::Operator, NAMES_KERNELS, python_leaf)
    }

    /// Exits the operator in progress.
    pub(crate) fn exit_operator(&mut self, name: u32) -> u64 {
        if self.nested_operators > 0 {
            self.nested_operators -= 1;
            return 0;
        }
        self.exit(name, clock::ticks())
    }

    /// Exits the scopes that other threads have ended, each alone and as of that time.
    #[cold]
    #[inline(never)]
    pub(super) fn exit_ended_remotely(&mut self) {
        let tree = Arc::clone(&self.tree);
        for (scope, ticks) in tree.remote_exits.take() {
            self.exit_only(scope, ticks, None);
        }
    }

    /// Exits the scope with this id and the scopes inside it, if it is still open. Returns its id
    /// or 0.
    pub(crate) fn exit_with_id(&mut self, id: u64, now: u64) -> u64 {
        let mut entered = (self.inherited..self.depth()).rev();
        let Some(wanted) =
            entered.find(|&index| self.frame(index).is_some_and(|frame| frame.id == id))
        else {
            return if self.exit_outliving(id, now) { id } else { 0 };
        };
        while self.depth() > wanted + 1 {
            self.end_unclosed(now);
        }
        if self.has_flag(wanted, FORKED) { self.drop_forked() } else { self.pop(now) }
    }

    /// Returns the id of the innermost scope, 0 for none.
    pub(crate) fn top_id(&self) -> u64 {
        self.top().map_or(0, |top| top.id)
    }

    /// Adds to the child time of the scope with this id, if it is still open. Children that overlap
    /// may sum up to more than the scope's time; its exclusive time is then 0.
    pub(crate) fn add_child_nanos(&self, id: u64, nanos: u64) {
        let entered = (self.inherited..self.depth()).rev();
        let frame =
            entered.filter_map(|index| self.tree.frames.get(index)).find(|frame| frame.id() == id);
        if let Some(frame) = frame {
            frame.add_child_nanos(nanos);
        }
    }

    /// Returns the name of the innermost scope that the program entered on this thread, 0 for none.
    pub(crate) fn top_name(&self) -> u32 {
        (self.inherited..self.depth())
            .rev()
            .find(|&index| !self.is_step(index))
            .and_then(|index| self.frame(index))
            .map_or(0, |frame| frame.name)
    }

    /// Writes the names of the open scopes, outermost first, or those of the path of `python_leaf`
    /// if it is given. Returns their number, which may be larger than `names`.
    pub(crate) fn context_names(&mut self, python_leaf: Option<u32>, names: &mut [u32]) -> usize {
        let mut path = std::mem::take(&mut self.path);
        if let Some(mut node) = python_leaf {
            while node > PYTHON_ROOT
                && let Some(frame) = self.tree.nodes.get(node)
            {
                path.push(frame.name());
                node = frame.parent();
            }
            path.reverse();
        } else {
            path.extend((0..self.depth()).filter_map(|index| Some(self.frame(index)?.name)));
        }
        for (slot, name) in names.iter_mut().zip(&path) {
            *slot = *name;
        }
        let len = path.len();
        path.clear();
        self.path = path;
        len
    }

    /// Returns the number of scopes on the stack that a session sees.
    pub(crate) fn visible_depth(&self, slot: u32) -> u32 {
        let visible = (0..self.depth()).filter(|&index| {
            self.frame(index).is_some_and(|frame| frame.sessions & bit(slot) != 0)
        });
        visible.count() as u32
    }
}

/// Updates the name by which the fast path may exit a frame.
#[inline(always)]
fn update_exit_name(frame: &Frame) {
    let (name, kind_flags) = frame.name_and_kind_flags();
    let is_fast = kind_flags & (INHERITED | STEP | FORKED | NAMES_KERNELS) == 0
        && frame.below().is_some_and(|below| {
            below.kind_flags() & CLOSING == 0 && frame.child_node_of(below).is_some()
        });
    frame.exit_name.store(if is_fast { name.into() } else { NO_FAST_EXIT }, Ordering::Relaxed);
}

/// Initialises the bottom frame of a new thread, which is below all scopes.
pub(super) fn init_bottom(tree: &ThreadTree) {
    tree.bottom.set(&OpenFrame {
        name: names::LOST,
        kind_flags: NodeKind::Root as u32 | INHERITED,
        shadow_node: SHADOW_ROOT,
        python_node: PYTHON_ROOT,
        state: 0,
        sessions: u64::MAX,
        start_ticks: 0,
        child_nanos: 0,
        id: 0,
    });
    tree.bottom.exit_name.store(NO_FAST_EXIT, Ordering::Relaxed);
    tree.bottom.node.set(tree.nodes.get(SHADOW_ROOT));
    tree.set_top(&tree.bottom);
}

#[inline(always)]
pub(super) fn open_frame_nodes(frame: &OpenFrame) -> NodePair {
    NodePair { shadow: frame.shadow_node, python: frame.python_node }
}

#[inline(always)]
fn completed_entry(frame: &OpenFrame, now: u64) -> Entry {
    Entry::new(open_frame_nodes(frame), frame.sessions, frame.start_ticks..now, frame.child_nanos)
}

/// Whether a launch hook entered this operator on this thread. Other operators are entered like any
/// scope.
#[inline(always)]
fn is_launch_operator(kind_flags: u32) -> bool {
    kind_flags & NAMES_KERNELS != 0
}

#[cold]
fn count_unmatched_exit() -> u64 {
    losses::count(LossCause::UnmatchedExit);
    0
}
