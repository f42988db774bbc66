//! The start and the end of a thread's stack: copies scopes from the main thread or from before a
//! fork, and exits the scopes that are open when the thread ends.

use super::{FORKED, INHERITED, Local, ROOTS, STEP, install, register_thread, steps, uninstall};
use crate::clock;
use crate::control::CONTROL;
use crate::registry;
use crate::scope_frame::OpenScope;
use crate::thread::{StackPosition, ThreadTree};
use crate::tree::{PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::NodeKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The main thread, as this thread last saw it.
pub(super) struct FollowedThread {
    main: Arc<ThreadTree>,
    position: Option<StackPosition>,
    /// A buffer, kept between calls to reuse its allocation.
    scopes: Vec<OpenScope>,
}

impl Local {
    /// Copies the main thread's open scopes as the base of this thread's stack. An autograd thread
    /// of PyTorch keeps following the main thread from then on.
    ///
    /// If the process's main thread has not recorded, the first thread that has recorded stands in
    /// for it. Only autograd threads follow that thread; other threads do not inherit from it.
    pub(super) fn inherit_main_stack(&mut self) {
        let Some(main) = registry::main_tree(&self.tree) else { return };
        if is_autograd(&self.tree.name) {
            self.follows_main = true;
            self.followed = Some(FollowedThread { main, position: None, scopes: Vec::new() });
            self.refresh_inherited();
        } else if main.is_of_main_thread() {
            self.adopt_main_stack(&main.open_scopes());
        }
    }

    /// Updates the inherited scopes if the main thread has moved. While the main thread stays in
    /// one scope, as during backward, this is a few loads.
    #[inline]
    pub(super) fn follow_main(&mut self) {
        let Some(followed) = &self.followed else { return };
        let position = followed.main.stack_position();
        // A main thread in the middle of an event is not waiting for this thread. Keep the old
        // position.
        if position.is_some() && position != followed.position {
            self.refresh_inherited();
        }
    }

    #[cold]
    #[inline(never)]
    fn refresh_inherited(&mut self) {
        let Some(mut followed) = self.followed.take() else { return };
        // Read the position before the scopes. If they change in between, the next call sees
        // another position and copies again.
        followed.position = followed.main.stack_position();
        followed.main.copy_open_scopes(&mut followed.scopes);
        self.adopt_main_stack(&followed.scopes);
        if let Some(position) = followed.position {
            self.adopt_main_task(&followed.main, position.task_node);
        }
        // Keep the fast path off this frame, because the next scope must first check whether the
        // main thread has moved.
        self.top_frame().node.set(None);
        self.tree.set_top(self.top_frame());
        self.followed = Some(followed);
    }

    /// Replaces the stack of this thread by a copy of the main thread's.
    fn adopt_main_stack(&mut self, scopes: &[OpenScope]) {
        self.inherited_frames = 0;
        self.open_operators = 0;
        self.tree.set_top(&self.tree.bottom);
        self.push_copies(scopes, INHERITED);
        self.inherited_frames = self.depth();
    }

    /// Pushes the innermost scope of the task that the main thread runs on top of the copied stack.
    fn adopt_main_task(&mut self, main: &ThreadTree, task_node: u32) {
        let shadow_node = self.copy_path(main, task_node);
        let Some(node) = self.tree.nodes.get(shadow_node) else { return };
        if shadow_node == SHADOW_ROOT {
            return;
        }
        let scope = OpenScope {
            name_id: node.name_id(),
            kind_flags: node.kind() as u32 | INHERITED,
            shadow_node,
            python_node: PYTHON_ROOT,
            state_name_id: 0,
            sessions: node.sessions() & CONTROL.live_sessions.load(Ordering::Relaxed),
            start_ticks: clock::ticks(),
            child_nanos: 0,
            id: 0,
        };
        self.push(&scope);
        self.inherited_frames = self.depth();
    }

    /// Finds or makes the path of another thread's node in this tree. Returns the node here.
    pub(crate) fn copy_path(&mut self, origin: &ThreadTree, node: u32) -> u32 {
        let mut path = std::mem::take(&mut self.path);
        let mut current = node;
        while current > PYTHON_ROOT
            && let Some(node) = origin.nodes.get(current)
        {
            path.push(current);
            current = node.parent();
        }
        for node in path.drain(..).rev() {
            if let Some(node) = origin.nodes.get(node) {
                current = self.child(current, node.name_id(), node.kind(), node.sessions());
            }
        }
        self.path = path;
        current
    }

    /// Pushes copies of the open scopes of another thread or process, with an extra flag.
    pub(super) fn push_copies(&mut self, scopes: &[OpenScope], flag: u32) {
        let python_sessions = CONTROL.python_sessions.load(Ordering::Relaxed);
        let mut nodes = ROOTS;
        for scope in scopes {
            let kind = NodeKind::from_u8(scope.kind_flags as u8);
            let sessions = scope.sessions & CONTROL.live_sessions.load(Ordering::Relaxed);
            nodes = self.child_nodes(nodes, scope.name_id, kind, sessions & !python_sessions, 0);
            let copy = OpenScope {
                shadow_node: nodes.shadow_node,
                python_node: PYTHON_ROOT,
                kind_flags: kind as u32 | flag,
                state_name_id: 0,
                sessions,
                ..*scope
            };
            self.push(&copy);
        }
    }

    /// Exits all open scopes, because the thread ends.
    pub(super) fn exit_all_scopes(&mut self) {
        if !CONTROL.is_live() || self.tree.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
            return;
        }
        let now = clock::ticks();
        if !self.tree.seq.begin() {
            return;
        }
        while self.depth() > self.inherited_frames {
            self.end_unclosed(now);
        }
        self.end_outliving(now);
        self.tree.seq.end();
    }
}

/// Replaces the thread's recorder in the child of a fork. Scopes that were open at the fork stay on
/// the stack with the flag [`FORKED`].
pub(crate) fn restart_after_fork() {
    steps::begin_child();
    let Some(old) = uninstall() else { return };
    let scopes = old.tree.open_scopes();
    register_thread();
    let Some(mut local) = uninstall() else { return };
    local.push_copies(&scopes, FORKED);
    install(local);
}

/// Whether a scope was entered by this thread and process, and by the program.
pub(crate) fn is_entered_by_program(scope: &OpenScope) -> bool {
    scope.kind_flags & (INHERITED | STEP | FORKED) == 0
}

/// Whether a thread of this name is a worker of PyTorch's autograd engine. Such a thread runs many
/// backward passes, each for the scope that the main thread is in at the time.
fn is_autograd(thread_name: &str) -> bool {
    thread_name.starts_with("pt_autograd")
}
