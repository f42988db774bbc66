//! Scopes outside of any thread's stack, such as scopes of coroutines, which interleave.
//!
//! A detached scope stores its parent. The caller that enters it keeps it, passes it as the parent
//! of the scopes inside it, and exits it in any order and on any thread.
//! [`Detached::from_innermost`] returns a thread's innermost scope as a detached scope that was
//! already exited: values that arrive late are added to it.

use crate::clock;
use crate::control::{CONTROL, bit};
use crate::local::{self, CompletedEntry, Local, NodePair, ROOTS};
use crate::thread::ThreadTree;
use crate::tree::SHADOW_ROOT;
use marey_model::context::NodeKind;
use marey_model::metric::{MetricError, MetricValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An entered scope outside of any stack.
#[derive(Debug)]
pub struct Detached {
    parent: Option<Arc<Detached>>,
    state_name_id: u32,
    sessions: u64,
    epoch: u64,
    start_ticks: u64,
    child_nanos: AtomicU64,
    is_exited: AtomicBool,
    /// Whether the scope is addressed to one session: scopes inside it are recorded there alone.
    is_addressed: bool,
    /// The number of ancestors that had been exited already when the next scope below them was
    /// entered.
    exited_ancestors: u32,
    id: u64,
    /// Without a parent: the id of the innermost scope of the thread's stack, 0 for none.
    stack_top_id: u64,
    /// The tree of the thread that entered the scope. `nodes` are nodes of this tree.
    origin: Arc<ThreadTree>,
    nodes: NodePair,
}

impl Drop for Detached {
    /// Iterates, because a chain of scopes may be too long for recursion.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut scope) = next {
            next = Arc::get_mut(&mut scope).and_then(|scope| scope.parent.take());
        }
    }
}

impl Detached {
    /// Enters a scope below `parent`, or below the thread's innermost scope. `None` if the thread
    /// cannot record.
    pub fn enter(
        parent: Option<Arc<Self>>,
        name_id: u32,
        kind: NodeKind,
        python_leaf: u32,
    ) -> Option<Arc<Self>> {
        local::event(|local| {
            let epoch = CONTROL.epoch.load(Ordering::Relaxed);
            let addressee = parent.as_ref().filter(|parent| parent.is_addressed);
            if addressee.is_some_and(|parent| parent.epoch != epoch) {
                return None;
            }
            let is_addressed = addressee.is_some();
            let (active_sessions, python_sessions) = match addressee {
                Some(parent) => parent.recording(),
                None => CONTROL.recording_sessions(),
            };
            let parent =
                parent.filter(|parent| parent.epoch == epoch).and_then(Self::effective_parent);
            let parent_nodes = match &parent {
                Some(parent) => parent.nodes_in(local),
                None => local.top_nodes(),
            };
            let parent_nodes = parent_nodes.with_python_leaf(python_leaf);
            Some(Arc::new(Self {
                exited_ancestors: parent
                    .as_ref()
                    .map_or(0, |parent| parent.exited_ancestors + u32::from(parent.is_exited())),
                parent,
                state_name_id: local.state_name_id(),
                sessions: active_sessions,
                epoch,
                start_ticks: clock::ticks(),
                child_nanos: AtomicU64::new(0),
                is_exited: AtomicBool::new(false),
                is_addressed,
                stack_top_id: local.top_id(),
                id: local.next_id(),
                origin: Arc::clone(&local.tree),
                nodes: local.child_nodes(
                    parent_nodes,
                    name_id,
                    kind,
                    active_sessions,
                    python_sessions,
                ),
            }))
        })
    }

    /// Returns the thread's innermost scope as a detached scope that was exited, for values that
    /// become available later. `None` if the thread cannot record.
    pub fn from_innermost() -> Option<Arc<Self>> {
        local::event(|local| {
            let innermost = local.innermost();
            Some(Arc::new(Self {
                parent: None,
                state_name_id: innermost.state_name_id,
                sessions: innermost.sessions & CONTROL.active_sessions.load(Ordering::Relaxed),
                epoch: CONTROL.epoch.load(Ordering::Relaxed),
                start_ticks: clock::ticks(),
                child_nanos: AtomicU64::new(0),
                is_exited: AtomicBool::new(true),
                is_addressed: false,
                exited_ancestors: 0,
                id: local.top_id(),
                stack_top_id: 0,
                origin: Arc::clone(&local.tree),
                nodes: innermost.nodes,
            }))
        })
    }

    /// Returns a scope, by default the root, as an exited scope that is addressed to one session:
    /// values added to it and scopes inside it are recorded in this session alone, also in one that
    /// records nothing else. `None` if the scope is of an older epoch, the session has not seen it,
    /// or the thread cannot record.
    pub(crate) fn in_session(scope: Option<&Self>, slot: u32) -> Option<Arc<Self>> {
        local::event(|local| {
            let epoch = CONTROL.epoch.load(Ordering::Relaxed);
            let has_seen = |scope: &Self| scope.epoch == epoch && scope.sessions & bit(slot) != 0;
            if !scope.is_none_or(has_seen) {
                return None;
            }
            Some(Arc::new(Self {
                parent: None,
                state_name_id: scope.map_or(0, |scope| scope.state_name_id),
                sessions: bit(slot),
                epoch,
                start_ticks: scope.map_or_else(clock::ticks, |scope| scope.start_ticks),
                child_nanos: AtomicU64::new(0),
                is_exited: AtomicBool::new(true),
                is_addressed: true,
                exited_ancestors: 0,
                id: local.next_id(),
                stack_top_id: 0,
                origin: Arc::clone(&local.tree),
                nodes: scope.map_or(ROOTS, |scope| scope.nodes_in(local)),
            }))
        })
    }

