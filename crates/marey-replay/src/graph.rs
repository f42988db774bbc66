//! CUDA graphs: captured on a stream, instantiated, launched. Node ids differ between a graph and
//! its copies; records contain those of the executable graph.

use crate::api::{self, CallArguments};
use crate::callback::{GraphData, notify_described, resource};
use crate::context::Context;
use crate::ffi::Handle;
use crate::operation::{GraphIds, Operation, TargetIds, Work};
use crate::output::{self, output};
use crate::record::{GraphRecord, kind};
use crate::{activity, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

static NEXT_GRAPH: AtomicU32 = AtomicU32::new(1);
static NEXT_NODE: AtomicU64 = AtomicU64::new(1);

/// Resets the ids.
pub(crate) fn reset() {
    NEXT_GRAPH.store(1, Relaxed);
    NEXT_NODE.store(1, Relaxed);
}

/// A graph node.
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
            Work::Fill(_) => 2,
        }
    }
}

/// A graph.
pub(crate) struct Graph {
    pub id: u32,
    pub nodes: Mutex<Vec<Handle<Node>>>,
}

/// An executable graph: an instantiated copy of a graph.
pub(crate) struct ExecutableGraph {
    pub id: u32,
    source_graph_id: u32,
    /// The copied graph.
    graph: Handle<Graph>,
    /// Pairs of nodes: copy and original.
    nodes: Vec<(Handle<Node>, Handle<Node>)>,
}

impl Graph {
    pub(crate) fn begin(context: Handle<Context>) -> Handle<Self> {
        let graph = Handle::new(Self::empty());
        let data = GraphData { graph, ..GraphData::default() };
        notify_described(resource::GRAPH_CREATED, context, &data);
        graph
    }

    fn empty() -> Self {
        Self { id: NEXT_GRAPH.fetch_add(1, Relaxed), nodes: Mutex::new(Vec::new()) }
    }
}

fn new_node(operation: Operation) -> Handle<Node> {
    Handle::new(Node { id: NEXT_NODE.fetch_add(1, Relaxed), operation })
}

/// Appends an operation to a graph as a node.
pub(crate) fn add_node(graph: Handle<Graph>, operation: Operation, context: Handle<Context>) {
    let Some(captured) = graph.get() else { return };
    let node = new_node(operation);
    lock(&captured.nodes).push(node);
    let node_kind = node.get().map_or(0, Node::kind);
    let data = GraphData { graph, node, node_kind, ..GraphData::default() };
    notify_described(resource::NODE_CREATED, context, &data);
}

/// Instantiates a graph, through a copy.
pub(crate) fn instantiate(
    original: Handle<Graph>,
    arguments: CallArguments,
) -> Handle<ExecutableGraph> {
    let Some(source) = original.get() else { return Handle::NULL };
    let mut instantiated = Handle::NULL;
    api::call(&api::INSTANTIATE_GRAPH, arguments, |_| {
        // The copy gets the id that the executable graph is about to have.
        let copy = Graph::empty();
        let id = copy.id;
        let nodes = lock(&source.nodes).clone();
        let nodes: Vec<_> = nodes
            .into_iter()
            .filter_map(|original| Some((new_node(original.get()?.operation), original)))
            .collect();
        lock(&copy.nodes).extend(nodes.iter().map(|(node, _)| *node));
        let graph = Handle::new(copy);
        let executable = Handle::new(ExecutableGraph {
            id,
            source_graph_id: source.id,
            graph,
            nodes: nodes.clone(),
        });
        let data = || GraphData { graph, original, executable, ..GraphData::default() };
        notify_described(resource::GRAPH_CLONED, arguments.context, &data());
        notify_described(resource::EXECUTABLE_CREATE_STARTING, arguments.context, &data());
        for (node, original_node) in nodes {
            let node_kind = node.get().map_or(0, Node::kind);
            let data = GraphData { node, original_node, node_kind, ..data() };
            notify_described(resource::NODE_CREATED, arguments.context, &data);
            notify_described(resource::NODE_CLONED, arguments.context, &data);
        }
        notify_described(resource::EXECUTABLE_CREATED, arguments.context, &data());
        instantiated = executable;
        0
    });
    instantiated
}

/// Parameters of `cuGraphLaunch`.
#[repr(C)]
struct LaunchParameters {
    executable: Handle<ExecutableGraph>,
    stream: usize,
}

/// Whether the records of a graph launch contain the ids of the graph and its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordIds {
    Written,
    Omitted,
}

/// Launches a graph: one call, with a record per node, or one for the whole graph if that kind is
/// enabled.
pub(crate) fn launch(
    executable: Handle<ExecutableGraph>,
    ids: RecordIds,
    target: TargetIds,
    stream: usize,
    arguments: CallArguments,
) -> i32 {
    let Some(launched) = executable.get() else { return crate::ffi::INVALID_VALUE };
    let parameters = LaunchParameters { executable, stream };
    let arguments =
        CallArguments { parameters: std::ptr::from_ref(&parameters).cast(), ..arguments };
    api::call(&api::LAUNCH_GRAPH, arguments, |correlation_id| {
        launched.run(ids, target, correlation_id);
        0
    })
}

/// Notifies subscribers that a graph and its nodes are about to be destroyed.
pub(crate) fn destroy(graph: Handle<Graph>, context: Handle<Context>) {
    let Some(destroyed) = graph.get() else { return };
    let data = GraphData { graph, ..GraphData::default() };
    notify_described(resource::GRAPH_DESTROY_STARTING, context, &data);
    for node in lock(&destroyed.nodes).clone() {
        let node_kind = node.get().map_or(0, Node::kind);
        let data = GraphData { graph, node, node_kind, ..GraphData::default() };
        notify_described(resource::NODE_DESTROY_STARTING, context, &data);
    }
}

impl ExecutableGraph {
    /// Notifies subscribers that the executable graph and its copy are about to be destroyed.
    pub(crate) fn destroy(&'static self, context: Handle<Context>) {
        let data =
            GraphData { graph: self.graph, executable: Handle::to(self), ..GraphData::default() };
        notify_described(resource::EXECUTABLE_DESTROY_STARTING, context, &data);
        destroy(self.graph, context);
    }

    fn run(&self, record_ids: RecordIds, target: TargetIds, correlation_id: u32) {
        let has_one_record = activity::is_enabled(kind::GRAPH_TRACE);
        let mut span: Option<(u64, u64)> = None;
        for (node, original) in &self.nodes {
            let (Some(node), Some(original)) = (node.get(), original.get()) else { continue };
            let (start_nanos, end_nanos) = if has_one_record {
                let operation = &node.operation;
                output().occupy(
                    target.device,
                    target.stream,
                    operation.gap_nanos,
                    operation.duration_nanos,
                )
            } else {
                let ids = match record_ids {
                    RecordIds::Omitted => GraphIds::default(),
                    RecordIds::Written => GraphIds {
                        graph: self.id,
                        node: node.id,
                        source_graph: self.source_graph_id,
                        source_node: original.id,
                    },
                };
                node.operation.run(target, ids, correlation_id)
            };
            span = Some((span.map_or(start_nanos, |(first, _)| first), end_nanos));
        }
        let Some((start_nanos, end_nanos)) = span.filter(|_| has_one_record) else { return };
        let record = GraphRecord {
            kind: kind::GRAPH_TRACE,
            correlation_id,
            start_nanos,
            end_nanos,
            device_id: target.device,
            graph_id: self.id,
            context_id: target.context,
            stream_id: target.stream,
            end_device_id: target.device,
            end_context_id: target.context,
            ..GraphRecord::default()
        };
        output::send(output(), record);
    }
}
