//! Finds the innermost node of a thread that runs a task of an event loop, or other code in an
//! entered context.
//!
//! A task's scopes are not on the thread's stack: see [`crate::detached`]. A launch is attributed
//! to the task's innermost scope, unless the thread has entered a scope of its own since.

use super::{Local, NodePair, ROOTS, STEP, stack};
use crate::detached::Detached;
use crate::scope_frame::ScopeFrame;
use crate::tree::SHADOW_ROOT;

/// A cache of one entry: the nodes, in this thread's tree, of a scope that another thread entered.
pub(super) struct CopiedNodes {
    /// The scope's id, 0 for none.
    scope_id: u64,
    nodes: NodePair,
}

impl CopiedNodes {
    pub(super) const NONE: Self = Self { scope_id: 0, nodes: ROOTS };
}

impl Local {
    /// Returns the innermost nodes: of `task`, the innermost scope of the task that the thread
    /// runs, or else of the thread's own stack.
    #[inline]
    pub(super) fn innermost_nodes(&mut self, task: Option<&Detached>) -> NodePair {
        if let Some(task) = task.and_then(Detached::launch_scope) {
            return self.task_nodes(task);
        }
        if self.tree.task.node() != SHADOW_ROOT {
            self.set_task_node(SHADOW_ROOT);
        }
        self.parent_nodes()
    }

    fn task_nodes(&mut self, task: &Detached) -> NodePair {
        // A step does not count, because marey opens it for whichever task is running.
        if let Some(top) = self.entered_top()
            && top.kind_flags & STEP == 0
            && top.start_ticks > task.start_ticks()
        {
            return stack::open_scope_nodes(&top);
        }
        let nodes = task.nodes_in(self);
        self.set_task_node(nodes.shadow_node);
        nodes
    }

    /// Publishes the node of the task scope that this thread is in, for threads that follow it.
    #[inline]
    pub(crate) fn set_task_node(&self, node: u32) {
        self.tree.task.set(node, self.top_id());
    }

    /// Returns the nodes, in this thread's tree, of a scope that another thread has entered. `find`
    /// computes them, unless the scope is the one of the last call.
    pub(crate) fn copied_nodes(
        &mut self,
        scope_id: u64,
        find: impl FnOnce(&mut Self) -> NodePair,
    ) -> NodePair {
        if self.copied_nodes.scope_id != scope_id || scope_id == 0 {
            self.copied_nodes = CopiedNodes { scope_id, nodes: find(self) };
        }
        self.copied_nodes.nodes
    }
}

/// Reads the nodes of a frame without copying its other fields.
#[inline(always)]
pub(super) fn frame_nodes(frame: &ScopeFrame) -> NodePair {
    NodePair { shadow_node: frame.shadow_node(), python_node: frame.python_node() }
}
