//! CUDA graphs: captured on a stream, made executable, launched. Nodes have ids of their own in each graph
//! that they are in, and records name the executable one's.

use crate::api::{self, About};
use crate::callback::{GraphData, resource, tell_described};
use crate::context::Context;
use crate::ffi::Handle;
use crate::operation::{GraphPlace, Operation, Place, Work};
use crate::output::{self, output};
use crate::record::{GraphRecord, kind};
use crate::{activity, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

static NEXT_GRAPH: AtomicU32 = AtomicU32::new(1);
static NEXT_NODE: AtomicU64 = AtomicU64::new(1);

/// Ids begin anew.
pub(crate) fn reset() {
    NEXT_GRAPH.store(1, Relaxed);
    NEXT_NODE.store(1, Relaxed);
}

/// Something that a graph does.
pub(crate) struct Node {
    pub id: u64,
    operation: Operation,
}

impl Node {
    /// `CUgraphNodeType`.
    const fn kind(&self) -> u32 {
        match self.operation.work {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Set(_) => 2,
        }
    }
}

/// A graph.
pub(crate) struct Graph {
    pub id: u32,
    pub nodes: Mutex<Vec<Handle<Node>>>,
}

/// A graph that can be launched: a copy of the one that it was made from.
pub(crate) struct Executable {
    pub id: u32,
    source: u32,
    /// The copy.
    graph: Handle<Graph>,
    /// Each node with the one that it was made from.
    nodes: Vec<(Handle<Node>, Handle<Node>)>,
}

impl Graph {
    pub(crate) fn begin(context: Handle<Context>) -> Handle<Self> {
        let graph = Handle::new(Self::empty());
        let data = GraphData { graph, ..GraphData::default() };
        tell_described(resource::GRAPH_CREATED, context, &data);
        graph
    }

    fn empty() -> Self {
        Self { id: NEXT_GRAPH.fetch_add(1, Relaxed), nodes: Mutex::new(Vec::new()) }
    }
}

fn new_node(operation: Operation) -> Handle<Node> {
    Handle::new(Node { id: NEXT_NODE.fetch_add(1, Relaxed), operation })
}

/// Puts an operation into a graph, as its next node.
pub(crate) fn add_node(graph: Handle<Graph>, operation: Operation, context: Handle<Context>) {
    let Some(held) = graph.get() else { return };
    let node = new_node(operation);
    lock(&held.nodes).push(node);
    let node_kind = node.get().map_or(0, Node::kind);
    let data = GraphData { graph, node, node_kind, ..GraphData::default() };
    tell_described(resource::NODE_CREATED, context, &data);
}

/// Makes a graph executable, by way of a copy.
pub(crate) fn instantiate(original: Handle<Graph>, about: About) -> Handle<Executable> {
    let Some(held) = original.get() else { return Handle::NULL };
    let mut made = Handle::NULL;
    api::call(&api::INSTANTIATE_GRAPH, about, |_| {
        // The copy has the id that the executable graph is about to have.
        let copy = Graph::empty();
        let id = copy.id;
        let nodes = lock(&held.nodes).clone();
        let nodes: Vec<_> = nodes
            .into_iter()
            .filter_map(|original| Some((new_node(original.get()?.operation), original)))
            .collect();
        lock(&copy.nodes).extend(nodes.iter().map(|(node, _)| *node));
        let graph = Handle::new(copy);
        let source = held.id;
        let executable = Handle::new(Executable { id, source, graph, nodes: nodes.clone() });
        let data = || GraphData { graph, original, executable, ..GraphData::default() };
        tell_described(resource::GRAPH_CLONED, about.context, &data());
        tell_described(resource::EXECUTABLE_CREATE_STARTING, about.context, &data());
        for (node, original_node) in nodes {
            let node_kind = node.get().map_or(0, Node::kind);
            let data = GraphData { node, original_node, node_kind, ..data() };
            tell_described(resource::NODE_CREATED, about.context, &data);
            tell_described(resource::NODE_CLONED, about.context, &data);
        }
        tell_described(resource::EXECUTABLE_CREATED, about.context, &data());
        made = executable;
        0
    });
    made
}

/// The parameters of `cuGraphLaunch`.
#[repr(C)]
struct LaunchParameters {
    executable: Handle<Executable>,
    stream: usize,
}

/// Launches a graph: one call, and a record of each node, or one of them all where the profiler wants that.
pub(crate) fn launch(
    executable: Handle<Executable>,
    at: Place,
    stream: usize,
    about: About,
) -> i32 {
    let Some(held) = executable.get() else { return crate::ffi::INVALID };
    let parameters = LaunchParameters { executable, stream };
    let about = About { parameters: std::ptr::from_ref(&parameters).cast(), ..about };
    api::call(&api::LAUNCH_GRAPH, about, |correlation| {
        held.run(at, correlation);
        0
    })
}

/// Tells that a graph is about to go, with its nodes.
pub(crate) fn destroy(graph: Handle<Graph>, context: Handle<Context>) {
    let Some(held) = graph.get() else { return };
    let data = GraphData { graph, ..GraphData::default() };
    tell_described(resource::GRAPH_DESTROY_STARTING, context, &data);
    for node in lock(&held.nodes).clone() {
        let node_kind = node.get().map_or(0, Node::kind);
        let data = GraphData { graph, node, node_kind, ..GraphData::default() };
        tell_described(resource::NODE_DESTROY_STARTING, context, &data);
    }
}

impl Executable {
    /// Tells that it is about to go, with its copy of the graph.
    pub(crate) fn destroy(&'static self, context: Handle<Context>) {
        let data =
            GraphData { graph: self.graph, executable: Handle::to(self), ..GraphData::default() };
        tell_described(resource::EXECUTABLE_DESTROY_STARTING, context, &data);
        destroy(self.graph, context);
    }

    fn run(&self, at: Place, correlation: u32) {
        let is_whole = activity::is_enabled(kind::GRAPH_TRACE);
        let mut whole: Option<(u64, u64)> = None;
        for (node, original) in &self.nodes {
            let (Some(node), Some(original)) = (node.get(), original.get()) else { continue };
            let (start, end) = if is_whole {
                let operation = &node.operation;
                output().occupy(at.device, at.stream, operation.gap_nanos, operation.nanos)
            } else {
                let place = GraphPlace {
                    graph: self.id,
                    node: node.id,
                    source_graph: self.source,
                    source_node: original.id,
                };
                node.operation.run(at, place, correlation)
            };
            whole = Some((whole.map_or(start, |(first, _)| first), end));
        }
        let Some((start, end)) = whole.filter(|_| is_whole) else { return };
        let record = GraphRecord {
            kind: kind::GRAPH_TRACE,
            correlation,
            start,
            end,
            device: at.device,
            graph: self.id,
            context: at.context,
            stream: at.stream,
            end_device: at.device,
            end_context: at.context,
            ..GraphRecord::default()
        };
        output::send(output(), record);
    }
}
