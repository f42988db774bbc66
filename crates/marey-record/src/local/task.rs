//! Where a thread is that runs a task, which an event loop or another holder of contexts has given it.
//!
//! A task's scopes do not lie on the thread's stack: see [`crate::detached`]. A launch asks which of them
//! is the innermost one, and belongs there unless the thread has entered a scope of its own since.

use super::{Local, Place, ROOTS, STEP, stack};
use crate::detached::Detached;
use crate::thread::Frame;
use crate::tree::SHADOW_ROOT;

/// The path, in the tree of this thread, of another thread's scope: the one that was asked for last.
pub(super) struct ForeignPlace {
    /// The scope's id; 0 for none.
    scope: u64,
    place: Place,
}

impl ForeignPlace {
    pub(super) const NONE: Self = Self { scope: 0, place: ROOTS };
}

impl Local {
    /// Returns the thread's innermost place: that of `task`, the innermost scope of the task that it runs,
    /// or that of its own stack.
    #[inline]
    pub(super) fn innermost_place(&mut self, task: Option<&Detached>) -> Place {
        if let Some(task) = task.and_then(Detached::in_force) {
            return self.place_of_task(task);
        }
        if self.tree.task.node() != SHADOW_ROOT {
            self.stand_in_task(SHADOW_ROOT);
        }
        self.place_to_enter()
    }

    fn place_of_task(&mut self, task: &Detached) -> Place {
        // Steps are opened by marey itself, whichever task is running.
        if let Some(top) = self.top_own()
            && top.kind_flags & STEP == 0
            && top.start_ticks > task.start_ticks()
        {
            return stack::place_of(&top);
        }
        let place = task.place_in(self);
        self.stand_in_task(place.shadow);
        place
    }

    /// Lets threads that follow this one know which scope of a task it is in, if any.
    #[inline]
    pub(crate) fn stand_in_task(&self, node: u32) {
        self.tree.task.set(node, self.top_id());
    }

    /// Returns the path in this thread's tree of a scope that another thread has entered; `find` is asked
    /// where it is not the scope of the last call.
    pub(crate) fn foreign_place(
        &mut self,
        scope: u64,
        find: impl FnOnce(&mut Self) -> Place,
    ) -> Place {
        if self.foreign.scope != scope || scope == 0 {
            self.foreign = ForeignPlace { scope, place: find(self) };
        }
        self.foreign.place
    }
}

/// A frame's place, without the rest of it.
#[inline(always)]
pub(super) fn place_of(frame: &Frame) -> Place {
    Place { shadow: frame.shadow_node(), python: frame.python_node() }
}
