//! The capture sites of the kernels in CUDA graphs.
//!
//! A graph is launched at one site, but its kernels were captured at others. The path of such a
//! kernel is the path of the launch, then `<captured_at>`, then the path of the capture.

use crate::control::CONTROL;
use crate::local::{self, Local};
use crate::lock::{Locked, lock};
use crate::losses;
use crate::number_hash::NumberHash;
use crate::thread::ThreadTree;
use marey_model::loss::LossCause;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// The context nodes at which a kernel was captured.
#[derive(Clone, Debug)]
pub(crate) struct CaptureSite {
    pub(crate) tree: Arc<ThreadTree>,
    pub(crate) shadow_node: u32,
    pub(crate) python_node: u32,
    /// Whether the node stands for the kernel itself.
    pub(crate) is_named: bool,
}

/// The capture sites, and the graph nodes captured at each.
#[derive(Debug, Default)]
pub(super) struct CaptureSites {
    /// The number of a site is its index plus one.
    by_number: Vec<CaptureSite>,
    /// The numbers of the sites, by the generation of the tree and the two nodes.
    numbers: HashMap<(u64, u32, u32), u32>,
    graph_nodes: HashMap<u64, GraphNode, NumberHash>,
    /// The destroyed nodes, oldest first, each with the stamp at its destruction. They are kept
    /// because their activities may not have been read yet.
    destroyed: VecDeque<(u32, u64)>,
}

/// A graph node.
#[derive(Clone, Copy, Debug)]
struct GraphNode {
    /// The number of its capture site.
    site_number: u32,
    is_destroyed: bool,
}

static SITES: Mutex<Option<CaptureSites>> = Mutex::new(None);

/// The maximum number of graph nodes kept. A program that keeps making graphs also destroys them.
const MAX_GRAPH_NODES: usize = 1 << 20;

/// The maximum number of destroyed nodes kept until the next flush.
const MAX_DESTROYED: usize = 1 << 18;

impl CaptureSites {
    /// Returns the site with this number.
    pub(super) fn get(&self, number: u32) -> Option<&CaptureSite> {
        self.by_number.get(number.checked_sub(1)? as usize)
    }

    /// Returns the number of the site at which a graph node was captured, 0 for none.
    pub(super) fn site_number(&self, graph_node: u64) -> u32 {
        self.graph_nodes.get(&graph_node).map_or(0, |node| node.site_number)
    }

    fn intern(&mut self, site: CaptureSite) -> u32 {
        let key = (site.tree.generation, site.shadow_node, site.python_node);
        *self.numbers.entry(key).or_insert_with(|| {
            self.by_number.push(site);
            self.by_number.len() as u32
        })
    }

    fn insert(&mut self, graph_node: u64, site_number: u32) {
        let is_known = self.graph_nodes.contains_key(&graph_node);
        if !is_known && self.graph_nodes.len() >= MAX_GRAPH_NODES {
            self.remove_oldest();
        }
        if is_known || self.graph_nodes.len() < MAX_GRAPH_NODES {
            self.graph_nodes.insert(graph_node, GraphNode { site_number, is_destroyed: false });
        } else {
            losses::count(LossCause::GraphNodes);
        }
    }

    fn destroy(&mut self, graph_node: u64, stamp: u32) {
        let Some(node) = self.graph_nodes.get_mut(&graph_node) else { return };
        node.is_destroyed = true;
        self.destroyed.push_back((stamp, graph_node));
        if self.destroyed.len() > MAX_DESTROYED {
            self.remove_oldest();
        }
    }

    fn forget_destroyed_before(&mut self, stamp: u32) {
        while self.destroyed.front().is_some_and(|&(destroyed_stamp, _)| destroyed_stamp < stamp) {
            self.remove_oldest();
        }
    }

    /// Removes the node that was destroyed first, unless its id has been reused for a new node.
    fn remove_oldest(&mut self) {
        let Some((_, oldest)) = self.destroyed.pop_front() else { return };
        if self.graph_nodes.get(&oldest).is_some_and(|node| node.is_destroyed) {
            self.graph_nodes.remove(&oldest);
        }
    }
}

fn sites() -> Locked<'static, Option<CaptureSites>> {
    lock(&SITES)
}

/// Runs a closure with the sites locked.
pub(super) fn with_sites<T>(run: impl FnOnce(&CaptureSites) -> T) -> T {
    run(sites().get_or_insert_default())
}

/// Returns the site with this number.
pub(crate) fn capture_site(number: u32) -> Option<CaptureSite> {
    with_sites(|sites| sites.get(number).cloned())
}

/// Records that the launch in progress on the calling thread has become this graph node.
pub fn record_captured_node(graph_node: u64) {
    let Some(site) = local::event(Local::capture_site) else { return };
    let mut sites = sites();
    let sites = sites.get_or_insert_default();
    let site_number = sites.intern(site);
    sites.insert(graph_node, site_number);
}

/// Records that a graph node was copied, as on instantiation of a graph.
pub fn record_cloned_node(original: u64, copy: u64) {
    let mut sites = sites();
    let sites = sites.get_or_insert_default();
    let site_number = sites.site_number(original);
    if site_number != 0 {
        sites.insert(copy, site_number);
    }
}

/// Records that a graph node is destroyed. Its activities may be read later.
pub fn record_destroyed_node(graph_node: u64) {
    if let Some(sites) = sites().as_mut() {
        sites.destroy(graph_node, CONTROL.stamp.load(Ordering::SeqCst) as u32);
    }
}

/// Removes nodes that were destroyed before this stamp. All their activities have been read.
pub fn forget_destroyed_before(stamp: u32) {
    if let Some(sites) = sites().as_mut() {
        sites.forget_destroyed_before(stamp);
    }
}

/// Removes all sites, whose trees are invalid in a new epoch.
pub(super) fn begin_epoch() {
    *sites() = None;
}

/// Takes the lock for the duration of a fork.
pub(super) fn lock_for_fork() -> impl Sized {
    sites()
}
