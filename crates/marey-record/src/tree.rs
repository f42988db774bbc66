//! A thread's context tree: nodes that anybody may read, and the owner's index over them.

use crate::arena::Arena;
use crate::column::Stats;
use crate::link::Link;
use crate::names;
use marey_model::context::NodeKind;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Root of the paths made of scopes.
pub(crate) const SHADOW_ROOT: u32 = 0;
/// Root of the paths made of Python frames.
pub(crate) const PYTHON_ROOT: u32 = 1;

/// A context node. Written once by the owner, before `Nodes::len` counts it.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The name in the low half, the kind above.
    name_kind: AtomicU64,
    /// Sessions that saw it entered. Part of its identity, so that each session finds its own path.
    sessions: AtomicU64,
    parent: AtomicU32,
    number: AtomicU32,
    /// The child found last. Owner only, as what is below.
    last_child: Link<Node>,
    /// The child that was entered first of all the last time.
    pub(crate) first: Link<Node>,
    /// The child of the same parent that was entered after this one the last time.
    pub(crate) next: Link<Node>,
    /// The node's statistics, if one session records and keeps no events.
    pub(crate) stats: Link<Stats>,
    /// The version of the masks under which entering and leaving the node is usual.
    usual_version: AtomicU64,
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

    /// The name in the low half, the kind above.
    #[inline(always)]
    pub(crate) fn name_kind(&self) -> u64 {
        self.name_kind.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn name(&self) -> u32 {
        self.name_kind() as u32
    }

    pub(crate) fn kind(&self) -> NodeKind {
        NodeKind::from_u8((self.name_kind() >> 32) as u8)
    }

    #[inline(always)]
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Whether the node is one of this name and kind that these sessions saw.
    #[inline(always)]
    pub(crate) fn is(&self, name_kind: u64, sessions: u64) -> bool {
        self.name_kind() == name_kind && self.sessions() == sessions
    }

    #[inline(always)]
    fn has(&self, key: &Key) -> bool {
        self.is(name_kind(key.name, key.kind as u32), key.sessions)
            && self.parent.load(Ordering::Relaxed) == key.parent
    }

    /// The child that was found last.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes are reached through links")]
    fn last_child(&self) -> Option<&Self> {
        // SAFETY: `Index::child` set a node of the same tree, whose nodes live as long as one another.
        unsafe { self.last_child.get() }
    }

    /// Notes that entering and leaving the node is usual under this version of the masks.
    pub(crate) fn note_usual(&self, stats: Option<&Stats>, version: u64) {
        self.stats.set(stats);
        self.usual_version.store(version, Ordering::Relaxed);
    }

    /// Whether entering and leaving the node is usual under this version of the masks.
    #[inline(always)]
    pub(crate) fn is_usual(&self, version: u64) -> bool {
        self.usual_version.load(Ordering::Relaxed) == version
    }
}

/// A name and the bits above it in one word.
#[inline(always)]
pub(crate) fn name_kind(name: u32, kind_flags: u32) -> u64 {
    u64::from(kind_flags) << 32 | u64::from(name)
}

/// What makes a node: the same key under the same root is the same node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) parent: u32,
    pub(crate) name: u32,
    pub(crate) kind: NodeKind,
    pub(crate) sessions: u64,
}

impl Key {
    #[inline(always)]
    fn hash(&self) -> u64 {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let name_parent = u64::from(self.parent) << 32 | u64::from(self.name);
        let word = name_parent ^ self.sessions.rotate_left(17) ^ (self.kind as u64) << 61;
        let mixed = word.wrapping_mul(ODD);
        mixed ^ (mixed >> 32)
    }
}

/// The nodes of one thread, in the order of their making.
#[derive(Debug)]
pub(crate) struct Nodes {
    arena: Arena<Node, 6>,
    len: AtomicU32,
}

impl Default for Nodes {
    fn default() -> Self {
        let nodes = Self { arena: Arena::default(), len: AtomicU32::new(0) };
        for root in [SHADOW_ROOT, PYTHON_ROOT] {
            let key =
                Key { parent: root, name: names::LOST, kind: NodeKind::Root, sessions: u64::MAX };
            nodes.push(&key);
        }
        nodes
    }
}

