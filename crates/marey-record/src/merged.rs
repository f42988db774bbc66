//! A session's tree over all threads: what is kept of closed phases and what files show.

use crate::clock;
use crate::column::{Column, NodeData};
use crate::control::bit;
use crate::local;
use crate::losses;
use crate::names;
use crate::thread::{OpenFrame, ThreadTree};
use crate::tree::{PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::{ContextSource, METADATA_STATE, NodeKind};
use marey_model::loss::LossCause;
use marey_model::metric::{MetricName, MetricValue};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Number of the root.
pub(crate) const ROOT: u32 = 0;

/// A tree of context nodes with one session's data, over any number of threads.
#[derive(Clone, Debug)]
pub(crate) struct MergedTree {
    nodes: Vec<MergedNode>,
    index: HashMap<(u32, u32, NodeKind), u32>,
    /// Kernels that ran on a second device, by their node for the first.
    others: HashMap<(u32, u32), u32>,
}

/// A node of a [`MergedTree`].
#[derive(Clone, Debug)]
pub(crate) struct MergedNode {
    pub(crate) name: u32,
    pub(crate) kind: NodeKind,
    parent: u32,
    /// First seen first.
    pub(crate) children: Vec<u32>,
    pub(crate) wall: Wall,
    /// Times of kernels that ran on devices, by the device's number.
    pub(crate) devices: Vec<(u32, Wall)>,
    /// First seen first; each key once.
    pub(crate) metrics: Vec<(Arc<MetricName>, MetricValue)>,
}

/// Wall time of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wall {
    pub(crate) count: u64,
    /// Entries that are still open; their time so far is in the sums.
    pub(crate) open: u64,
    pub(crate) total_nanos: u64,
    pub(crate) own_nanos: u64,
    pub(crate) min_nanos: u64,
    pub(crate) max_nanos: u64,
    pub(crate) buckets: BTreeMap<u32, u64>,
}

impl Default for MergedTree {
    fn default() -> Self {
        Self {
            nodes: vec![MergedNode::new(names::LOST, NodeKind::Root, ROOT)],
            index: HashMap::new(),
            others: HashMap::new(),
        }
    }
}

impl MergedNode {
    fn new(name: u32, kind: NodeKind, parent: u32) -> Self {
        Self {
            name,
            kind,
            parent,
            children: Vec::new(),
            wall: Wall::default(),
            devices: Vec::new(),
            metrics: Vec::new(),
        }
    }

    fn add(&mut self, data: &NodeData) {
        if data.count > 0 {
            self.wall.add(data);
        }
        for (number, value) in &data.metrics {
            if let Some(name) = names::metric(*number) {
                self.add_metric(&name, value);
            }
        }
    }

    fn add_kernel(&mut self, device: u32, times: &Wall) {
        match self.devices.iter_mut().find(|(known, _)| *known == device) {
            Some((_, sum)) => sum.add_wall(times),
            None => self.devices.push((device, times.clone())),
        }
    }

    fn add_metric(&mut self, name: &Arc<MetricName>, value: &MetricValue) {
        let held = self.metrics.iter_mut().find(|(held, _)| held.key() == name.key());
        let Some((held, sum)) = held else {
            self.metrics.push((Arc::clone(name), value.clone()));
            return;
        };
        if sum.update(value, held.aggregation(), held.key()).is_err() {
            losses::count(LossCause::MetricRefused);
        }
    }
}

impl Wall {
    fn add(&mut self, data: &NodeData) {
        self.add_wall(&Self::of(data));
    }

    fn of(data: &NodeData) -> Self {
        Self {
            count: data.count,
            open: 0,
            total_nanos: data.total_nanos,
            own_nanos: data.own_nanos,
            min_nanos: data.min_nanos,
            max_nanos: data.max_nanos,
            buckets: data.buckets.iter().copied().collect(),
        }
    }

