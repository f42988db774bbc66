//! The tree of one session, merged over all threads. It holds the data of closed phases, and is
//! what the output files contain.

use crate::clock;
use crate::column::{Column, NodeData, WallTimes};
use crate::control::bit;
use crate::local;
use crate::losses;
use crate::names;
use crate::number_hash::NumberHash;
use crate::scope_frame::OpenScope;
use crate::thread::ThreadTree;
use crate::tree::{PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::{ContextSource, METADATA_STATE, NodeKind};
use marey_model::loss::LossCause;
use marey_model::metric::{MetricName, MetricValue};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of the root.
pub(crate) const ROOT: u32 = 0;

/// A tree of context nodes with one session's data, merged over threads.
#[derive(Clone, Debug)]
pub(crate) struct MergedTree {
    nodes: Vec<MergedNode>,
    /// By parent, id of the name, and kind.
    node_ids: HashMap<(u32, u32, NodeKind), u32, NumberHash>,
    /// The nodes of kernels on further devices, by the node for the first device and the device's
    /// number.
    device_copies: HashMap<(u32, u32), u32>,
}

/// A node of a [`MergedTree`].
#[derive(Clone, Debug)]
pub(crate) struct MergedNode {
    pub(crate) name_id: u32,
    pub(crate) kind: NodeKind,
    pub(crate) parent: u32,
    /// In the order of first use.
    pub(crate) children: Vec<u32>,
    pub(crate) wall: WallTimes,
    /// Durations of kernels, by the number of the device that ran them.
    pub(crate) devices: Vec<(u32, WallTimes)>,
    /// In the order of first use; each key once.
    pub(crate) metrics: Vec<(Arc<MetricName>, MetricValue)>,
}

impl Default for MergedTree {
    fn default() -> Self {
        Self {
            nodes: vec![MergedNode::new(names::LOST_NAME_ID, NodeKind::Root, ROOT)],
            node_ids: HashMap::default(),
            device_copies: HashMap::new(),
        }
    }
}

impl MergedNode {
    fn new(name_id: u32, kind: NodeKind, parent: u32) -> Self {
        Self {
            name_id,
            kind,
            parent,
            children: Vec::new(),
            wall: WallTimes::default(),
            devices: Vec::new(),
            metrics: Vec::new(),
        }
    }

    fn add(&mut self, data: NodeData) {
        for (metric_id, value) in &data.metrics {
            if let Some(name) = names::metric(*metric_id) {
                self.add_metric(&name, value);
            }
        }
        if data.wall.count > 0 {
            self.wall.add(data.wall);
        }
    }

    fn add_kernel(&mut self, device: u32, times: &WallTimes) {
        match self.devices.iter_mut().find(|(known_device, _)| *known_device == device) {
            Some((_, sum)) => sum.add(times.clone()),
            None => self.devices.push((device, times.clone())),
        }
    }

    fn add_metric(&mut self, name: &Arc<MetricName>, value: &MetricValue) {
        let existing = self.metrics.iter_mut().find(|(known, _)| known.key() == name.key());
        let Some((existing, sum)) = existing else {
            self.metrics.push((Arc::clone(name), value.clone()));
            return;
        };
        if sum.update(value, existing.aggregation(), existing.key()).is_err() {
            losses::count(LossCause::MetricRefused);
        }
    }
}

/// Selects one session's data of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionView {
    pub(crate) slot: u32,
    pub(crate) context: ContextSource,
}

impl MergedTree {
    /// Whether the tree contains no data.
    pub(crate) fn is_empty(&self) -> bool {
        let root = self.root();
        self.nodes.len() == 1 && root.metrics.is_empty() && root.devices.is_empty()
    }

    pub(crate) fn root(&self) -> &MergedNode {
        // The constructor makes the root, and no method removes nodes.
        self.nodes.first().unwrap_or_else(|| unreachable!("a merged tree has a root"))
    }

    pub(crate) fn node(&self, number: u32) -> Option<&MergedNode> {
        self.nodes.get(number as usize)
    }

    pub(crate) fn nodes(&self) -> &[MergedNode] {
        &self.nodes
    }

    /// Adds the data of a thread that goes on recording: its completed entries and its open scopes.
    ///
    /// An entry that completes between the two reads is counted twice in this snapshot only.
    pub(crate) fn absorb_running(&mut self, thread: &ThreadTree, view: SessionView) {
        let scopes = thread.open_scopes();
        let now_ticks = clock::ticks();
        self.absorb(thread, view, |node| thread.copy_node(view.slot, node));
        self.absorb_scopes(thread, view, &scopes, now_ticks);
    }

    /// Adds a column that was taken from its thread.
    pub(crate) fn absorb_column(
        &mut self,
        thread: &ThreadTree,
        view: SessionView,
        column: &Column,
    ) {
        self.absorb(thread, view, |node| column.copy(node));
    }

    /// Adds the open scopes of a thread, with their times so far.
    pub(crate) fn absorb_open_scopes(&mut self, thread: &ThreadTree, view: SessionView) {
        self.absorb_scopes(thread, view, &thread.open_scopes(), clock::ticks());
    }

    fn absorb(&mut self, thread: &ThreadTree, view: SessionView, copy: impl Fn(u32) -> NodeData) {
        let mut mapping = NodeMapping::new(thread, view, ROOT);
        for node in 0..thread.nodes.len() {
            let mut data = copy(node);
            if data.wall.count > 0 && is_metadata_state(thread, node) {
                // Viewers drop such a node, and with it a scope that has no other child. So keep
                // only its metrics.
                data.wall = WallTimes::default();
            }
            if !data.is_empty() {
                let merged = mapping.merged_node(self, node);
                self.node_mut(merged).add(data);
            }
        }
    }

