//! The nodes of a thread as a spool has them.
//!
//! In the spool a node's path is what its sessions saw: scopes that were entered before a session began
//! are no part of it, and both kinds of paths have one root. So a node of the thread's tree may stand
//! for several in the spool, one for each way in which sessions see it; nearly always it is one.

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
    places: Vec<Place>,
    /// By parent, name and kind.
    index: HashMap<(u32, u32, NodeKind), u32>,
    len: u32,
    /// Those that are not written yet; they have the last numbers.
    fresh: Vec<NodeDef>,
}

/// Where a node of the tree is in the spool, for the sessions that were asked about last.
#[derive(Clone, Debug, Default)]
struct Place {
    sessions: u64,
    /// Sessions that see the same path, and its node.
    groups: Vec<(u64, u32)>,
}

const ROOT: u32 = 0;

impl SpoolNodes {
    /// Looks for what a node is to these sessions; returns the number of [`Self::group`]s.
    pub(super) fn find(
        &mut self,
        nodes: &Nodes,
        node: u32,
        sessions: u64,
        texts: &mut Texts,
    ) -> usize {
        if let Some(place) = self.places.get(node as usize)
            && place.sessions == sessions
        {
            return place.groups.len();
        }
        let mut groups: Vec<(u64, u32)> = Vec::new();
        for slot in slots(sessions) {
            let found = self.seen_by(bit(slot), nodes, node, texts);
            match groups.iter_mut().find(|group| group.1 == found) {
                Some(group) => group.0 |= bit(slot),
                None => groups.push((bit(slot), found)),
            }
        }
        let count = groups.len();
        if self.places.len() <= node as usize {
            self.places.resize(node as usize + 1, Place::default());
        }
        if let Some(place) = self.places.get_mut(node as usize) {
            *place = Place { sessions, groups };
        }
        count
    }

    /// Sessions that see the same path to a node which was looked for, and the path's node.
    pub(super) fn group(&self, node: u32, at: usize) -> Option<(u64, u32)> {
        self.places.get(node as usize)?.groups.get(at).copied()
    }

    /// The node's path without what the session did not see.
    fn seen_by(&mut self, session: u64, nodes: &Nodes, node: u32, texts: &mut Texts) -> u32 {
        if self.len == 0 {
            let name = texts.add(&ROOT_NAME.into());
            self.push(NodeDef { parent: ROOT, kind: NodeKind::Root, name });
        }
        self.path_below(ROOT, nodes, node, session, texts)
    }

    /// What these sessions saw of a node's path, which may be another thread's, below a node.
    pub(super) fn path_below(
        &mut self,
        base: u32,
        nodes: &Nodes,
        node: u32,
        sessions: u64,
        texts: &mut Texts,
    ) -> u32 {
        let mut path = Vec::new();
        let mut at = node;
        while at > PYTHON_ROOT
            && let Some(node) = nodes.get(at)
        {
            if node.sessions() & sessions != 0 {
                path.push(node);
            }
            at = node.parent();
        }
        path.into_iter()
            .rev()
            .fold(base, |parent, node| self.child(parent, node.name(), node.kind(), texts))
    }

    /// A scope of this name below a node.
    pub(super) fn scope_below(&mut self, node: u32, name: u32, texts: &mut Texts) -> u32 {
        self.child(node, name, NodeKind::Scope, texts)
    }

    fn child(&mut self, parent: u32, name: u32, kind: NodeKind, texts: &mut Texts) -> u32 {
        if let Some(&child) = self.index.get(&(parent, name, kind)) {
            return child;
        }
        let child = self.push(NodeDef { parent, kind, name: texts.scope(name) });
        self.index.insert((parent, name, kind), child);
        child
    }

    fn push(&mut self, node: NodeDef) -> u32 {
        self.fresh.push(node);
        self.len += 1;
        self.len - 1
    }

    /// What is not written yet, if anything.
    pub(super) fn take_fresh(&mut self, thread: u32) -> Option<Frame> {
        if self.fresh.is_empty() {
            return None;
        }
        let nodes = std::mem::take(&mut self.fresh);
        Some(Frame::Nodes { thread, first: self.len - nodes.len() as u32, nodes })
    }
}
