//! The context tree of a thread: its nodes, which all threads may read, and the index by which the
//! owner finds them.

use crate::arena::Arena;
use crate::column::Stats;
use crate::link::Link;
use crate::names;
use marey_model::context::NodeKind;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The root of the paths made of scopes.
pub(crate) const SHADOW_ROOT: u32 = 0;
/// The root of the paths made of Python frames.
pub(crate) const PYTHON_ROOT: u32 = 1;

/// A context node. Written once by the owner, before `Nodes::len` counts it.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The id of the name in the low half, the kind above.
    name_kind: AtomicU64,
    /// The sessions that saw the node entered. Part of the key, so that each session finds its own
    /// path.
    sessions: AtomicU64,
    parent: AtomicU32,
    number: AtomicU32,
    /// The child found last. Owner only, like the fields below.
    last_child: Link<Node>,
    /// The child that was entered first on the last visit.
    pub(crate) expected_child: Link<Node>,
    /// The sibling that was entered after this node on the last visit.
    pub(crate) expected_sibling: Link<Node>,
    /// The node's statistics, if there is one session and it does not trace.
    pub(crate) stats: Link<Stats>,
    /// The version of the masks for which the fast path may enter and exit the node.
    fast_version: AtomicU64,
}

impl Node {
    #[inline(always)]
    pub(crate) fn parent(&self) -> u32 {
        self.parent.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// The id of the name in the low half, the kind above.
    #[inline(always)]
    pub(crate) fn name_kind(&self) -> u64 {
        self.name_kind.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn name_id(&self) -> u32 {
        self.name_kind() as u32
    }

    pub(crate) fn kind(&self) -> NodeKind {
        NodeKind::from_u8((self.name_kind() >> 32) as u8)
    }

    #[inline(always)]
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Whether the node has this name and kind, and these sessions saw it.
    #[inline(always)]
    pub(crate) fn matches(&self, name_kind: u64, sessions: u64) -> bool {
        self.name_kind() == name_kind && self.sessions() == sessions
    }

    #[inline(always)]
    fn matches_key(&self, key: &NodeKey) -> bool {
        self.matches(name_kind(key.name_id, key.kind as u32), key.sessions)
            && self.parent.load(Ordering::Relaxed) == key.parent
    }

    /// Returns the child found last.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes are reached through links")]
    fn last_child(&self) -> Option<&Self> {
        // SAFETY: `NodeIndex::child` set a node of the same tree; all its nodes live equally long.
        unsafe { self.last_child.get() }
    }

    /// Lets the fast path enter and exit the node under this version of the masks.
    pub(crate) fn cache_fast_path(&self, stats: Option<&Stats>, version: u64) {
        self.stats.set(stats);
        self.fast_version.store(version, Ordering::Relaxed);
    }

    /// Whether the fast path may enter and exit the node under this version of the masks.
    #[inline(always)]
    pub(crate) fn is_fast(&self, version: u64) -> bool {
        self.fast_version.load(Ordering::Relaxed) == version
    }
}

/// Packs the id of a name and the bits above it into one word.
#[inline(always)]
pub(crate) fn name_kind(name_id: u32, kind_flags: u32) -> u64 {
    u64::from(kind_flags) << 32 | u64::from(name_id)
}

/// The key of a node: a tree has one node for each key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeKey {
    pub(crate) parent: u32,
    pub(crate) name_id: u32,
    pub(crate) kind: NodeKind,
    pub(crate) sessions: u64,
}

impl NodeKey {
    #[inline(always)]
    fn hash(&self) -> u64 {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let name_parent = u64::from(self.parent) << 32 | u64::from(self.name_id);
        let word = name_parent ^ self.sessions.rotate_left(17) ^ (self.kind as u64) << 61;
        let mixed = word.wrapping_mul(ODD);
        mixed ^ (mixed >> 32)
    }
}

/// The nodes of one thread, in the order of creation.
#[derive(Debug)]
pub(crate) struct Nodes {
    arena: Arena<Node, 6>,
    len: AtomicU32,
}

impl Default for Nodes {
    fn default() -> Self {
        let nodes = Self { arena: Arena::default(), len: AtomicU32::new(0) };
        for root in [SHADOW_ROOT, PYTHON_ROOT] {
            let key = NodeKey {
                parent: root,
                name_id: names::LOST_NAME_ID,
                kind: NodeKind::Root,
                sessions: u64::MAX,
            };
            nodes.push(&key);
        }
        nodes
    }
}

impl Nodes {
    /// Returns the number of nodes, all of which may be read.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn get(&self, node: u32) -> Option<&Node> {
        self.arena.get(node)
    }