    fn add_wall(&mut self, other: &Self) {
        if other.has_times() {
            self.min_nanos = if self.has_times() {
                self.min_nanos.min(other.min_nanos)
            } else {
                other.min_nanos
            };
            self.max_nanos = self.max_nanos.max(other.max_nanos);
        }
        self.count += other.count;
        self.open += other.open;
        self.total_nanos += other.total_nanos;
        self.own_nanos += other.own_nanos;
        for (&bucket, &count) in &other.buckets {
            *self.buckets.entry(bucket).or_insert(0) += count;
        }
    }

    /// Whether the time of any entry is known. Of kernels it may be of none.
    pub(crate) fn has_times(&self) -> bool {
        !self.buckets.is_empty()
    }

    /// The counted buckets, ascending.
    pub(crate) fn sketch(&self) -> Vec<(u32, u64)> {
        self.buckets.iter().map(|(&bucket, &count)| (bucket, count)).collect()
    }
}

/// Which session's data is taken out of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) slot: u32,
    pub(crate) context: ContextSource,
}

impl MergedTree {
    /// Whether nothing was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        let root = self.root();
        self.nodes.len() == 1 && root.metrics.is_empty() && root.devices.is_empty()
    }

    pub(crate) fn root(&self) -> &MergedNode {
        // The constructor made it, and no method removes nodes.
        self.nodes.first().unwrap_or_else(|| unreachable!("a merged tree has a root"))
    }

    pub(crate) fn node(&self, number: u32) -> Option<&MergedNode> {
        self.nodes.get(number as usize)
    }

    pub(crate) fn nodes(&self) -> &[MergedNode] {
        &self.nodes
    }

    /// Adds a thread that goes on recording: its completed entries, and those open now.
    ///
    /// An entry that completes between the two looks is counted in both; the next look is right.
    pub(crate) fn absorb_running(&mut self, thread: &ThreadTree, view: View) {
        let frames = thread.open_frames();
        let now = clock::ticks();
        self.absorb(thread, view, |node| thread.copy_node(view.slot, node));
        self.absorb_open(thread, view, &frames, now);
    }

    /// Adds a column that its thread has given up, and the scopes that the thread has open.
    pub(crate) fn absorb_taken(
        &mut self,
        thread: &ThreadTree,
        view: View,
        column: Option<&Column>,
        with_open: bool,
    ) {
        if let Some(column) = column {
            self.absorb(thread, view, |node| column.copy(node));
        }
        if with_open {
            self.absorb_open(thread, view, &thread.open_frames(), clock::ticks());
        }
    }

    fn absorb(&mut self, thread: &ThreadTree, view: View, copy: impl Fn(u32) -> NodeData) {
        let mut places = Places::new(thread, view, ROOT);
        for node in 0..thread.nodes.len() {
            let mut data = copy(node);
            if data.count > 0 && is_metadata_state(thread, node) {
                // Viewers drop such a node, and with it a scope that has no other child.
                data = NodeData { metrics: data.metrics, ..NodeData::default() };
            }
            if !data.is_empty() {
                let place = places.find(self, node);
                self.at(place).add(&data);
            }
        }
    }

    fn absorb_open(&mut self, thread: &ThreadTree, view: View, frames: &[OpenFrame], now: u64) {
        let mut places = Places::new(thread, view, ROOT);
        let mut inner_nanos = 0;
        // Innermost first, so that each knows what its open child takes.
        for frame in frames.iter().rev().filter(|frame| local::is_running_entry(frame)) {
            let nanos = clock::nanos(now.saturating_sub(frame.start_ticks));
            if frame.sessions & bit(view.slot) != 0 {
                let node = match view.context {
                    ContextSource::Shadow => frame.shadow_node,
                    ContextSource::Python => frame.python_node,
                };
                let place = places.find(self, node);
                let wall = &mut self.at(place).wall;
                wall.open += 1;
                wall.total_nanos += nanos;
                wall.own_nanos += nanos.saturating_sub(frame.child_nanos + inner_nanos);
            }
            inner_nanos = nanos;
        }
    }

    fn at(&mut self, place: u32) -> &mut MergedNode {
        let place = if (place as usize) < self.nodes.len() { place } else { ROOT };
        &mut self.nodes[place as usize]
    }

    /// Adds the times of a kernel on one device at a place, or, unless its name is 0, below it.
    ///
    /// A node has one device, as the format of files asks: on each further one, a kernel is a node of
    /// its own.
    pub(crate) fn add_kernel(&mut self, place: u32, name: u32, device: u32, times: &NodeData) {
        let node = match name {
            0 => place,
            name => self.child(place, name, NodeKind::Kernel),
        };
        let node = self.of_device(node, device);
        self.at(node).add_kernel(device, &Wall::of(times));
    }

    fn of_device(&mut self, node: u32, device: u32) -> u32 {
        let is_free = self.at(node).devices.iter().all(|&(other, _)| other == device);
        if is_free {
            return node;
        }
        if let Some(&other) = self.others.get(&(node, device)) {
            return other;
        }
        let MergedNode { name, parent, .. } = *self.at(node);
        let other = self.push(parent, name, NodeKind::Kernel);
        self.others.insert((node, device), other);
        other
    }

    fn push(&mut self, parent: u32, name: u32, kind: NodeKind) -> u32 {
        let node = self.nodes.len() as u32;
        self.nodes.push(MergedNode::new(name, kind, parent));
        self.at(parent).children.push(node);
        node
    }

    /// Adds another tree.
    pub(crate) fn absorb_tree(&mut self, other: &Self) {
        let mut open = vec![(ROOT, ROOT)];
        while let Some((theirs, ours)) = open.pop() {
            let Some(node) = other.node(theirs) else { continue };
            for (name, value) in &node.metrics {
                self.at(ours).add_metric(name, value);
            }
            self.at(ours).wall.add_wall(&node.wall);
            let mut place = ours;
            for (device, times) in &node.devices {
                place = self.of_device(place, *device);
                self.at(place).add_kernel(*device, times);
            }
            for &child in &node.children {
                let Some(node) = other.node(child) else { continue };
                let first = self.child(ours, node.name, node.kind);
                open.push((child, first));
            }
        }
    }

    pub(crate) fn child(&mut self, parent: u32, name: u32, kind: NodeKind) -> u32 {
        if let Some(&child) = self.index.get(&(parent, name, kind)) {
            return child;
        }
        let child = self.push(parent, name, kind);
        self.index.insert((parent, name, kind), child);
        child
    }
}