impl Nodes {
    /// How many there are; all of them may be read.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn get(&self, node: u32) -> Option<&Node> {
        self.arena.get(node)
    }

    fn push(&self, key: &Key) -> Option<u32> {
        let id = self.len.load(Ordering::Relaxed);
        let node = self.arena.ensure(id)?;
        node.name_kind.store(name_kind(key.name, key.kind as u32), Ordering::Relaxed);
        node.sessions.store(key.sessions, Ordering::Relaxed);
        node.parent.store(key.parent, Ordering::Relaxed);
        node.number.store(id, Ordering::Relaxed);
        self.len.store(id + 1, Ordering::Release);
        Some(id)
    }
}

/// The owner's index: an open-addressing table of node ids, at most half full.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<u32>,
    used: usize,
    max_nodes: u32,
}

impl Index {
    pub(crate) fn new(max_nodes: u32) -> Self {
        Self { slots: vec![0; 64], used: 0, max_nodes }
    }

    /// Finds the node of `key`, or makes it. `None` when the tree is full.
    #[inline(always)]
    pub(crate) fn child(&mut self, nodes: &Nodes, key: &Key) -> Option<u32> {
        let parent = nodes.get(key.parent)?;
        let name_kind = name_kind(key.name, key.kind as u32);
        if let Some(last) = parent.last_child().filter(|last| last.is(name_kind, key.sessions)) {
            return Some(last.number());
        }
        let found = self.find_or_make(nodes, key)?;
        parent.last_child.set(nodes.get(found));
        Some(found)
    }

    /// As [`Index::child`], for the few nodes that say what was lost: the limit does not count.
    pub(crate) fn child_beyond_limit(&mut self, nodes: &Nodes, key: &Key) -> Option<u32> {
        let limit = std::mem::replace(&mut self.max_nodes, u32::MAX);
        let found = self.find_or_make(nodes, key);
        self.max_nodes = limit;
        found
    }

    fn find_or_make(&mut self, nodes: &Nodes, key: &Key) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = key.hash() as usize & mask;
        // Ids 0 and 1 are roots, which no key finds: 0 marks an empty slot.
        while let Some(&id) = self.slots.get(at) {
            if id == 0 {
                return self.make(nodes, key, at);
            }
            if nodes.get(id).is_some_and(|node| node.has(key)) {
                return Some(id);
            }
            at = (at + 1) & mask;
        }
        None
    }

    #[cold]
    fn make(&mut self, nodes: &Nodes, key: &Key, at: usize) -> Option<u32> {
        if nodes.len() >= self.max_nodes {
            return None;
        }
        let id = nodes.push(key)?;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = id;
        }
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            self.double(nodes);
        }
        Some(id)
    }

    fn double(&mut self, nodes: &Nodes) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0; mask + 1];
        for id in self.slots.iter().copied().filter(|&id| id != 0) {
            let Some(node) = nodes.get(id) else { continue };
            let key = Key {
                parent: node.parent(),
                name: node.name(),
                kind: node.kind(),
                sessions: node.sessions(),
            };
            let mut at = key.hash() as usize & mask;
            while slots.get(at).is_some_and(|&slot| slot != 0) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = slots.get_mut(at) {
                *slot = id;
            }
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parent: u32, name: u32) -> Key {
        Key { parent, name, kind: NodeKind::Scope, sessions: 1 }
    }

    #[test]
    fn the_same_key_is_the_same_node_across_growth() {
        let (nodes, mut index) = (Nodes::default(), Index::new(10_000));
        let first: Vec<_> =
            (0..3000).map(|name| index.child(&nodes, &key(name % 2, name)).unwrap()).collect();
        let again: Vec<_> =
            (0..3000).map(|name| index.child(&nodes, &key(name % 2, name)).unwrap()).collect();
        assert_eq!(first, again);
        assert_eq!(nodes.len(), 3002);
        let mut other = key(0, 0);
        other.sessions = 2;
        assert!(!first.contains(&index.child(&nodes, &other).unwrap()));
    }

    #[test]
    fn a_full_tree_makes_no_node() {
        let (nodes, mut index) = (Nodes::default(), Index::new(4));
        assert!(index.child(&nodes, &key(0, 10)).is_some());
        assert!(index.child(&nodes, &key(0, 11)).is_some());
        assert!(index.child(&nodes, &key(0, 12)).is_none());
        assert!(index.child(&nodes, &key(0, 10)).is_some());
    }
}
