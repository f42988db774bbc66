//! The slow path: enters and exits scopes in all the cases that [`super::fast_path`] refuses.
//!
//! Verbs: *exit* ends a scope on behalf of the program, *pop* removes the innermost frame and
//! records it, *drop* removes a frame without recording it.

use super::stack::completed_entry;
use super::{
    AutogradCall, FORKED, Local, MAX_OUTLIVING, NAMES_KERNELS, NodePair, OUTLIVES, STEP, task,
};
use crate::clock;
use crate::control::CONTROL;
use crate::detached::Detached;
use crate::losses;
use crate::names;
use crate::scope_frame::OpenScope;
use crate::tree::{Node, NodeKey, PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Local {
    /// Enters a scope and returns its id. `python_leaf` is the node of the innermost Python frame
    /// if a session asks for Python paths.
    #[inline(always)]
    pub(crate) fn enter(&mut self, name_id: u32, kind: NodeKind, python_leaf: u32) -> u64 {
        let parent = self.parent_nodes();
        self.enter_child_of(parent, name_id, kind, 0, python_leaf)
    }

    /// Enters a scope below `task`, the innermost scope of the task that the thread runs, or below
    /// the thread's innermost scope.
    pub(crate) fn enter_in_task(
        &mut self,
        name_id: u32,
        kind: NodeKind,
        python_leaf: u32,
        task: Option<&Detached>,
    ) {
        let parent = self.innermost_nodes(task);
        self.enter_child_of(parent, name_id, kind, 0, python_leaf);
    }

    /// Does the same for a scope that may end after the scopes around it. Returns its id.
    pub(crate) fn enter_outliving(
        &mut self,
        name_id: u32,
        kind: NodeKind,
        python_leaf: u32,
        task: Option<&Detached>,
    ) -> u64 {
        let parent = self.innermost_nodes(task);
        self.enter_child_of(parent, name_id, kind, OUTLIVES, python_leaf)
    }

    /// Enters an operator below `parent`, by default below the innermost scope. If an operator is
    /// in progress, only counts the nesting.
    pub(crate) fn enter_operator(
        &mut self,
        name_id: u32,
        python_leaf: u32,
        parent: Option<NodePair>,
    ) -> u64 {
        if self.open_operators > 0 {
            self.nested_operators += 1;
            return 0;
        }
        let parent = parent.unwrap_or_else(|| self.parent_nodes());
        self.enter_child_of(parent, name_id, NodeKind::Operator, NAMES_KERNELS, python_leaf)
    }

    /// Enters a scope below `parent`, which need not be on the stack. Its frame gets `flags`.
    #[inline(always)]
    fn enter_child_of(
        &mut self,
        parent: NodePair,
        name_id: u32,
        kind: NodeKind,
        flags: u32,
        python_leaf: u32,
    ) -> u64 {
        let (active_sessions, python_sessions) = CONTROL.recording_sessions();
        let mut parent = parent.with_python_leaf(python_leaf);
        let mut state_name_id = self.state_name_id();
        if flags & NAMES_KERNELS != 0 && state_name_id != 0 {
            parent = self.child_nodes(
                parent,
                state_name_id,
                NodeKind::State,
                active_sessions,
                python_sessions,
            );
            state_name_id = 0;
        }
        let nodes = self.child_nodes(parent, name_id, kind, active_sessions, python_sessions);
        let id = self.next_id();
        self.count_before_entry();
        self.push(&OpenScope {
            name_id,
            kind_flags: kind as u32 | flags,
            shadow_node: nodes.shadow_node,
            python_node: nodes.python_node,
            state_name_id,
            sessions: active_sessions,
            start_ticks: clock::ticks(),
            child_nanos: 0,
            id,
        });
        id
    }

    /// Exits the innermost scope with this name (0: any name). Returns its id, or 0 when there is
    /// none.
    #[inline(always)]
    pub(crate) fn exit(&mut self, name_id: u32, now_ticks: u64) -> u64 {
        let Some(top) = self.entered_top() else { return count_unmatched_exit() };
        if top.kind_flags & (STEP | FORKED) == 0 && (name_id == 0 || top.name_id == name_id) {
            return self.pop_frame(&top, now_ticks);
        }
        self.exit_below_top(name_id, now_ticks)
    }

    /// Exits the scope with this name. If it is the innermost one, also logs its part in a backward
    /// pass.
    pub(crate) fn exit_autograd(&mut self, name_id: u32, now_ticks: u64, call: AutogradCall) {
        let is_top = self.entered_top().is_some_and(|top| top.name_id == name_id);
        self.autograd = is_top.then_some(call);
        self.exit(name_id, now_ticks);
        self.autograd = None;
    }

    /// Exits the operator in progress.
    pub(crate) fn exit_operator(&mut self, name_id: u32) -> u64 {
        if self.nested_operators > 0 {
            self.nested_operators -= 1;
            return 0;
        }
        self.exit(name_id, clock::ticks())
    }

    /// Exits the scope with this id and the scopes inside it, if it is still open. Returns its id
    /// or 0.
    pub(crate) fn exit_with_id(&mut self, id: u64, now_ticks: u64) -> u64 {
        match self.entered_index(id) {
            Some(index) => self.exit_with_inner(index, now_ticks),
            None if self.exit_outliving(id, now_ticks) => id,
            None => 0,
        }
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

    /// Exits the scope with this id if it is still open, and logs its part in a backward pass.
    /// Scopes inside it stay open, except steps that marey opened. Returns whether the scope was
    /// open.
    #[inline(always)]
    pub(crate) fn exit_only(
        &mut self,
        id: u64,
        now_ticks: u64,
        call: Option<AutogradCall>,
    ) -> bool {
        self.autograd = call;
        let was_open = match self.entered_top() {
            Some(top) if top.id == id && top.kind_flags & FORKED == 0 => {
                self.pop_frame(&top, now_ticks);
                true
            }
            _ => self.exit_only_below_top(id, now_ticks),
        };
        self.autograd = None;
        was_open
    }

    /// Exits a scope that is not the innermost one, together with all scopes inside it. Those may
    /// be a step that marey opened, scopes whose exit was forgotten, and scopes of another
    /// greenlet.
    #[cold]
    #[inline(never)]
    fn exit_below_top(&mut self, name_id: u32, now_ticks: u64) -> u64 {
        let has_name = |scope: OpenScope| name_id == 0 || scope.name_id == name_id;
        let index = (self.inherited_frames..self.depth())
            .rev()
            .find(|&index| !self.is_step(index) && self.open_scope(index).is_some_and(has_name));
        index.map_or_else(count_unmatched_exit, |index| self.exit_with_inner(index, now_ticks))
    }

    /// Exits the scope at this depth and all scopes inside it. Returns its id.
    fn exit_with_inner(&mut self, index: u32, now_ticks: u64) -> u64 {
        while self.depth() > index + 1 {
            self.end_unclosed(now_ticks);
        }
        if self.has_flag(index, FORKED) { self.drop_forked() } else { self.pop(now_ticks) }
    }

    #[cold]
    #[inline(never)]
    fn exit_only_below_top(&mut self, id: u64, now_ticks: u64) -> bool {
        let Some(index) = self.entered_index(id) else {
            return self.exit_outliving(id, now_ticks);
        };
        while self.depth() > index + 1 && self.is_step(self.depth() - 1) {
            self.drop_step();
        }
        if self.depth() > index + 1 {
            self.remove_below_top(index, now_ticks);
        } else if self.has_flag(index, FORKED) {
            self.drop_forked();
        } else {
            self.pop(now_ticks);
        }
        true
    }

    /// Ends the innermost frame because a scope around it ends. Drops it if it is a step or was
    /// forked, and keeps it open outside of the stack if it may outlive that scope; otherwise counts
    /// a missing exit and records it.
    pub(super) fn end_unclosed(&mut self, now_ticks: u64) {
        let index = self.depth() - 1;
        if self.is_step(index) {
            self.drop_step();
        } else if self.has_flag(index, FORKED) {
            self.drop_forked();
        } else if self.has_flag(index, OUTLIVES) && self.outliving_scopes.len() < MAX_OUTLIVING {
            self.outliving_scopes.extend(self.entered_top());
            self.publish_outliving();
            self.drop_top(0);
        } else {
            losses::count(LossCause::Unclosed);
            self.pop(now_ticks);
        }
    }

    /// Exits the scope with this id if it is open outside of the stack. Returns whether it was.
    fn exit_outliving(&mut self, id: u64, now_ticks: u64) -> bool {
        let Some(index) = self.outliving_scopes.iter().rposition(|scope| scope.id == id) else {
            return false;
        };
        let scope = self.outliving_scopes.swap_remove(index);
        self.publish_outliving();
        self.record(&completed_entry(&scope, now_ticks));
        true
    }

    /// Publishes the sessions that may still record a scope outside of the stack, so that no other
    /// session gets their bits.
    fn publish_outliving(&self) {
        let sessions = self.outliving_scopes.iter().fold(0, |bits, scope| bits | scope.sessions);
        self.tree.outliving_sessions.store(sessions, Ordering::Relaxed);
    }

    /// Ends the scopes that are open outside of the stack, because their thread ends.
    pub(super) fn end_outliving(&mut self, now_ticks: u64) {
        for scope in std::mem::take(&mut self.outliving_scopes) {
            losses::count(LossCause::Unclosed);
            self.record(&completed_entry(&scope, now_ticks));
        }
    }

    /// Drops a scope that the parent process entered. The parent records it.
    pub(super) fn drop_forked(&mut self) -> u64 {
        let id = self.entered_top().map_or(0, |scope| scope.id);
        self.drop_top(0);
        id
    }

    /// Returns the nodes below which the next scope is entered. If this thread follows the main
    /// thread, first updates the inherited frames.
    #[inline(always)]
    pub(super) fn parent_nodes(&mut self) -> NodePair {
        if self.depth() == self.inherited_frames && self.follows_main {
            self.follow_main();
        }
        self.top_nodes()
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
        name_id: u32,
        kind: NodeKind,
        active_sessions: u64,
        python_sessions: u64,
    ) -> NodePair {
        let shadow_sessions = active_sessions & !python_sessions;
        let mut child = parent;
        if shadow_sessions != 0 {
            child.shadow_node = self.child(parent.shadow_node, name_id, kind, shadow_sessions);
        }
        if python_sessions != 0 {
            child.python_node = self.child(parent.python_node, name_id, kind, python_sessions);
        }
        child
    }

    /// Finds or makes one node. Returns `<lost>` below the root when the tree is full.
    #[inline(always)]
    pub(crate) fn child(
        &mut self,
        parent: u32,
        name_id: u32,
        kind: NodeKind,
        sessions: u64,
    ) -> u32 {
        let key = NodeKey { parent, name_id, kind, sessions };
        match self.index.child(&self.tree.nodes, &key) {
            Some(node) => node,
            None => self.lost_node(parent),
        }
    }

    #[cold]
    fn lost_node(&mut self, parent: u32) -> u32 {
        losses::count(LossCause::Nodes);
        let root = if self.is_in_python_tree(parent) { PYTHON_ROOT } else { SHADOW_ROOT };
        let key = NodeKey {
            parent: root,
            name_id: names::LOST_NAME_ID,
            kind: NodeKind::Scope,
            sessions: u64::MAX,
        };
        self.index.child_beyond_limit(&self.tree.nodes, &key).unwrap_or(root)
    }

    fn is_in_python_tree(&self, mut node: u32) -> bool {
        while node > PYTHON_ROOT {
            node = self.tree.nodes.get(node).map_or(SHADOW_ROOT, Node::parent);
        }
        node == PYTHON_ROOT
    }
}

#[cold]
fn count_unmatched_exit() -> u64 {
    losses::count(LossCause::UnmatchedExit);
    0
}
