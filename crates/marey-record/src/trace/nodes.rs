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
    cached_groups: Vec<CachedGroups>,
    /// By the id of the parent, the interned id of the name, and the kind.
    ids: HashMap<(u32, u32, NodeKind), u32>,
    len: u32,
    /// The nodes that are not written yet. They are the ones with the highest numbers.
    unwritten_nodes: Vec<NodeDef>,
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
        if let Some(cached) = self.cached_groups.get(node as usize)
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
        let group_count = groups.len();
        if self.cached_groups.len() <= node as usize {
            self.cached_groups.resize(node as usize + 1, CachedGroups::default());
        }
        if let Some(cached) = self.cached_groups.get_mut(node as usize) {
            *cached = CachedGroups { sessions, groups };
        }
        group_count
    }

    /// Returns one group of a mapped node: the mask of the sessions that see the same path, and the
    /// node of that path in the spool.
    pub(super) fn group(&self, node: u32, index: usize) -> Option<(u64, u32)> {
        self.cached_groups.get(node as usize)?.groups.get(index).copied()
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
            let name_id = texts.add(&ROOT_NAME.into());
            self.push(NodeDef { parent_id: ROOT, kind: NodeKind::Root, name_id });
        }
        self.path_below(ROOT, nodes, node, session, texts)
    }

    /// Returns the spool's node for a path below `base_id`, without the scopes that these sessions
    /// did not see. The path may be in the tree of another thread.
    pub(super) fn path_below(
        &mut self,
        base_id: u32,
        nodes: &Nodes,
        node: u32,
        sessions: u64,
        texts: &mut SpoolTexts,
    ) -> u32 {
        let mut path = Vec::new();
        let mut current_node = node;
        while current_node > PYTHON_ROOT
            && let Some(node) = nodes.get(current_node)
        {
            if node.sessions() & sessions != 0 {
                path.push(node);
            }
            current_node = node.parent();
        }
        path.into_iter().rev().fold(base_id, |parent_id, node| {
            self.child(parent_id, node.name_id(), node.kind(), texts)
        })
    }

    /// Returns the spool's node of a scope with this name below a node.
    pub(super) fn scope_below(&mut self, node: u32, name_id: u32, texts: &mut SpoolTexts) -> u32 {
        self.child(node, name_id, NodeKind::Scope, texts)
    }

    fn child(
        &mut self,
        parent_id: u32,
        name_id: u32,
        kind: NodeKind,
        texts: &mut SpoolTexts,
    ) -> u32 {
        if let Some(&child) = self.ids.get(&(parent_id, name_id, kind)) {
            return child;
        }
        let child = self.push(NodeDef { parent_id, kind, name_id: texts.scope_name_id(name_id) });
        self.ids.insert((parent_id, name_id, kind), child);
        child
    }

    fn push(&mut self, node: NodeDef) -> u32 {
        self.unwritten_nodes.push(node);
        self.len += 1;
        self.len - 1
    }

    /// Takes the nodes that are not written yet, if any.
    pub(super) fn take_unwritten(&mut self, thread: u32) -> Option<SpoolFrame> {
        if self.unwritten_nodes.is_empty() {
            return None;
        }
        let nodes = std::mem::take(&mut self.unwritten_nodes);
        Some(SpoolFrame::Nodes { thread, first_id: self.len - nodes.len() as u32, nodes })
    }
}
