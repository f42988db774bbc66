//! Where a thread begins and ends: below the main thread's scopes, or below those from before a fork.

use super::{FOREIGN, INHERITED, Local, ROOTS, STEP, give, register, take_local};
use crate::clock;
use crate::control::CONTROL;
use crate::registry;
use crate::thread::{OpenFrame, Position, ThreadTree};
use crate::tree::{PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::NodeKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The main thread, as a thread that follows it saw it last.
pub(super) struct Followed {
    main: Arc<ThreadTree>,
    position: Option<Position>,
    /// Kept for its memory.
    frames: Vec<OpenFrame>,
}

impl Local {
    /// Begins below the main thread's scopes, and follows that thread from then on if it is one of PyTorch's
    /// that run backward.
    pub(super) fn begin_below_main(&mut self) {
        let Some(main) = registry::main_tree(&self.tree) else { return };
        if is_autograd(&self.tree.name) {
            self.follows_main = true;
            self.followed = Some(Followed { main, position: None, frames: Vec::new() });
            self.inherit_anew();
        } else {
            self.take_main_over(&main.open_frames());
        }
    }

    /// Stands where the main thread does now. While that thread is where it was, as it is during backward,
    /// this is a few loads.
    #[inline]
    pub(super) fn inherit(&mut self) {
        let Some(followed) = &self.followed else { return };
        let position = followed.main.position();
        // A main thread that is busy is not waiting for this one: it says nothing new.
        if position.is_some() && position != followed.position {
            self.inherit_anew();
        }
    }

    #[cold]
    #[inline(never)]
    fn inherit_anew(&mut self) {
        let Some(mut followed) = self.followed.take() else { return };
        // Read first: if the scopes change meanwhile, the next look finds another position.
        followed.position = followed.main.position();
        followed.main.copy_open_frames(&mut followed.frames);
        self.take_main_over(&followed.frames);
        if let Some(position) = followed.position {
            self.take_task_over(&followed.main, position.task_node);
        }
        // Whoever enters a scope below this one looks first where the main thread is now.
        self.top_frame().node.set(None);
        self.tree.stand_on(self.top_frame());
        self.followed = Some(followed);
    }

    /// Stands below the main thread's stack.
    fn take_main_over(&mut self, frames: &[OpenFrame]) {
        self.inherited = 0;
        self.open_operators = 0;
        self.tree.stand_on(&self.tree.bottom);
        self.take_over(frames, INHERITED);
        self.inherited = self.depth();
    }

    /// Stands in the scope of the task that the main thread runs, inside its stack.
    fn take_task_over(&mut self, main: &ThreadTree, task_node: u32) {
        let shadow_node = self.copy_path(main, task_node);
        let Some(node) = self.tree.nodes.get(shadow_node) else { return };
        if shadow_node == SHADOW_ROOT {
            return;
        }
        let frame = OpenFrame {
            name: node.name(),
            kind_flags: node.kind() as u32 | INHERITED,
            shadow_node,
            python_node: PYTHON_ROOT,
            state: 0,
            sessions: node.sessions() & CONTROL.live.load(Ordering::Relaxed),
            start_ticks: clock::ticks(),
            child_nanos: 0,
            id: 0,
        };
        self.push(&frame);
        self.inherited = self.depth();
    }

    /// Finds or makes the path of another thread's node; returns its node here.
    pub(crate) fn copy_path(&mut self, origin: &ThreadTree, node: u32) -> u32 {
        let mut path = std::mem::take(&mut self.path);
        let mut at = node;
        while at > PYTHON_ROOT
            && let Some(node) = origin.nodes.get(at)
        {
            path.push(at);
            at = node.parent();
        }
        for node in path.drain(..).rev() {
            if let Some(node) = origin.nodes.get(node) {
                at = self.child(at, node.name(), node.kind(), node.sessions());
            }
        }
        self.path = path;
        at
    }

    /// Stands below the given frames of another thread or process.
    pub(super) fn take_over(&mut self, frames: &[OpenFrame], flag: u32) {
        let python = CONTROL.python.load(Ordering::Relaxed);
        let mut place = ROOTS;
        for frame in frames {
            let kind = NodeKind::from_u8(frame.kind_flags as u8);
            let sessions = frame.sessions & CONTROL.live.load(Ordering::Relaxed);
            place = self.below(place, frame.name, kind, sessions & !python, 0);
            let copy = OpenFrame {
                shadow_node: place.shadow,
                python_node: PYTHON_ROOT,
                kind_flags: kind as u32 | flag,
                state: 0,
                sessions,
                ..*frame
            };
            self.push(&copy);
        }
    }

    /// Closes everything that is open, because the thread ends.
    pub(super) fn unwind(&mut self) {
        if !CONTROL.is_live() || self.tree.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
            return;
        }
        let now = clock::ticks();
        if !self.tree.seq.begin() {
            return;
        }
        while self.depth() > self.inherited {
            self.close_inner(now);
        }
        self.tree.seq.end();
    }
}

/// In the child of a fork: the thread begins anew below the scopes that it had open.
pub(crate) fn restart_after_fork() {
    let Some(old) = take_local() else { return };
    let frames = old.tree.open_frames();
    register();
    let Some(mut local) = take_local() else { return };
    local.take_over(&frames, FOREIGN);
    give(local);
}

/// Whether a frame is an entry of this thread and process that is still running.
pub(crate) fn is_running_entry(frame: &OpenFrame) -> bool {
    frame.kind_flags & (INHERITED | STEP | FOREIGN) == 0
}

/// Whether a thread of this name is a worker of PyTorch's autograd engine, which runs the backward pass
/// of whatever the main thread is in, again and again.
fn is_autograd(thread_name: &str) -> bool {
    thread_name.starts_with("pt_autograd")
}
