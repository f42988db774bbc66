//! The innermost node of a thread that runs a task of an event loop, or other code in an entered
//! context.
//!
//! A task's scopes are not on the thread's stack: see [`crate::detached`]. A launch is attributed
//! to the task's innermost scope, unless the thread has entered a scope of its own since.

use super::{Local, NodePair, ROOTS, STEP, stack};
use crate::detached::Detached;
use crate::thread::Frame;
use crate::tree::SHADOW_ROOT;

/// A cache of one entry: the nodes, in this thread's tree, of a scope that another thread entered.
pub(super) struct ForeignNodes {
    /// The scope's id, 0 for none.
    scope: u64,
    nodes: NodePair,
}

impl ForeignNodes {
    pub(super) const NONE: Self = Self { scope: 0, nodes: ROOTS };
}

impl Local {
    /// Returns the innermost nodes: those of `task`, the innermost scope of the task that the
    /// thread runs, or those of the thread's own stack.
    #[inline]
    pub(super) fn innermost_nodes(&mut self, task: Option<&Detached>) -> NodePair {
        if let Some(task) = task.and_then(Detached::effective) {
            return self.nodes_of_task(task);
        }
        if self.tree.task.node() != SHADOW_ROOT {
            self.set_task_node(SHADOW_ROOT);
        }
        self.parent_nodes()
    }

    fn nodes_of_task(&mut self, task: &Detached) -> NodePair {
        // A step does not count: marey opens it, whichever task is running.
        if let Some(top) = self.entered_top()
            && top.kind_flags & STEP == 0
            && top.start_ticks > task.start_ticks()
        {
            return stack::nodes_of(&top);
        }
        let nodes = task.nodes_in(self);
        self.set_task_node(nodes.shadow);
        nodes
    }

    /// Publishes the node of the task scope that this thread is in, for threads that follow it.
    #[inline]
    pub(crate) fn set_task_node(&self, node: u32) {
        self.tree.task.set(node, self.top_id());
    }

    /// Returns the nodes, in this thread's tree, of a scope that another thread has entered. `find`
    /// computes them, unless the scope is the one of the last call.
    pub(crate) fn foreign_nodes(
        &mut self,
        scope: u64,
        find: impl FnOnce(&mut Self) -> NodePair,
    ) -> NodePair {
        if self.foreign.scope != scope || scope == 0 {
            self.foreign = ForeignNodes { scope, nodes: find(self) };
        }
        self.foreign.nodes
    }
}

/// Reads the nodes of a frame without copying the rest of it.
#[inline(always)]
pub(super) fn nodes_of(frame: &Frame) -> NodePair {
    NodePair { shadow: frame.shadow_node(), python: frame.python_node() }
}