    fn push(&self, key: &NodeKey) -> Option<u32> {
        let id = self.len.load(Ordering::Relaxed);
        let node = self.arena.ensure(id)?;
        node.name_kind.store(name_kind(key.name_id, key.kind as u32), Ordering::Relaxed);
        node.sessions.store(key.sessions, Ordering::Relaxed);
        node.parent.store(key.parent, Ordering::Relaxed);
        node.number.store(id, Ordering::Relaxed);
        self.len.store(id + 1, Ordering::Release);
        Some(id)
    }
}

/// The owner's index of nodes: an open-addressing table of node ids, at most half full.
#[derive(Debug)]
pub(crate) struct NodeIndex {
    slots: Vec<u32>,
    occupied_slots: usize,
    max_nodes: u32,
}

impl NodeIndex {
    pub(crate) fn new(max_nodes: u32) -> Self {
        Self { slots: vec![0; 64], occupied_slots: 0, max_nodes }
    }

    /// Finds or makes the node of `key`. `None` when the tree is full.
    #[inline(always)]
    pub(crate) fn child(&mut self, nodes: &Nodes, key: &NodeKey) -> Option<u32> {
        let parent = nodes.get(key.parent)?;
        let name_kind = name_kind(key.name_id, key.kind as u32);
        if let Some(child) =
            parent.last_child().filter(|last| last.matches(name_kind, key.sessions))
        {
            return Some(child.number());
        }
        let child_id = self.find_or_insert(nodes, key)?;
        parent.last_child.set(nodes.get(child_id));
        Some(child_id)
    }

    /// Finds or makes one of the few nodes that stand for lost data, which the limit does not
    /// count.
    pub(crate) fn child_beyond_limit(&mut self, nodes: &Nodes, key: &NodeKey) -> Option<u32> {
        let limit = std::mem::replace(&mut self.max_nodes, u32::MAX);
        let node_id = self.find_or_insert(nodes, key);
        self.max_nodes = limit;
        node_id
    }

    fn find_or_insert(&mut self, nodes: &Nodes, key: &NodeKey) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot_index = key.hash() as usize & mask;
        // No key finds the roots, which have ids 0 and 1, so 0 marks an empty slot.
        while let Some(&id) = self.slots.get(slot_index) {
            if id == 0 {
                return self.insert(nodes, key, slot_index);
            }
            if nodes.get(id).is_some_and(|node| node.matches_key(key)) {
                return Some(id);
            }
            slot_index = (slot_index + 1) & mask;
        }
        None
    }

    #[cold]
    fn insert(&mut self, nodes: &Nodes, key: &NodeKey, slot_index: usize) -> Option<u32> {
        if nodes.len() >= self.max_nodes {
            return None;
        }
        let id = nodes.push(key)?;
        if let Some(slot) = self.slots.get_mut(slot_index) {
            *slot = id;
        }
        self.occupied_slots += 1;
        if self.occupied_slots * 2 > self.slots.len() {
            self.grow(nodes);
        }
        Some(id)
    }

    fn grow(&mut self, nodes: &Nodes) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0; mask + 1];
        for id in self.slots.iter().copied().filter(|&id| id != 0) {
            let Some(node) = nodes.get(id) else { continue };
            let key = NodeKey {
                parent: node.parent(),
                name_id: node.name_id(),
                kind: node.kind(),
                sessions: node.sessions(),
            };
            let mut slot_index = key.hash() as usize & mask;
            while slots.get(slot_index).is_some_and(|&slot| slot != 0) {
                slot_index = (slot_index + 1) & mask;
            }
            if let Some(slot) = slots.get_mut(slot_index) {
                *slot = id;
            }
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parent: u32, name_id: u32) -> NodeKey {
        NodeKey { parent, name_id, kind: NodeKind::Scope, sessions: 1 }
    }

    #[test]
    fn a_key_keeps_its_node_when_the_index_grows() {
        let (nodes, mut index) = (Nodes::default(), NodeIndex::new(10_000));
        let first: Vec<_> =
            (0..3000).map(|name| index.child(&nodes, &key(name % 2, name)).unwrap()).collect();
        let again: Vec<_> =
            (0..3000).map(|name| index.child(&nodes, &key(name % 2, name)).unwrap()).collect();
        assert_eq!(first, again);
        assert_eq!(nodes.len(), 3002);
        let other_sessions = NodeKey { sessions: 2, ..key(0, 0) };
        assert!(!first.contains(&index.child(&nodes, &other_sessions).unwrap()));
    }

    #[test]
    fn a_full_tree_finds_nodes_and_makes_none() {
        let (nodes, mut index) = (Nodes::default(), NodeIndex::new(4));
        assert!(index.child(&nodes, &key(0, 10)).is_some());
        assert!(index.child(&nodes, &key(0, 11)).is_some());
        assert!(index.child(&nodes, &key(0, 12)).is_none());
        assert!(index.child(&nodes, &key(0, 10)).is_some());
    }
}