    fn absorb_scopes(
        &mut self,
        thread: &ThreadTree,
        view: SessionView,
        scopes: &[OpenScope],
        now_ticks: u64,
    ) {
        let mut mapping = NodeMapping::new(thread, view, ROOT);
        let mut inner_nanos = 0;
        // Innermost first, so that the time of the open child is known for each scope.
        for scope in scopes.iter().rev().filter(|scope| local::is_entered_by_program(scope)) {
            let nanos = clock::nanos(now_ticks.saturating_sub(scope.start_ticks));
            if scope.sessions & bit(view.slot) != 0 {
                let node = match view.context {
                    ContextSource::Shadow => scope.shadow_node,
                    ContextSource::Python => scope.python_node,
                };
                let merged = mapping.merged_node(self, node);
                let wall = &mut self.node_mut(merged).wall;
                wall.open_count += 1;
                wall.total_nanos += nanos;
                wall.self_nanos += nanos.saturating_sub(scope.child_nanos + inner_nanos);
            }
            inner_nanos = nanos;
        }
    }

    pub(crate) fn node_mut(&mut self, node: u32) -> &mut MergedNode {
        let node = if (node as usize) < self.nodes.len() { node } else { ROOT };
        &mut self.nodes[node as usize]
    }

    /// Adds the durations of a kernel on one device to `parent`, or to its child with the name, unless
    /// `name_id` is 0.
    ///
    /// The file format allows one device per node: on each further device, a kernel gets a node of
    /// its own.
    pub(crate) fn add_kernel(&mut self, parent: u32, name_id: u32, device: u32, times: &WallTimes) {
        let node = match name_id {
            0 => parent,
            name_id => self.child(parent, name_id, NodeKind::Kernel),
        };
        let node = self.node_for_device(node, device);
        self.node_mut(node).add_kernel(device, times);
    }

    fn node_for_device(&mut self, node: u32, device: u32) -> u32 {
        let is_free = self.node_mut(node).devices.iter().all(|&(other, _)| other == device);
        if is_free {
            return node;
        }
        if let Some(&copy) = self.device_copies.get(&(node, device)) {
            return copy;
        }
        let MergedNode { name_id, parent, .. } = *self.node_mut(node);
        let copy = self.push(parent, name_id, NodeKind::Kernel);
        self.device_copies.insert((node, device), copy);
        copy
    }

    fn push(&mut self, parent: u32, name_id: u32, kind: NodeKind) -> u32 {
        let node = self.nodes.len() as u32;
        self.nodes.push(MergedNode::new(name_id, kind, parent));
        self.node_mut(parent).children.push(node);
        node
    }

    /// Adds another tree.
    pub(crate) fn absorb_tree(&mut self, other: &Self) {
        let mut pending_pairs = vec![(ROOT, ROOT)];
        while let Some((other_number, number)) = pending_pairs.pop() {
            let Some(node) = other.node(other_number) else { continue };
            for (name, value) in &node.metrics {
                self.node_mut(number).add_metric(name, value);
            }
            self.node_mut(number).wall.add(node.wall.clone());
            let mut device_node = number;
            for (device, times) in &node.devices {
                device_node = self.node_for_device(device_node, *device);
                self.node_mut(device_node).add_kernel(*device, times);
            }
            for &child in &node.children {
                let Some(node) = other.node(child) else { continue };
                let merged_child = self.child(number, node.name_id, node.kind);
                pending_pairs.push((child, merged_child));
            }
        }
    }

    pub(crate) fn child(&mut self, parent: u32, name_id: u32, kind: NodeKind) -> u32 {
        if let Some(&child) = self.node_ids.get(&(parent, name_id, kind)) {
            return child;
        }
        let child = self.push(parent, name_id, kind);
        self.node_ids.insert((parent, name_id, kind), child);
        child
    }
}

fn is_metadata_state(thread: &ThreadTree, node: u32) -> bool {
    thread.nodes.get(node).is_some_and(|node| {
        node.kind() == NodeKind::State && names::name(node.name_id()).starts_with(METADATA_STATE)
    })
}

/// The mapping from a thread's nodes to the nodes of a merged tree. It is filled on demand, so that
/// only nodes with data and their ancestors are added.
pub(crate) struct NodeMapping<'a> {
    thread: &'a ThreadTree,
    session: u64,
    merged_nodes: HashMap<u32, u32, NumberHash>,
    /// A buffer, kept between calls to reuse its allocation.
    path: Vec<u32>,
}

impl<'a> NodeMapping<'a> {
    /// Creates the mapping of a thread whose roots correspond to `base`.
    pub(crate) fn new(thread: &'a ThreadTree, view: SessionView, base: u32) -> Self {
        let merged_nodes = HashMap::from_iter([(SHADOW_ROOT, base), (PYTHON_ROOT, base)]);
        Self { thread, session: bit(view.slot), merged_nodes, path: Vec::new() }
    }

    /// Returns the merged node of a thread's node. A node that the session did not see maps to its
    /// parent.
    pub(crate) fn merged_node(&mut self, tree: &mut MergedTree, node: u32) -> u32 {
        let mut current = node;
        let mut merged = loop {
            if let Some(&merged) = self.merged_nodes.get(&current) {
                break merged;
            }
            self.path.push(current);
            current = self.thread.nodes.get(current).map_or(SHADOW_ROOT, crate::tree::Node::parent);
        };
        while let Some(current) = self.path.pop() {
            if let Some(node) = self.thread.nodes.get(current)
                && node.sessions() & self.session != 0
            {
                merged = tree.child(merged, node.name_id(), node.kind());
            }
            self.merged_nodes.insert(current, merged);
        }
        merged
    }
}