    /// Returns the sessions that record the scope, and the sessions among them whose paths are
    /// Python frames.
    fn recording(&self) -> (u64, u64) {
        let active_sessions = if self.is_addressed {
            CONTROL.addressable_sessions()
        } else {
            CONTROL.active_sessions.load(Ordering::Relaxed)
        };
        let sessions = active_sessions & self.sessions;
        (sessions, sessions & CONTROL.python_sessions.load(Ordering::Relaxed))
    }

    /// Returns the scope that becomes the parent of a scope entered inside this one: this one, or
    /// its parent if too many exited scopes are above it. Otherwise a callback that schedules
    /// itself again would nest deeper each time, without bound.
    fn effective_parent(self: Arc<Self>) -> Option<Arc<Self>> {
        if self.is_nested_too_deep() { self.parent.clone() } else { Some(self) }
    }

    fn is_nested_too_deep(&self) -> bool {
        const MAX_EXITED_ANCESTORS: u32 = 8;
        self.is_exited() && self.exited_ancestors >= MAX_EXITED_ANCESTORS
    }

    /// Returns the scope to which a launch inside this one is attributed, by the rule of
    /// [`Detached::effective_parent`]. `None` if the scope is of an older epoch.
    #[inline]
    pub(crate) fn launch_scope(&self) -> Option<&Self> {
        if self.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
            return None;
        }
        if self.is_nested_too_deep() { self.parent.as_deref() } else { Some(self) }
    }

    /// Records that the calling thread runs the task whose innermost scope this is. PyTorch's
    /// autograd threads, which run backward for this thread, record below it too. A scope that is
    /// addressed to one session is no task.
    pub fn set_as_task(&self) {
        if self.is_addressed {
            return;
        }
        local::event(|local| {
            if self.epoch == CONTROL.epoch.load(Ordering::Relaxed) {
                let nodes = self.nodes_in(local);
                local.set_task_node(nodes.shadow_node);
            }
        });
    }

    pub(crate) fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Returns the scope's id.
    pub fn id(&self) -> u64 {
        self.id
    }

    fn is_exited(&self) -> bool {
        self.is_exited.load(Ordering::Relaxed)
    }

    /// Exits the scope. A second call does nothing.
    pub fn exit(&self) {
        let now = clock::ticks();
        if self.is_exited.swap(true, Ordering::Relaxed) {
            return;
        }
        local::event(|local| {
            // A scope that was entered before a fork is recorded by the parent process.
            let is_from_parent = self.origin.belongs_to_parent();
            if is_from_parent || self.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
                return;
            }
            let child_nanos = self.child_nanos.load(Ordering::Relaxed);
            let nodes = self.nodes_in(local);
            let entry =
                CompletedEntry::new(nodes, self.sessions, self.start_ticks..now, child_nanos);
            local.record_in(self.recording().0, &entry);
            let nanos = entry.nanos;
            if local.tree.task.node() == nodes.shadow_node {
                local.set_task_node(self.parent_node_in(&local.tree));
            }
            match &self.parent {
                Some(parent) => {
                    parent.child_nanos.fetch_add(nanos, Ordering::Relaxed);
                }
                None if Arc::ptr_eq(&self.origin, &local.tree) => {
                    local.add_child_nanos(self.stack_top_id, nanos);
                }
                None => {}
            }
        });
    }

    /// Adds user metrics to the scope. A trace dates them now, or at the entry of a scope that was
    /// exited.
    pub fn add_metrics(&self, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
        let added = local::event(|local| {
            if self.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
                return None;
            }
            let nodes = self.nodes_in(local);
            let ticks = self.is_exited().then_some(self.start_ticks);
            let (sessions, _) = self.recording();
            Some(local.add_metrics_at(nodes, self.state_name_id, sessions, ticks, values))
        });
        added.unwrap_or(Ok(()))
    }

    /// Enters an operator below the scope, on the stack of the calling thread. Returns its id.
    pub(crate) fn enter_operator(&self, name_id: u32, python_leaf: u32) -> u64 {
        local::event(|local| {
            let is_current = self.epoch == CONTROL.epoch.load(Ordering::Relaxed);
            let parent_nodes = is_current.then(|| self.nodes_in(local));
            local.enter_operator(name_id, python_leaf, parent_nodes)
        })
    }

    /// Returns the node of the parent scope if it is in this tree, else the root.
    fn parent_node_in(&self, tree: &Arc<ThreadTree>) -> u32 {
        let parent = self.parent.as_ref().filter(|parent| Arc::ptr_eq(&parent.origin, tree));
        parent.map_or(SHADOW_ROOT, |parent| parent.nodes.shadow_node)
    }

    /// Returns the scope's nodes in the caller's tree, where its path is made if needed.
    #[inline]
    pub(crate) fn nodes_in(&self, local: &mut Local) -> NodePair {
        if Arc::ptr_eq(&self.origin, &local.tree) {
            return self.nodes;
        }
        let NodePair { shadow_node, python_node } = self.nodes;
        local.copied_nodes(self.id, |local| NodePair {
            shadow_node: local.copy_path(&self.origin, shadow_node),
            python_node: local.copy_path(&self.origin, python_node),
        })
    }
}
