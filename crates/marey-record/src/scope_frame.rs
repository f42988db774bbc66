//! A frame of a thread's stack of scopes: the scope that is open in it, and what the fast path
//! remembers of it.

use crate::clock;
use crate::link::Link;
use crate::tree::{Node, name_kind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An entered scope. Other threads must read it inside [`Seq::read`](crate::seq::Seq::read).
#[derive(Debug, Default)]
pub(crate) struct ScopeFrame {
    /// The id of the name in the low half. In the high half, a `NodeKind` in the low byte and flags above it.
    name_kind: AtomicU64,
    shadow_node: AtomicU32,
    python_node: AtomicU32,
    state_name_id: AtomicU32,
    sessions: AtomicU64,
    start_ticks: AtomicU64,
    child_nanos: AtomicU64,
    id: AtomicU64,
    /// The node in the shadow tree, if it belongs to this very scope and not to an ancestor. Owner
    /// only.
    pub(crate) node: Link<Node>,
    /// The id of the name by which the fast path may exit the scope, or [`NO_FAST_EXIT`]. With a name id, the
    /// frame has a node and a frame below. Owner only.
    pub(crate) exit_name_id: AtomicU64,
    /// The number of frames below this one. Like the fields below, it does not change when the
    /// frame is reused.
    depth: AtomicU32,
    below: Link<ScopeFrame>,
    /// Owner only.
    pub(crate) above: Link<ScopeFrame>,
}

/// A value that equals no id of a name.
pub(crate) const NO_FAST_EXIT: u64 = u64::MAX;

/// A copy of an entered scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenScope {
    pub(crate) name_id: u32,
    /// A `NodeKind` in the low byte, flags above.
    pub(crate) kind_flags: u32,
    pub(crate) shadow_node: u32,
    pub(crate) python_node: u32,
    /// The id of the name of the state below which this scope's metrics are stored; 0 for none.
    pub(crate) state_name_id: u32,
    /// Sessions that saw the entry.
    pub(crate) sessions: u64,
    pub(crate) start_ticks: u64,
    /// Time of the completed children.
    pub(crate) child_nanos: u64,
    pub(crate) id: u64,
}

impl ScopeFrame {
    #[inline(always)]
    pub(crate) fn copy(&self) -> OpenScope {
        let (name_id, kind_flags) = self.name_id_and_kind_flags();
        OpenScope {
            name_id,
            kind_flags,
            shadow_node: self.shadow_node.load(Ordering::Relaxed),
            python_node: self.python_node(),
            state_name_id: self.state_name_id.load(Ordering::Relaxed),
            sessions: self.sessions.load(Ordering::Relaxed),
            start_ticks: self.start_ticks(),
            child_nanos: self.child_nanos(),
            id: self.id(),
        }
    }

    #[inline(always)]
    pub(crate) fn set(&self, scope: &OpenScope) {
        self.name_kind.store(name_kind(scope.name_id, scope.kind_flags), Ordering::Relaxed);
        self.shadow_node.store(scope.shadow_node, Ordering::Relaxed);
        self.python_node.store(scope.python_node, Ordering::Relaxed);
        self.state_name_id.store(scope.state_name_id, Ordering::Relaxed);
        self.sessions.store(scope.sessions, Ordering::Relaxed);
        self.start_ticks.store(scope.start_ticks, Ordering::Relaxed);
        self.child_nanos.store(scope.child_nanos, Ordering::Relaxed);
        self.id.store(scope.id, Ordering::Relaxed);
    }

    /// Fills the frame for a scope with its own node that begins now. Used by the fast path.
    #[inline(always)]
    pub(crate) fn enter(&self, node: &Node, python_node: u32, state_name_id: u32, id: u64) {
        self.name_kind.store(node.name_kind(), Ordering::Relaxed);
        self.exit_name_id.store(node.name_id().into(), Ordering::Relaxed);
        self.shadow_node.store(node.number(), Ordering::Relaxed);
        self.python_node.store(python_node, Ordering::Relaxed);
        self.state_name_id.store(state_name_id, Ordering::Relaxed);
        self.sessions.store(node.sessions(), Ordering::Relaxed);
        self.child_nanos.store(0, Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        self.node.set(Some(node));
        self.start_ticks.store(clock::counter(), Ordering::Relaxed);
    }

    /// Returns the number of frames below this one.
    #[inline(always)]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Returns the node in the shadow tree, if it belongs to this very scope.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes are reached through links")]
    pub(crate) fn node(&self) -> Option<&Node> {
        // SAFETY: nodes and frames of one tree live equally long.
        unsafe { self.node.get() }
    }

    /// Returns the frame's node, if it is a child of the node of the frame below.
    #[inline(always)]
    pub(crate) fn child_node_of(&self, below: &Self) -> Option<&Node> {
        let (node, outer) = (self.node()?, below.node()?);
        (node.parent() == outer.number()).then_some(node)
    }

    /// Returns the frame below, `None` for the bottom frame.
    #[inline(always)]
    #[expect(unsafe_code, reason = "frames are reached through links")]
    pub(crate) fn below(&self) -> Option<&Self> {
        // SAFETY: `link_above` set a frame of the same tree; all its frames live equally long.
        unsafe { self.below.get() }
    }

    /// Makes this the frame above another one.
    #[inline(always)]
    pub(crate) fn link_above(&self, below: &Self) {
        self.depth.store(below.depth() + 1, Ordering::Relaxed);
        self.below.set(Some(below));
        below.above.set(Some(self));
    }

    #[inline(always)]
    pub(crate) fn name_id_and_kind_flags(&self) -> (u32, u32) {
        let name_kind = self.name_kind.load(Ordering::Relaxed);
        (name_kind as u32, (name_kind >> 32) as u32)
    }

    #[inline(always)]
    pub(crate) fn kind_flags(&self) -> u32 {
        self.name_id_and_kind_flags().1
    }

    #[inline(always)]
    pub(crate) fn python_node(&self) -> u32 {
        self.python_node.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn start_ticks(&self) -> u64 {
        self.start_ticks.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn child_nanos(&self) -> u64 {
        self.child_nanos.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Returns the node in the shadow tree.
    #[inline(always)]
    pub(crate) fn shadow_node(&self) -> u32 {
        self.shadow_node.load(Ordering::Relaxed)
    }

    /// Returns the sessions that saw the entry.
    #[inline(always)]
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Adds to the time of the completed children.
    #[inline(always)]
    pub(crate) fn add_child_nanos(&self, nanos: u64) {
        self.child_nanos.store(self.child_nanos().wrapping_add(nanos), Ordering::Relaxed);
    }

    /// Sets and clears flags. Only the owner may call this, so no other thread writes at the same
    /// time.
    pub(crate) fn change_flags(&self, set: u32, clear: u32) {
        let (name_id, kind_flags) = self.name_id_and_kind_flags();
        self.name_kind.store(name_kind(name_id, (kind_flags | set) & !clear), Ordering::Relaxed);
    }
}
