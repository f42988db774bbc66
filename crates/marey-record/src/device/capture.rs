//! Where the kernels of graphs were captured.
//!
//! A graph is launched from one place, and its kernels were written at others: those that captured
//! them. A kernel's path is the place of the launch, `<captured_at>`, and the place of the capture.

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

/// A place that captured kernels.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) tree: Arc<ThreadTree>,
    pub(crate) shadow_node: u32,
    pub(crate) python_node: u32,
    /// Whether the node stands for the kernel itself.
    pub(crate) is_named: bool,
}

/// The places that captured kernels, and which nodes of graphs they made.
#[derive(Debug, Default)]
pub(super) struct Sites {
    /// A place's number is its position plus one.
    places: Vec<Site>,
    numbers: HashMap<(u64, u32, u32), u32>,
    graph_nodes: HashMap<u64, GraphNode, NumberHash>,
    /// Destroyed nodes, oldest first, each after the mark at its destruction. Their activities may not have
    /// been read yet.
    destroyed: VecDeque<(u32, u64)>,
}

/// A node of a graph.
#[derive(Clone, Copy, Debug)]
struct GraphNode {
    /// The number of the place that captured it.
    site: u32,
    is_destroyed: bool,
}

static SITES: Mutex<Option<Sites>> = Mutex::new(None);

/// Graph nodes that are remembered; a program that makes graphs for ever destroys them, too.
const MOST_GRAPH_NODES: usize = 1 << 20;

/// Destroyed nodes that are kept until the next flush.
const MOST_DESTROYED: usize = 1 << 18;

impl Sites {
    /// The place with this number.
    pub(super) fn get(&self, number: u32) -> Option<&Site> {
        self.places.get(number.checked_sub(1)? as usize)
    }

    /// Number of the place that captured a node of a graph; 0 for none.
    pub(super) fn number_of(&self, graph_node: u64) -> u32 {
        self.graph_nodes.get(&graph_node).map_or(0, |node| node.site)
    }

    fn number(&mut self, site: Site) -> u32 {
        let key = (site.tree.generation, site.shadow_node, site.python_node);
        *self.numbers.entry(key).or_insert_with(|| {
            self.places.push(site);
            self.places.len() as u32
        })
    }

    fn remember(&mut self, graph_node: u64, number: u32) {
        let is_known = self.graph_nodes.contains_key(&graph_node);
        if !is_known && self.graph_nodes.len() >= MOST_GRAPH_NODES {
            self.forget_oldest();
        }
        if is_known || self.graph_nodes.len() < MOST_GRAPH_NODES {
            self.graph_nodes.insert(graph_node, GraphNode { site: number, is_destroyed: false });
        } else {
            losses::count(LossCause::GraphNodes);
        }
    }

    fn destroy(&mut self, graph_node: u64, mark: u32) {
        let Some(node) = self.graph_nodes.get_mut(&graph_node) else { return };
        node.is_destroyed = true;
        self.destroyed.push_back((mark, graph_node));
        if self.destroyed.len() > MOST_DESTROYED {
            self.forget_oldest();
        }
    }

    fn forget_destroyed_before(&mut self, mark: u32) {
        while self.destroyed.front().is_some_and(|&(of, _)| of < mark) {
            self.forget_oldest();
        }
    }

    /// Forgets the node that was destroyed first, unless its number is another node's by now.
    fn forget_oldest(&mut self) {
        let Some((_, oldest)) = self.destroyed.pop_front() else { return };
        if self.graph_nodes.get(&oldest).is_some_and(|node| node.is_destroyed) {
            self.graph_nodes.remove(&oldest);
        }
    }
}

fn sites() -> Locked<'static, Option<Sites>> {
    lock(&SITES)
}

/// Runs something on the places, which nothing is captured to meanwhile.
pub(super) fn with<T>(run: impl FnOnce(&Sites) -> T) -> T {
    run(sites().get_or_insert_default())
}

/// The launch that the calling thread is in has become a node of a graph.
pub fn captured(graph_node: u64) {
    let Some(site) = local::event(Local::capture_site) else { return };
    let mut sites = sites();
    let sites = sites.get_or_insert_default();
    let number = sites.number(site);
    sites.remember(graph_node, number);
}

/// A node of a graph was copied, as when a graph is made executable.
pub fn cloned(original: u64, copy: u64) {
    let mut sites = sites();
    let sites = sites.get_or_insert_default();
    let number = sites.number_of(original);
    if number != 0 {
        sites.remember(copy, number);
    }
}

/// A node of a graph is destroyed. Its activities may be read later.
pub fn destroyed(graph_node: u64) {
    if let Some(sites) = sites().as_mut() {
        sites.destroy(graph_node, CONTROL.mark.load(Ordering::SeqCst) as u32);
    }
}

/// Forgets nodes that were destroyed before this mark, as all their activities have been read.
pub fn forget_destroyed_before(mark: u32) {
    if let Some(sites) = sites().as_mut() {
        sites.forget_destroyed_before(mark);
    }
}

/// Recording starts from nothing: the trees that places are in are void.
pub(super) fn begin_epoch() {
    *sites() = None;
}

/// Holds the lock over a fork.
pub(super) fn hold() -> impl Sized {
    sites()
}
