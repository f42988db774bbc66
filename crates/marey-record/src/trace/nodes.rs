//! The map from the nodes of a thread's tree to the nodes of the spool, used by [`super::thread`].
//!
//! A node of the spool has the path that a session saw. That path leaves out the scopes that were
//! entered before the session began, and the trees of scopes and of Python frames share one root.
//! One node of the thread's tree therefore becomes one node of the spool for each different path
//! that sessions see. Nearly always it is one.

use super::texts::SpoolTexts;
use crate::control::{bit, slots};
use crate::tree::{Nodes, PYTHON_ROOT};
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::spool::{NodeDef, SpoolFrame};
use std::collections::HashMap;

/// The nodes of one thread in the spool.
#[derive(Debug, Default)]
pub(super) struct SpoolNodes {
    /// By the number of a node in the thread's tree.
    cache: Vec<CachedGroups>,
    /// By parent, name and kind.
    index: HashMap<(u32, u32, NodeKind), u32>,
    len: u32,
    /// The nodes that are not written yet. They are the ones with the highest numbers.
    unwritten: Vec<NodeDef>,
}

/// The nodes of the spool that correspond to a node of the tree, for the last requested sessions.
#[derive(Clone, Debug, Default)]
struct CachedGroups {
    sessions: u64,
    /// Each set of sessions that see the same path, as a mask, with the path's node in the spool.
    groups: Vec<(u64, u32)>,
}

const ROOT: u32 = 0;

impl SpoolNodes {
    /// Maps a node for these sessions. Returns the number of its groups, which [`Self::group`]
    /// returns.
    pub(super) fn map_node(
        &mut self,
        nodes: &Nodes,
        node: u32,
        sessions: u64,
        texts: &mut SpoolTexts,
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

    /// Returns one group of a mapped node: the mask of the sessions that see the same path, and the
    /// node of that path in the spool.
    pub(super) fn group(&self, node: u32, group: usize) -> Option<(u64, u32)> {
        self.cache.get(node as usize)?.groups.get(group).copied()
    }

    /// Returns the spool's node for a path, without the scopes that the session did not see.
    fn session_node(
        &mut self,
        session: u64,
        nodes: &Nodes,
        node: u32,
        texts: &mut SpoolTexts,
    ) -> u32 {
        if self.len == 0 {
            let name = texts.add(&ROOT_NAME.into());
            self.push(NodeDef { parent: ROOT, kind: NodeKind::Root, name });
        }
        self.path_below(ROOT, nodes, node, session, texts)
    }

    /// Returns the spool's node for a path below `base`, without the scopes that these sessions did
    /// not see. The path may be in the tree of another thread.
    pub(super) fn path_below(
        &mut self,
        base: u32,
        nodes: &Nodes,
        node: u32,
        sessions: u64,
        texts: &mut SpoolTexts,
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
            .fold(base, |parent, node| self.child(parent, node.name_id(), node.kind(), texts))
    }

    /// Returns the spool's node of a scope with this name below a node.
    pub(super) fn scope_below(&mut self, node: u32, name_id: u32, texts: &mut SpoolTexts) -> u32 {
        self.child(node, name_id, NodeKind::Scope, texts)
    }

    fn child(&mut self, parent: u32, name_id: u32, kind: NodeKind, texts: &mut SpoolTexts) -> u32 {
        if let Some(&child) = self.index.get(&(parent, name_id, kind)) {
            return child;
        }
        let child = self.push(NodeDef { parent, kind, name: texts.scope_name_id(name_id) });
        self.index.insert((parent, name_id, kind), child);
        child
    }

    fn push(&mut self, node: NodeDef) -> u32 {
        self.unwritten.push(node);
        self.len += 1;
        self.len - 1
    }

    /// Takes the nodes that are not written yet, if any.
    pub(super) fn take_unwritten(&mut self, thread: u32) -> Option<SpoolFrame> {
        if self.unwritten.is_empty() {
            return None;
        }
        let nodes = std::mem::take(&mut self.unwritten);
        Some(SpoolFrame::Nodes { thread, first: self.len - nodes.len() as u32, nodes })
    }
}
