//! Where a thread begins and ends: below the main thread's scopes, or below those from before a fork.

use super::{FOREIGN, INHERITED, Local, ROOTS, STEP, give, register, take_local};
use crate::clock;
use crate::control::CONTROL;
use crate::registry;
use crate::thread::OpenFrame;
use crate::tree::PYTHON_ROOT;
use marey_model::context::NodeKind;
use std::sync::atomic::Ordering;

impl Local {
    /// Takes over the main thread's stack as it is now.
    #[cold]
    pub(super) fn inherit(&mut self) {
        self.inherited = 0;
        self.open_operators = 0;
        self.tree.stand_on(&self.tree.bottom);
        let Some(main) = registry::main_tree(&self.tree) else { return };
        self.take_over(&main.open_frames(), INHERITED);
        self.inherited = self.depth();
        if self.follows_main {
            // Whoever enters a scope below this one looks first where the main thread is now.
            self.top_frame().node.set(None);
            self.tree.stand_on(self.top_frame());
        }
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
pub(super) fn is_autograd(thread_name: &str) -> bool {
    thread_name.starts_with("pt_autograd")
}