fn is_metadata_state(thread: &ThreadTree, node: u32) -> bool {
    thread.nodes.get(node).is_some_and(|node| {
        node.kind() == NodeKind::State && names::name(node.name()).starts_with(METADATA_STATE)
    })
}

/// Where a thread's nodes are in a merged tree; found as needed, so that only nodes with data and
/// those above them come in.
pub(crate) struct Places<'a> {
    thread: &'a ThreadTree,
    session: u64,
    known: HashMap<u32, u32>,
}

impl<'a> Places<'a> {
    /// Those of a thread whose roots are at `base`.
    pub(crate) fn new(thread: &'a ThreadTree, view: View, base: u32) -> Self {
        let known = HashMap::from([(SHADOW_ROOT, base), (PYTHON_ROOT, base)]);
        Self { thread, session: bit(view.slot), known }
    }

    /// A node that the session did not see stands for its parent.
    pub(crate) fn find(&mut self, tree: &mut MergedTree, node: u32) -> u32 {
        let mut path = Vec::new();
        let mut at = node;
        let mut place = loop {
            if let Some(&place) = self.known.get(&at) {
                break place;
            }
            path.push(at);
            at = self.thread.nodes.get(at).map_or(SHADOW_ROOT, crate::tree::Node::parent);
        };
        for at in path.into_iter().rev() {
            if let Some(node) = self.thread.nodes.get(at)
                && node.sessions() & self.session != 0
            {
                place = tree.child(place, node.name(), node.kind());
            }
            self.known.insert(at, place);
        }
        place
    }
}
