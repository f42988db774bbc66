//! The nodes of a thread in a spool.
//!
//! In the spool the path of a node is what its sessions saw: scopes that were entered before a
//! session began are left out, and both trees share one root. So one node of the thread's tree may
//! correspond to several nodes in the spool, one for each different path that sessions see; nearly
//! always it is one.

use super::texts::Texts;
use crate::control::{bit, slots};
use crate::tree::{Nodes, PYTHON_ROOT};
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::spool::{Frame, NodeDef};
use std::collections::HashMap;

/// A thread's nodes in the spool.
#[derive(Debug, Default)]
pub(super) struct SpoolNodes {
    /// By the number of a node in the thread's tree.
    cache: Vec<CachedGroups>,
    /// By parent, name and kind.
    index: HashMap<(u32, u32, NodeKind), u32>,
    len: u32,
    /// Nodes that are not written yet, which have the highest numbers.
    unwritten: Vec<NodeDef>,
}

/// The nodes of the spool that correspond to a node of the tree, for the last requested sessions.
#[derive(Clone, Debug, Default)]
struct CachedGroups {
    sessions: u64,
    /// Sessions that see the same path, and its node in the spool.
    groups: Vec<(u64, u32)>,
}

const ROOT: u32 = 0;

impl SpoolNodes {
    /// Maps a node for these sessions. Returns the number of [`Self::group`]s.
    pub(super) fn map_node(
        &mut self,
        nodes: &Nodes,
        node: u32,
        sessions: u64,
        texts: &mut Texts,
    ) -> usize {
        if let Some(cached) = self.cache.get(node as usize)
            && cached.sessions == sessions
        {
            return cached.groups.len();
        }
        let mut groups: Vec<(u64, u32)> = Vec::new();
        for slot in slots(sessions) {
            let spool_node = self.session_node(bit(slot), nodes, node, texts);
            match groups.iter_mut().find(|group| group.1 == spool_node) {
                Some(group) => group.0 |= bit(slot),
                None => groups.push((bit(slot), spool_node)),
            }
        }
        let count = groups.len();
        if self.cache.len() <= node as usize {
            self.cache.resize(node as usize + 1, CachedGroups::default());
        }
        if let Some(cached) = self.cache.get_mut(node as usize) {
            *cached = CachedGroups { sessions, groups };
        }
        count
    }

    /// Returns a group of sessions that see the same path to a mapped node, and the node in the
    /// spool.
    pub(super) fn group(&self, node: u32, group: usize) -> Option<(u64, u32)> {
        self.cache.get(node as usize)?.groups.get(group).copied()
    }

    /// Returns the node of the path, without what the session did not see.
    fn session_node(&mut self, session: u64, nodes: &Nodes, node: u32, texts: &mut Texts) -> u32 {
        if self.len == 0 {
            let name = texts.add(&ROOT_NAME.into());
            self.push(NodeDef { parent: ROOT, kind: NodeKind::Root, name });
        }
        self.path_below(ROOT, nodes, node, session, texts)
    }

    /// Returns the node, below `base`, of the part of a path that these sessions saw. The path may
    /// be another thread's.
    pub(super) fn path_below(
        &mut self,
        base: u32,
        nodes: &Nodes,
        node: u32,
        sessions: u64,
        texts: &mut Texts,
    ) -> u32 {
        let mut path = Vec::new();
        let mut current = node;
        while current > PYTHON_ROOT
            && let Some(node) = nodes.get(current)
        {
            if node.sessions() & sessions != 0 {
                path.push(node);
            }
            current = node.parent();
        }
        path.into_iter()
            .rev()
            .fold(base, |parent, node| self.child(parent, node.name(), node.kind(), texts))
    }

    /// Returns the scope of this name below a node.
    pub(super) fn scope_below(&mut self, node: u32, name: u32, texts: &mut Texts) -> u32 {
        self.child(node, name, NodeKind::Scope, texts)
    }

    fn child(&mut self, parent: u32, name: u32, kind: NodeKind, texts: &mut Texts) -> u32 {
        if let Some(&child) = self.index.get(&(parent, name, kind)) {
            return child;
        }
        let child = self.push(NodeDef { parent, kind, name: texts.scope_name(name) });
        self.index.insert((parent, name, kind), child);
        child
    }

    fn push(&mut self, node: NodeDef) -> u32 {
        self.unwritten.push(node);
        self.len += 1;
        self.len - 1
    }

    /// Takes the nodes that are not written yet, if any.
    pub(super) fn take_unwritten(&mut self, thread: u32) -> Option<Frame> {
        if self.unwritten.is_empty() {
            return None;
        }
        let nodes = std::mem::take(&mut self.unwritten);
        Some(Frame::Nodes { thread, first: self.len - nodes.len() as u32, nodes })
    }
}
